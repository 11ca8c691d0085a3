"""The log of a run: written by the work, sent to the server by a separate thread."""

import logging
import threading
import time
from contextvars import copy_context

from runners.errors import RunnerError
from runners.reporting.client import Client

log = logging.getLogger(__name__)

CHUNK_CHARACTERS = 64 * 1024
SEND_EVERY_S = 1.0
CLOSE_TIMEOUT_S = 20.0


class RunLog:
    """Collects text by phase and sends it in numbered chunks; an unreachable server does not delay the work.

    Chunks that cannot be delivered are dropped, with a line in the runner's own log: measurements matter more.
    """

    def __init__(self, client: Client, run: int, token: int) -> None:
        self._client, self._run, self._token = client, run, token
        self._pending: list[tuple[str, str]] = []
        self._changed = threading.Condition()
        self._closing = False
        self._seq = 0
        self._thread = threading.Thread(target=copy_context().run, args=(self._send_all,), name="run-log", daemon=True)
        self._thread.start()

    def write(self, phase: str, text: str) -> None:
        """Adds text to the log of a phase (`build <sha>` or `measure`)."""
        with self._changed:
            self._pending.append((phase, text))
            self._changed.notify()

    def line(self, phase: str, text: str) -> None:
        self.write(phase, f"{text}\n")

    def close(self) -> None:
        """Sends the rest; gives up after CLOSE_TIMEOUT_S."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _send_all(self) -> None:
        while chunk := self._next():
            phase, text = chunk
            try:
                self._client.log(self._run, self._token, self._seq, phase, text)
            except RunnerError as error:
                log.warning("run %d: a chunk of its log is lost: %s", self._run, error)
            self._seq += 1

    def _next(self) -> tuple[str, str] | None:
        """The next chunk of one phase; waits a moment for more text, to make fewer calls. None: closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closing)
            deadline = time.monotonic() + SEND_EVERY_S
            self._changed.wait_for(
                lambda: self._closing or self._size() >= CHUNK_CHARACTERS, max(0.0, deadline - time.monotonic())
            )
            return self._take() if self._pending else None

    def _size(self) -> int:
        return sum(len(text) for _, text in self._pending)

    def _take(self) -> tuple[str, str]:
        phase, pieces, size = self._pending[0][0], [], 0
        while self._pending and self._pending[0][0] == phase and size < CHUNK_CHARACTERS:
            text = self._pending.pop(0)[1]
            head, remainder = text[: CHUNK_CHARACTERS - size], text[CHUNK_CHARACTERS - size :]
            pieces.append(head)
            size += len(head)
            if remainder:
                self._pending.insert(0, (phase, remainder))
        return phase, "".join(pieces)
