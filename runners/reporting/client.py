"""The HTTP calls of a runner (docs/result-format.md), with bounded retries and a spool for results."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx

from runners.errors import LeaseLost, Permanent, RunnerError, Transient, Unauthorized
from runners.reporting.spool import Spool, SpooledCall

log = logging.getLogger(__name__)

Reply = TypeVar("Reply")

RETRY_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0


class Unreachable(Transient):
    """The server did not answer, or with a 5xx."""


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


class Client:
    """Calls of one machine to one server; safe to use from several threads.

    Every call raises Unreachable after bounded retries, LeaseLost on 409 and 404, Unauthorized on 401,
    Permanent with the server's message on any other refusal.
    """

    def __init__(
        self,
        url: str,
        token: str,
        spool: Spool,
        stopping: threading.Event,
        pauses_s: tuple[float, ...] = RETRY_PAUSES_S,
        instance: str = "",
    ) -> None:
        self.url = url.rstrip("/")
        self.instance = instance  # the same after a restart, by which the server knows that the run it had is lost
        self.spool = spool
        self.stopping = stopping
        self.pauses_s = pauses_s
        self._http = httpx.Client(
            base_url=f"{self.url}/api/runner/",
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(READ_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
            follow_redirects=False,
        )

    def close(self) -> None:
        self._http.close()

    def hello(self, version: str, boot_id: str, facts: dict[str, Any]) -> HelloReply:
        """Announces this machine once, without a retry."""
        answer = self._once("hello", {"version": version, "boot_id": boot_id, "facts": facts}, READ_TIMEOUT_S)
        try:
            return HelloReply(str(answer["machine"]), str(answer["queue"]))
        except KeyError as error:
            raise Permanent(
                f"{self.url}: hello was answered without {error}: is SPEEDTRACK_URL a SpeedTrack server?"
            ) from error

    def claim(self) -> dict[str, Any] | None:
        """A job, or None: no work. Without a retry: the caller releases the cores between two attempts."""
        return self._once("claim", {"instance": self.instance}, READ_TIMEOUT_S) or None

    def renew(self, run: int, token: int, progress: dict[str, Any] | None, timeout_s: float) -> RenewalReply:
        """Renews the lease once, without a retry; takes at most twice `timeout_s`."""
        answer = self._once(f"runs/{run}/renew", {"token": token, "progress": progress}, timeout_s)
        return RenewalReply(float(answer["lease_s"]), bool(answer["cancel"]))

    def log(self, run: int, token: int, seq: int, phase: str, text: str) -> None:
        self._post(f"runs/{run}/log", {"token": token, "seq": seq, "phase": phase, "text": text})

    def build(self, run: int, token: int, build: dict[str, Any], environment: dict[str, Any]) -> str | None:
        """Reports a build. Returns the commit whose run measured the same program, if this run need not measure."""
        answer = self._post(f"runs/{run}/build", {"token": token, "build": build, "environment": environment})
        return str(answer["linked"]["sha"]) if answer.get("linked") else None

    def measurement(self, run: int, document: dict[str, Any]) -> None:
        """Stores a measurement on disk and sends what is waiting there; an unreachable server is no error."""
        self._deliver(f"runs/{run}/measurement", document)

    def profile(self, run: int, document: dict[str, Any]) -> None:
        """Stores a profile on disk and sends what is waiting there; for errors see `measurement`."""
        self._deliver(f"runs/{run}/profile", document)

    def complete(self, run: int, token: int) -> None:
        """Ends the run as a success, after all earlier calls in the spool; for errors see `measurement`."""
        self._deliver(f"runs/{run}/complete", {"token": token})

    def fail(self, run: int, token: int, kind: str, error: str) -> None:
        self._deliver(f"runs/{run}/fail", {"token": token, "kind": kind, "error": error})

    def source(self, run: int, sha: str, token: int, file: Path) -> None:
        """Downloads the commit's files as a tar to `file`."""
        self.retried(lambda: self._download(f"runs/{run}/source/{sha}", {"token": token}, file))

    def flush(self) -> None:
        """Sends all calls of the spool, oldest first. Raises Unreachable or Unauthorized."""
        for entry in self.spool.waiting():
            try:
                self._send(entry)
            except LeaseLost as error:
                log.info("spool: %s is dropped: %s", entry.path, error)
            except Permanent:
                continue  # _send has logged it and set it aside

    def _deliver(self, path: str, body: dict[str, Any]) -> None:
        try:
            newest = self.spool.put(path, body)
        except OSError as error:
            log.error("spool: %s; sent without a copy on disk", error)
            self._post(path, body)
            return
        for entry in self.spool.waiting():
            try:
                self._send(entry)
            except Unreachable as error:
                log.warning("%s: kept in the spool and sent later", error)
                return
            except (LeaseLost, Permanent):
                if entry.file == newest.file:
                    raise

    def _send(self, entry: SpooledCall) -> None:
        try:
            self._post(entry.path, entry.body)
        except LeaseLost:
            self.spool.delivered(entry)
            raise
        except Permanent as error:
            log.error("the server refuses %s: %s (kept beside the spool as *.rejected)", entry.path, error)
            self.spool.rejected(entry)
            raise
        self.spool.delivered(entry)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self.retried(lambda: self._once(path, body, READ_TIMEOUT_S))

    def retried(self, call: Callable[[], Reply]) -> Reply:
        """Makes a call, again after growing pauses while the server cannot be reached."""
        for pause_s in self.pauses_s:
            try:
                return call()
            except Unreachable:
                if self.stopping.wait(pause_s):
                    break
        return call()

    def _once(self, path: str, body: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S))
        try:
            answer = self._http.post(path, json=body, timeout=timeout)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error
        self._check(answer)
        return self._object(answer)

    def _download(self, path: str, query: dict[str, int], file: Path) -> None:
        try:
            with self._http.stream("GET", path, params=query) as answer, file.open("wb") as stream:
                if answer.status_code != 200:
                    answer.read()
                self._check(answer)
                for chunk in answer.iter_bytes():
                    stream.write(chunk)
        except httpx.RequestError as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: Exception) -> Unreachable:
        return Unreachable(f"{self.url} cannot be reached ({error or type(error).__name__})")

    def _check(self, answer: httpx.Response) -> None:
        if answer.is_success:
            return
        raise self._refusal(answer)

    def _refusal(self, answer: httpx.Response) -> RunnerError:
        message = _message(answer)
        match answer.status_code:
            case 401:
                return Unauthorized(f"{self.url} does not know this machine's token ({message})")
            case 404 if "/runs/" in answer.request.url.path:
                return NoSuchRun(f"no such run ({message})")
            case 409:
                return LeaseLost(f"the lease is lost ({message})")
            case 429 | 500 | 502 | 503 | 504:
                return Unreachable(f"{self.url} answers {answer.status_code} ({message})")
            case code if code >= 500:
                return Unreachable(f"{self.url} answers {code} ({message})")
            case code:
                return Permanent(f"{answer.request.url.path} was refused with {code}: {message}")

    def _object(self, answer: httpx.Response) -> dict[str, Any]:
        if answer.status_code == 204 or not answer.content:
            return {}
        try:
            document = answer.json()
        except ValueError as error:
            raise Permanent(f"{self.url} did not answer with JSON: is SPEEDTRACK_URL a SpeedTrack server?") from error
        if not isinstance(document, dict):
            raise Permanent(f"{self.url} did not answer with a JSON object: is SPEEDTRACK_URL a SpeedTrack server?")
        return document


def _message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["error"])
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase
