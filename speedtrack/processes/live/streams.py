"""The viewers of the streams, and the loop that queries the database once a second for all of them.

Everything here runs in one thread, except the queries, which have another thread and its database connection.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from django.db import InterfaceError, OperationalError, connections

from speedtrack.processes.live.subjects import LogWindow, SubjectState, look, window_of
from speedtrack.runs.results.logs import LogIndex

log = logging.getLogger(__name__)

QUEUE = 0  # the number of the queue among the subjects; runs have positive ones
EVERY_S = 1.0
REST_S = 0.1  # least time between two queries, however many viewers come
PING_S = 3.0  # a page that receives nothing for 7 seconds reports it (frontend/src/parts/stream.ts)
STALE_S = 3.0  # after this the last query no longer counts as current
PING = b"event: ping\ndata: {}\n\n"
DATABASE_AWAY = b": the database does not answer\n\n"  # no event, so the page notices; proxies end silent connections
RETRY = b"retry: 3000\n\n"
DATABASE_ERRORS = (OperationalError, InterfaceError)


class Subject:
    """A run, or the queue, with at least one viewer."""

    def __init__(self) -> None:
        self.viewers = 0
        self.state: SubjectState | None = None
        self.encoded = b""  #: the state
        self.is_known: bool | None = None  #: whether it exists; None: not queried yet
        self.index: LogIndex | None = None
        self.revision = 0  #: rises with its log
        self.windows: dict[int, asyncio.Future[LogWindow]] = {}  #: by first line
        self.changed = asyncio.Event()

    def tell(self) -> None:
        """Wake its viewers."""
        self.changed.set()
        self.changed = asyncio.Event()

    def take(self, state: SubjectState | None) -> None:
        if state != self.state or self.is_known is None:
            self.state, self.is_known = state, state is not None
            self.encoded = state.encode() if state else b""
            self.tell()

    def grow(self) -> None:
        self.revision += 1
        self.windows.clear()
        self.tell()


class Streams:
    """All subjects with viewers."""

    def __init__(self, every_s: float = EVERY_S, ping_s: float = PING_S) -> None:
        self.every_s, self.ping_s = every_s, ping_s
        self.subjects: dict[int, Subject] = {}
        self.thread = ThreadPoolExecutor(1, "looking")
        self.looked_at = 0.0  #: on the monotonic clock
        self.arrived = asyncio.Event()
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        """Query the database until the task is cancelled. While the database does not answer, log that and go on."""
        while True:
            await self.arrived.wait()
            self.arrived.clear()
            while self.subjects:
                try:
                    await self.look()
                except DATABASE_ERRORS as e:
                    log.warning("the database does not answer: %s", str(e).strip())
                    await self.in_thread(connections.close_all)
                except Exception:  # the next query may succeed, and other subjects must go on
                    log.exception("a look failed")
                await asyncio.sleep(REST_S)
                await wait_for(self.arrived, self.every_s - REST_S)
                self.arrived.clear()

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.thread, call, *arguments)

    async def look(self) -> None:
        """Query everything that is watched, and send what has changed to its viewers."""
        subjects = dict(self.subjects)
        runs = {number: subject.index for number, subject in subjects.items() if number != QUEUE}
        answer, fresh = await self.in_thread(look, runs, QUEUE in subjects)
        self.looked_at = monotonic()
        for number, subject in subjects.items():
            subject.index = fresh.get(number, subject.index)
            if number in answer.grown:
                subject.grow()
            subject.take(answer.queue if number == QUEUE else answer.runs.get(number))

    def enter(self, number: int) -> Subject:
        """Begin to watch a subject; ``leave`` ends it."""
        subject = self.subjects.setdefault(number, Subject())
        subject.viewers += 1
        if subject.is_known is None:
            self.arrived.set()
        return subject

    def leave(self, number: int) -> None:
        subject = self.subjects[number]
        subject.viewers -= 1
        if not subject.viewers:
            del self.subjects[number]

    async def window(self, subject: Subject, line: int) -> LogWindow:
        """The lines from ``line`` on, read once for all viewers."""
        if line not in subject.windows:
            subject.windows[line] = asyncio.ensure_future(self.in_thread(window_of, subject.index, line))
        try:
            return await asyncio.shield(subject.windows[line])
        except DATABASE_ERRORS:
            subject.windows.clear()  # a viewer that connects again reads again
            raise

    async def events(self, subject: Subject, last: str, viewer: int | None = None) -> AsyncIterator[bytes]:
        """The events after a viewer's last event, given by its id: for a run the next line of its log, else a version.

        A stream of a private project ends when the viewer is no longer a member.
        """
        line = int(last) if last.isdecimal() else 1
        revision, sent_state = -1, b""
        yield RETRY
        while not self.stopping.is_set():
            change, state = subject.changed, subject.state
            if state is None or not state.may_be_seen_by(viewer):
                return
            if subject.index is not None and revision != subject.revision:
                revision = subject.revision
                if line <= subject.index.total:
                    window = await self.window(subject, line)
                    line = window.following
                    yield event(b"log", str(line), window.document)
            if sent_state != subject.encoded:
                is_known = not sent_state and state.version == last
                sent_state = subject.encoded
                if not is_known:
                    yield event(b"state", state.version if subject.index is None else "", sent_state)
            if state.done and revision == subject.revision:
                return
            while not change.is_set():
                if not await wait_for(change, self.ping_s):
                    yield PING if monotonic() - self.looked_at < STALE_S else DATABASE_AWAY

    def stop(self) -> None:
        """End all events."""
        self.stopping.set()
        for subject in self.subjects.values():
            subject.tell()


def event(kind: bytes, number: str, data: bytes) -> bytes:
    """A server-sent event. ``number``: the id that a viewer has after it, if any."""
    return b"event: %b\n%bdata: %b\n\n" % (kind, b"id: %b\n" % number.encode() if number else b"", data)


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Return whether the event came within this time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
