"""The server side of the contract, played by a real HTTP server on the loopback that records every call."""

import io
import json
import tarfile
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TOKEN = "strn_1_test"
MOST_ATTEMPTS = 3  # of a run on a machine that is too busy
Answer = tuple[int, dict[str, Any] | str | None]  # a text is the page of another program


@dataclass(frozen=True)
class RecordedCall:
    path: str
    body: dict[str, Any]


@dataclass
class Api:
    """`jobs` are handed out one after the other; `sources` are the files of a commit by sha; `rules` may answer first.

    A run that fails since the machine was too busy to measure on is handed out again, and what its attempt sent is
    forgotten: the machine that runs tests is often busy.
    """

    jobs: list[dict[str, Any]] = field(default_factory=list)
    #: The attempts of the job that was handed out last, and how many calls there were before it.
    attempts: int = 0
    claimed: tuple[dict[str, Any], int] | None = None
    sources: dict[str, dict[str, str]] = field(default_factory=dict)
    rules: list[Callable[[RecordedCall], Answer | None]] = field(default_factory=list)
    calls: list[RecordedCall] = field(default_factory=list)
    arrived: threading.Condition = field(default_factory=threading.Condition)
    url: str = ""
    #: Whether any token is accepted, as that of a machine which is enrolled.
    open: bool = False

    def record(self, call: RecordedCall) -> None:
        with self.arrived:
            self.calls.append(call)
            self.arrived.notify_all()

    def of(self, name: str) -> list[RecordedCall]:
        """The recorded calls whose path ends so."""
        with self.arrived:
            return [call for call in self.calls if call.path.endswith(name)]

    def bodies(self, name: str) -> list[dict[str, Any]]:
        return [call.body for call in self.of(name)]

    def await_call(self, name: str, seconds: float = 300.0) -> RecordedCall:
        """The first call whose path ends so, once it has arrived."""
        with self.arrived:
            found = self.arrived.wait_for(lambda: any(call.path.endswith(name) for call in self.calls), seconds)
        assert found, f"no {name} within {seconds} s; calls: {[call.path for call in self.calls]}"
        return self.of(name)[0]

    def text(self, phase: str) -> str:
        """The log of one phase, put together by sequence number."""
        chunks = {body["seq"]: body["text"] for body in self.bodies("/log") if body["phase"] == phase}
        return "".join(chunks[seq] for seq in sorted(chunks))

    def answer(self, call: RecordedCall) -> Answer:
        for rule in self.rules:
            answer = rule(call)
            if answer is not None:
                return answer
        match call.path.rsplit("/", 1)[-1]:
            case "hello" | "enroll":
                return 200, {"machine": "m1", "queue": "machine.m1"}
            case "claim":
                return (200, self._claim()) if self.jobs else (204, None)
            case "fail" if "too busy to measure on" in call.body.get("error", ""):
                self._hand_out_again()
                return 200, {}
            case "renew":
                return 200, {"lease_s": 60, "cancel": False}
            case _:
                return 200, {}

    def _claim(self) -> dict[str, Any]:
        job = self.jobs.pop(0)
        self.attempts = self.attempts + 1 if self.claimed and self.claimed[0] is job else 1
        self.claimed = job, len(self.calls)
        return job

    def _hand_out_again(self) -> None:
        if self.claimed and self.attempts < MOST_ATTEMPTS:
            job, before = self.claimed
            self.jobs.insert(0, job)
            with self.arrived:
                del self.calls[before:]

    def tar(self, sha: str) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, text in sorted(self.sources[sha].items()):
                member = tarfile.TarInfo(name)
                member.size = len(text.encode())
                member.mode = 0o755 if text.startswith("#!") else 0o644
                tar.addfile(member, io.BytesIO(text.encode()))
        return buffer.getvalue()


def serve(api: Api) -> ThreadingHTTPServer:
    """Starts serving on a free port of the loopback; the caller shuts it down."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            call = RecordedCall(self.path.removeprefix("/api/runner/"), body)
            api.record(call)
            if not api.open and self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._send(401, {"error": "unknown token"})
                return
            self._send(*api.answer(call))

        def do_GET(self) -> None:
            sha = self.path.split("?")[0].rsplit("/", 1)[-1]
            call = RecordedCall(self.path.removeprefix("/api/runner/"), {})
            api.record(call)
            status, document = api.answer(call)
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                self._send(401, {"error": "unknown token"})
            elif call.path == "me" or document:
                self._send(status, document)
            else:
                self._send_bytes(200, "application/x-tar", api.tar(sha))

        def _send(self, status: int, document: dict[str, Any] | str | None) -> None:
            if document is None:
                self._send_bytes(status, "", b"")
            elif isinstance(document, str):
                self._send_bytes(status, "text/html", document.encode())
            else:
                self._send_bytes(status, "application/json", json.dumps(document).encode())

        def _send_bytes(self, status: int, media_type: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    api.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server
