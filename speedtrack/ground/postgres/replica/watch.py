"""The source of pages: the replica while it follows the primary, otherwise the primary, otherwise the one that answers.

The replica follows if it has replayed all writes of the primary, or a transaction of the last REPLICA_LAG_S.
Without writes the newest transaction may be old, and nothing is missing.
"""

import logging
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from django.conf import settings
from django.db import Error, InterfaceError, OperationalError, connections

from speedtrack.ground.postgres.replica.base import limited

log = logging.getLogger(__name__)

PRIMARY, REPLICA = "default", "replica"
AWAY = (OperationalError, InterfaceError)
POSITION = "SELECT pg_current_wal_lsn()::text"
# A replica that has just restarted has replayed no transaction; the age of its newest checkpoint is then the upper
# bound of its lag.
PROGRESS = """
SELECT pg_is_in_recovery(), coalesce(pg_last_wal_replay_lsn() >= %s::pg_lsn, false), newest, clock_timestamp() - newest
FROM pg_control_checkpoint(), coalesce(pg_last_xact_replay_timestamp(), checkpoint_time) AS newest
"""


class ReplicaState(StrEnum):
    UNKNOWN = "unknown"  # not queried yet
    FOLLOWS = "follows"
    BEHIND = "behind"
    PROMOTED = "promoted"  # no replica any more
    AWAY = "away"
    ALONE = "alone"  # the primary is away


# Seconds until the servers are queried again. Querying an absent one may take as long as its connect_timeout.
HOLDS_S = {
    ReplicaState.FOLLOWS: 2,
    ReplicaState.BEHIND: 2,
    ReplicaState.ALONE: 10,
    ReplicaState.PROMOTED: 30,
    ReplicaState.AWAY: 30,
}
LONGEST_HOLD_S = HOLDS_S[ReplicaState.FOLLOWS]


@dataclass(frozen=True)
class Source:
    """The state of the replica, with the sentence for readers of pages ("" for none) and the one for operators."""

    standing: ReplicaState
    note: str = ""
    detail: str = ""

    @property
    def alias(self) -> str:
        return REPLICA if self.standing in (ReplicaState.FOLLOWS, ReplicaState.ALONE) else PRIMARY


class ReplayProgress(NamedTuple):
    """``newest``: the commit time of the replica's newest transaction."""

    in_recovery: bool
    has_all: bool
    newest: datetime
    age: timedelta


def is_configured() -> bool:
    return REPLICA in connections.settings


def look() -> Source:
    """Query both servers."""
    position = primary_position()
    try:
        progress = replica_progress(position)
    except Error as e:
        connections[REPLICA].close()
        return Source(ReplicaState.AWAY, "Read from the primary: the replica does not answer.", first_line(e))
    age = f"{progress.age.total_seconds():,.0f} s"
    if position is None:
        newest = f"{progress.newest.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        return Source(
            ReplicaState.ALONE, f"The primary does not answer. The replica knows all until {newest}, {age} ago."
        )
    if not progress.in_recovery:
        return Source(ReplicaState.PROMOTED, "Read from the primary: the replica was promoted and follows it no more.")
    if progress.has_all or progress.age <= timedelta(seconds=settings.REPLICA_LAG_S):
        return Source(ReplicaState.FOLLOWS)
    return Source(ReplicaState.BEHIND, f"Read from the primary: the replica is {age} behind.")


def primary_position() -> str | None:
    """The end of the primary's write-ahead log, or None if the primary does not answer."""
    try:
        with limited(connections[PRIMARY]), connections[PRIMARY].cursor() as cursor:
            cursor.execute(POSITION)
            return str(cursor.fetchone()[0])
    except AWAY:
        connections[PRIMARY].close()
        return None


def replica_progress(position: str | None) -> ReplayProgress:
    with connections[REPLICA].cursor() as cursor:
        cursor.execute(PROGRESS, [position])
        return ReplayProgress(*cursor.fetchone())


def first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


class ReplicaWatch:
    """The present source. When it is old enough, one thread at a time determines it again."""

    def __init__(self) -> None:
        self.source = Source(ReplicaState.UNKNOWN)
        self.until = 0.0
        self.lock = threading.Lock()

    def choose(self) -> Source:
        """The present source. While one thread queries the servers, the others use the former source."""
        if time.monotonic() >= self.until and self.lock.acquire(blocking=False):
            try:
                self.change(look())
            finally:
                self.lock.release()
        return self.source

    def choose_anew(self) -> Source:
        """The source after a failure."""
        self.until = 0.0
        return self.choose()

    def change(self, source: Source) -> None:
        if source.standing != self.source.standing:
            level = logging.INFO if source.standing is ReplicaState.FOLLOWS else logging.WARNING
            log.log(level, "%s %s", source.note or "Pages are read from the replica.", source.detail)
        self.source, self.until = source, time.monotonic() + HOLDS_S[source.standing]
