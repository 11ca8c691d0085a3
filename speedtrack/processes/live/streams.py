"""The viewers of the streams, and the loop that queries the database once a second for all of them.

Everything here runs in one thread but the looks, which have a thread and a database connection of their own.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any

from django.db import InterfaceError, OperationalError, connections

from speedtrack.processes.live.things import LogWindow, State, look, window_of
from speedtrack.runs.results.logs import LogIndex

log = logging.getLogger(__name__)

QUEUE = 0  # the number of the queue among the things; runs have positive ones
EVERY_S = 1.0
REST_S = 0.1  # least time between two looks, however many viewers come
PING_S = 3.0  # a page that hears nothing for 7 seconds says so (frontend/src/parts/stream.ts)
STALE_S = 3.0  # after which the last look at the database no longer counts as the present
PING = b"event: ping\ndata: {}\n\n"
DATABASE_AWAY = b": the database does not answer\n\n"  # no event: the page shall notice; proxies end silent connections
RETRY = b"retry: 3000\n\n"
DATABASE_ERRORS = (OperationalError, InterfaceError)


class Thing:
    """A run, or the queue, with at least one viewer."""

    def __init__(self) -> None:
        self.viewers = 0
        self.state: State | None = None
        self.said = b""  #: the state, encoded
        self.is_known: bool | None = None  #: does it exist? None: it has not been looked at yet
        self.index: LogIndex | None = None
        self.revision = 0  #: rises with its log
        self.windows: dict[int, asyncio.Future[LogWindow]] = {}  #: by the line they begin with
        self.changed = asyncio.Event()

    def tell(self) -> None:
        """Wake its viewers."""
        self.changed.set()
        self.changed = asyncio.Event()

    def take(self, state: State | None) -> None:
        if state != self.state or self.is_known is None:
            self.state, self.is_known = state, state is not None
            self.said = state.encode() if state else b""
            self.tell()

    def grow(self) -> None:
        self.revision += 1
        self.windows.clear()
        self.tell()


class Streams:
    """All things with viewers."""

    def __init__(self, every_s: float = EVERY_S, ping_s: float = PING_S) -> None:
        self.every_s, self.ping_s = every_s, ping_s
        self.things: dict[int, Thing] = {}
        self.thread = ThreadPoolExecutor(1, "looking")
        self.looked_at = 0.0  #: on the monotonic clock
        self.arrived = asyncio.Event()
        self.stopping = asyncio.Event()

    async def run(self) -> None:
        """Look, until the task is cancelled. While the database does not answer, log that and go on."""
        while True:
            await self.arrived.wait()
            self.arrived.clear()
            while self.things:
                try:
                    await self.look()
                except DATABASE_ERRORS as e:
                    log.warning("the database does not answer: %s", str(e).strip())
                    await self.in_thread(connections.close_all)
                except Exception:  # the next look may do better, and viewers of other things are told of theirs
                    log.exception("a look failed")
                await asyncio.sleep(REST_S)
                await wait_for(self.arrived, self.every_s - REST_S)
                self.arrived.clear()

    async def in_thread(self, call: Callable[..., Any], *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self.thread, call, *arguments)

    async def look(self) -> None:
        """Query everything that is watched, and send what has changed to its viewers."""
        things = dict(self.things)
        runs = {number: thing.index for number, thing in things.items() if number != QUEUE}
        answer, fresh = await self.in_thread(look, runs, QUEUE in things)
        self.looked_at = monotonic()
        for number, thing in things.items():
            thing.index = fresh.get(number, thing.index)
            if number in answer.grown:
                thing.grow()
            thing.take(answer.queue if number == QUEUE else answer.runs.get(number))

    def enter(self, number: int) -> Thing:
        """Begin to watch a thing; ``leave`` ends it."""
        thing = self.things.setdefault(number, Thing())
        thing.viewers += 1
        if thing.is_known is None:
            self.arrived.set()
        return thing

    def leave(self, number: int) -> None:
        thing = self.things[number]
        thing.viewers -= 1
        if not thing.viewers:
            del self.things[number]

    async def window(self, thing: Thing, line: int) -> LogWindow:
        """The lines from ``line`` on, which are read once for all viewers."""
        if line not in thing.windows:
            thing.windows[line] = asyncio.ensure_future(self.in_thread(window_of, thing.index, line))
        try:
            return await asyncio.shield(thing.windows[line])
        except DATABASE_ERRORS:
            thing.windows.clear()  # whoever connects again reads again
            raise

    async def events(self, thing: Thing, last: str, viewer: int | None = None) -> AsyncIterator[bytes]:
        """The events for a viewer whose last event had this id: for a run the next lines of its log, else a version.

        A stream of a private project ends when the viewer is no longer a member.
        """
        line = int(last) if last.isdecimal() else 1
        revision, said = -1, b""
        yield RETRY
        while not self.stopping.is_set():
            changed, state = thing.changed, thing.state
            if state is None or not state.may_be_seen_by(viewer):
                return
            if thing.index is not None and revision != thing.revision:
                revision = thing.revision
                if line <= thing.index.total:
                    found = await self.window(thing, line)
                    line = found.following
                    yield event(b"log", str(line), found.document)
            if said != thing.said:
                is_known = not said and state.version == last
                said = thing.said
                if not is_known:
                    yield event(b"state", state.version if thing.index is None else "", said)
            if state.done and revision == thing.revision:
                return
            while not changed.is_set():
                if not await wait_for(changed, self.ping_s):
                    yield PING if monotonic() - self.looked_at < STALE_S else DATABASE_AWAY

    def stop(self) -> None:
        """Let all events end."""
        self.stopping.set()
        for thing in self.things.values():
            thing.tell()


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
