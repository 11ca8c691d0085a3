"""The HTTP calls to the server (docs/result-format.md), each made once, and the errors for its answers."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import httpx

import runners
from runners import traces
from runners.errors import LeaseLost, Permanent, RunnerError, Transient, Unauthorized, WrongVersion

CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0
TOO_LARGE = 413  # no proxy takes that body later, either
VERSION = {"version": runners.__version__, "protocol": runners.PROTOCOL}


class Unreachable(Transient):
    """The server did not answer, or answered with 5xx, or another program answered in its place."""


class NoSuchRun(LeaseLost):
    """404: the run no longer exists."""


@dataclass(frozen=True)
class HelloReply:
    machine: str
    queue: str


@dataclass(frozen=True)
class RenewalReply:
    lease_s: float
    cancel: bool
    rotate: bool


@dataclass(frozen=True)
class IdleState:
    """Why an idle runner takes no run; the server shows it on its pages.

    `unable`: why it cannot work; operators are mailed about it. `waits`: what it waits for, as the end of "waits for
    ...". `ended`: why it has ended, as the end of "its runner ...".
    """

    unable: str = ""
    waits: str = ""
    ended: str = ""


class ServerConnection:
    """Calls of one machine to one server, each made once; safe to use from several threads.

    Every call raises Unreachable, LeaseLost on 409 and 404, Unauthorized on 401, WrongVersion on 426, and Permanent
    with the server's message on any other refusal. An answer that SpeedTrack does not give is that of a proxy, or of
    whatever holds its address meanwhile, and refuses nothing.
    """

    def __init__(self, url: str, token: str) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self._http = httpx.Client(
            base_url=f"{self.url}/api/runner/",
            timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            follow_redirects=False,
            event_hooks={"request": [traces.name_span]},
        )

    def close(self) -> None:
        self._http.close()

    def hello(self, boot_id: str, facts: dict[str, Any]) -> HelloReply:
        """Announces this machine."""
        return self._introduced("hello", {**VERSION, "boot_id": boot_id, "facts": facts})

    def enroll(self, code: str) -> HelloReply:
        """Exchanges an enrolment code for this connection's token."""
        return self._introduced("enroll", {**VERSION, "code": code, "token": self.token})

    def succeed(self, token: str) -> None:
        """Registers another token of this machine, which the server accepts from now on as well."""
        self._once("token", {"token": token})

    def beat(self, state: IdleState, timeout_s: float) -> bool:
        """Reports an idle runner, and why it takes no run, if it cannot.

        Returns whether its token must be replaced.
        """
        return bool(self._once("beat", asdict(state), timeout_s).get("rotate"))

    def renew(
        self, run: int, token: int, progress: dict[str, Any] | None, reasons: dict[str, Any], timeout_s: float
    ) -> RenewalReply:
        """Renews the lease, and sends `reasons` such as that the work hangs; takes at most twice `timeout_s`."""
        answer = self._once(f"runs/{run}/renew", {"token": token, "progress": progress, **reasons}, timeout_s)
        return RenewalReply(float(answer["lease_s"]), bool(answer["cancel"]), bool(answer.get("rotate")))

    def _introduced(self, path: str, body: dict[str, Any]) -> HelloReply:
        answer = self._once(path, body)
        try:
            return HelloReply(str(answer["machine"]), str(answer["queue"]))
        except KeyError as error:
            raise Permanent(
                f"{self.url}: {path} was answered without {error}: is SPEEDTRACK_URL a SpeedTrack server?"
            ) from error

    def _once(self, path: str, body: dict[str, Any], timeout_s: float = READ_TIMEOUT_S) -> dict[str, Any]:
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
        try:
            answer = self._http.post(path, json=body, timeout=timeout, headers=self._headers())
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        self._check(answer)
        return {} if answer.status_code == 204 else self._object(answer)

    def _download(self, path: str, query: dict[str, int], file: Path) -> None:
        try:
            stream = self._http.stream("GET", path, params=query, headers=self._headers())
            with stream as answer, file.open("wb") as content:
                if answer.status_code != 200:
                    answer.read()
                self._check(answer)
                if answer.headers.get("Content-Type") != "application/x-tar":
                    raise self._foreign(answer)
                for chunk in answer.iter_bytes():
                    content.write(chunk)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error

    def _headers(self) -> dict[str, str]:
        """The headers of a call, with the current token, which may be replaced while the runner works."""
        return {"Authorization": f"Bearer {self.token}"}

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self.url} cannot be reached ({error or type(error).__name__})")

    def _check(self, answer: httpx.Response) -> None:
        if answer.is_success:
            return
        raise self._refusal(answer)

    def _refusal(self, answer: httpx.Response) -> RunnerError:
        try:
            message = str(answer.json()["error"])
        except (ValueError, KeyError, TypeError):
            if answer.status_code != TOO_LARGE:
                return self._foreign(answer)
            message = f"{answer.reason_phrase}: raise the limit of the proxy before {self.url}"
        match answer.status_code:
            case 426:
                return WrongVersion(message)
            case 401:
                return Unauthorized(f"{self.url} does not know this machine's token ({message})")
            case 404 if "/runs/" in answer.request.url.path:
                return NoSuchRun(f"no such run ({message})")
            case 409:
                return LeaseLost(f"the lease is lost ({message})")
            case code if code == 429 or code >= 500:
                return Unreachable(f"{self.url} answers {code} ({message})")
            case code:
                return Permanent(f"{answer.request.url.path} was refused with {code}: {message}")

    def _foreign(self, answer: httpx.Response) -> Unreachable:
        target = f" to {answer.headers['Location']}" if "Location" in answer.headers else ""
        status = f"{answer.status_code} {answer.reason_phrase}{target}"
        return Unreachable(f"{self.url}: a proxy or another program answers {status} in SpeedTrack's place")

    def _object(self, answer: httpx.Response) -> dict[str, Any]:
        with suppress(ValueError):
            document = answer.json()
            if isinstance(document, dict):
                return document
        raise self._foreign(answer)
