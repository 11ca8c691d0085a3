"""A small real server for the client's tests, and what they share."""

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from speedtrack_client.failures import Exit

Run = Callable[..., tuple[int, str, str]]  #: the command with these words: its exit code, output and errors
INSTALLATION = {"name": "SpeedTrack", "version": "0.9", "user": "ada", "scopes": ["read"]}
KVD = {"slug": "kvd", "repository": "https://example.org/kvd.git"}
GOLDEN = Path(__file__).parent / "golden" / "compare.v2.json"
PROBLEM = "application/problem+json"


class Server(ThreadingHTTPServer):
    """Answers by ``answers``: what a path, or one after the other each of a list, gets; it keeps what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Any] = {"/api/v1/": (200, INSTALLATION)}
        self.asked: list[tuple[str, str, dict[str, str], str]] = []
        self.url = f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        answer = self.server.answers.get(self.path.partition("?")[0], (404, "<html>"))
        if isinstance(answer, list):
            answer = answer.pop(0)
        if answer is None:
            self.close_connection = True
            self.connection.close()
            return
        status, document, *headers = answer
        self.send_response(status)
        kind = "text/html" if isinstance(document, str) else PROBLEM if status >= 400 else "application/json"
        content = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        for name, value in {"Content-Type": kind, "Content-Length": str(len(content)), **(headers or [{}])[0]}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        pass


def check_failure(code: int, err: str, *expected: int) -> None:
    assert code in expected and code != Exit.REGRESSION, (code, err)
    assert err.count("\n") == 1 and err.startswith("speedtrack: ") and "Traceback" not in err, err
