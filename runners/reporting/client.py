"""The calls of a runner, with bounded retries and a spool for results."""

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from runners import failpoints
from runners.errors import LeaseLost, Permanent
from runners.reporting.connection import VERSION, ServerConnection, Unreachable
from runners.reporting.spool import Spool, SpooledCall

log = logging.getLogger(__name__)

Reply = TypeVar("Reply")

RETRY_PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
LONGEST_REASON = 1000  # characters


class Client(ServerConnection):
    """Calls of one machine to one server; most of them are repeated while the server cannot be reached."""

    def __init__(
        self,
        url: str,
        token: str,
        spool: Spool,
        stopping: threading.Event,
        pauses_s: tuple[float, ...] = RETRY_PAUSES_S,
        instance: str = "",
    ) -> None:
        super().__init__(url, token)
        self.instance = instance  # the same after a restart, so the server knows that its former run is lost
        self.spool = spool
        self.stopping = stopping
        self.pauses_s = pauses_s

    def claim(self) -> dict[str, Any] | None:
        """A job, or None if there is no work.

        Not repeated: the caller releases the cores between two attempts.
        """
        return self._once("claim", {"instance": self.instance, **VERSION}) or None

    def log(self, run: int, token: int, seq: int, phase: str, text: str) -> None:
        self._post(f"runs/{run}/log", {"token": token, "seq": seq, "phase": phase, "text": text})

    def build(self, run: int, token: int, build: dict[str, Any], environment: dict[str, Any]) -> str | None:
        """Reports a build. Returns the commit whose run measured the same program, if this run need not measure."""
        answer = self._post(f"runs/{run}/build", {"token": token, "build": build, "environment": environment})
        return str(answer["linked"]["sha"]) if answer.get("linked") else None

    def measurement(self, run: int, document: dict[str, Any]) -> None:
        """Stores a measurement on disk and sends all waiting calls; an unreachable server is no error."""
        self._deliver(f"runs/{run}/measurement", document)

    def profile(self, run: int, document: dict[str, Any]) -> None:
        """Stores a profile on disk and sends all waiting calls; for errors see `measurement`."""
        self._deliver(f"runs/{run}/profile", document)

    def complete(self, run: int, token: int, out_of_reach: Mapping[str, str] | None = None) -> None:
        """Ends the run as a success, after all earlier calls in the spool; for errors see `measurement`.

        `out_of_reach`: the benchmarks that this machine cannot measure, and why.
        """
        reasons = {name: reason[:LONGEST_REASON] for name, reason in (out_of_reach or {}).items()}
        self._deliver(f"runs/{run}/complete", {"token": token, "out_of_reach": reasons})

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
        failpoints.reach(f"{newest.call}.spooled")
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
        failpoints.reach(f"{entry.call}.sent")
        self.spool.delivered(entry)
        failpoints.reach(f"{entry.call}.deleted")

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return self.retried(lambda: self._once(path, body))

    def retried(self, call: Callable[[], Reply]) -> Reply:
        """Makes a call, and repeats it after growing pauses while the server cannot be reached."""
        for pause_s in self.pauses_s:
            try:
                return call()
            except Unreachable:
                if self.stopping.wait(pause_s):
                    break
        return call()
