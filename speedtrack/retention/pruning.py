"""Delete rows that are older than their policy allows, from the oldest day on, in many short transactions.

A finished day is not visited again (``Pruning.through``), so the next pruning only visits rows that have become old
since. If a pruning is ended, even by SIGKILL, nothing is lost: deleted rows stay deleted, and the next one begins with
the same day.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction
from django.db.models import Count, F, Func, IntegerField, Min, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Now

from speedtrack.ground.postgres import pgsession
from speedtrack.retention.models import Pruning
from speedtrack.retention.policies import Policy, PolicyPart, Rows

PRUNING_LOCK = 0x533A  # advisory: one pruning at a time
DAY = timedelta(days=1)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
COUNTED_AT_ONCE = 4000
READ_AT_ONCE = 10_000  # ids
MOST = 0.9  # share of the rows of a kind above which a policy asks
FEWEST_DAYS = 7  # below which a policy asks
ROW_BYTES = 28  # the header of a row, and its pointer in the page
DISK_FULL = "53100"


class PruningUnderWay(Exception):
    """Another session is pruning."""


class PruningFailed(Exception):
    """The database has ended a pruning; the message has cause and remedy."""


@dataclass(frozen=True)
class Doubt:
    """A reason to ask before a policy is applied.

    ``rows``: how many would be deleted, if that is the reason; otherwise None.
    """

    words: str
    rows: int | None = None


@dataclass(frozen=True)
class Forecast:
    """The deletions of a policy now. ``bytes``: without indexes; a table shrinks by them once it is rewritten."""

    rows: int
    bytes: int
    doubts: list[Doubt]


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Hold the lock of this database session. Raises PruningUnderWay if another session holds it."""
    with pgsession.holding(PRUNING_LOCK) as is_mine:
        if not is_mine:
            raise PruningUnderWay("another pruning is under way: this one ends and has deleted nothing")
        yield


@contextmanager
def failures_in_words(policy: Policy) -> Iterator[None]:
    try:
        yield
    except (OperationalError, InterfaceError) as e:
        raise PruningFailed(
            f"{policy.name}: {str(e).strip().splitlines()[0]}. {remedy(e)}; deleted rows stay deleted, and the next "
            "pruning continues there"
        ) from e


def remedy(error: DatabaseError | InterfaceError) -> str:
    if getattr(error.__cause__, "sqlstate", None) == DISK_FULL:
        return "Deleting needs some room, too: make room on PostgreSQL's disk, then prune again"
    return "See the log of PostgreSQL, then prune again"


def begin_of_keeping(policy: Policy) -> datetime:
    """The time before which rows may be deleted, by the database's clock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT now() - make_interval(days => %s)", [policy.days])
        at: datetime = cursor.fetchone()[0]
    return at if policy.days else LONG_AGO


def days_to_look_at(policy: Policy, until: datetime, again: bool) -> Iterator[tuple[datetime, datetime]]:
    """The days with rows, from the end of the last pruning, or ``again`` from the oldest row, to a time."""
    begin = LONG_AGO if again else end_of_last(policy)
    while (first := oldest(policy, begin)) is not None and first < until:
        begin = min(first + DAY, until)
        yield first, begin


def end_of_last(policy: Policy) -> datetime:
    """The time up to which the last pruning has looked at rows."""
    passed = Pruning.objects.filter(pk=policy.name, through__isnull=False).values_list("through", flat=True)
    return passed.first() or LONG_AGO


def oldest(policy: Policy, since: datetime) -> datetime | None:
    """The time of the oldest row from a time on, kept or not."""
    rows = [
        (policy_part.dated().filter(**{f"{policy_part.time}__gte": since}), policy_part.time)
        for policy_part in policy.parts
    ]
    times = [rows_since.aggregate(at=Min(time))["at"] for rows_since, time in rows]
    return min((at for at in times if at is not None), default=None)


def pieces(policy_part: PolicyPart, begin: datetime, end: datetime, size: int) -> Iterator[Sequence[int]]:
    """The ids of the part's rows between two times, ``size`` at once, without those that are kept."""
    rows = policy_part.dated().filter(**{f"{policy_part.time}__gte": begin, f"{policy_part.time}__lt": end})
    ids = rows.order_by("pk").values_list("pk", flat=True).iterator(READ_AT_ONCE)
    while batch := list(islice(ids, size)):
        stay = policy_part.kept(batch)
        yield [pk for pk in batch if pk not in stay]


def prune(policy: Policy, again: bool = False, go_on: Callable[[], bool] = lambda: True) -> tuple[int, bool]:
    """Apply a policy for as long as ``go_on`` allows. Return the number of deleted rows, and whether it is finished.

    Raises PruningFailed. The caller holds the lock.
    """
    deleted = 0
    with failures_in_words(policy):
        row, _ = Pruning.objects.get_or_create(pk=policy.name)
        until = begin_of_keeping(policy)
        for begin, end in days_to_look_at(policy, until, again):
            for policy_part in policy.parts:
                for ids in pieces(policy_part, begin, end, policy_part.at_once):
                    if not go_on():
                        return deleted, False
                    deleted += delete(policy_part, ids)
            Pruning.objects.filter(pk=row.pk).update(through=Greatest(F("through"), Value(end)))
        Pruning.objects.filter(pk=row.pk).update(through=Greatest(F("through"), until), done_at=Now(), problem="")
    return deleted, True


@transaction.atomic
def delete(policy_part: PolicyPart, ids: Sequence[int]) -> int:
    """Delete these rows and the rows that belong to them. Return the number of rows."""
    return sum(
        rows.update(**{policy_part.column: None}) if policy_part.column else rows.delete()[0]
        for rows in policy_part.going(ids)
    )


def forecast(policy: Policy, again: bool = False) -> Forecast:
    """The rows that ``prune`` would delete now. Raises PruningFailed."""
    count, size, doubts = 0, 0, []
    if 0 < policy.days < FEWEST_DAYS:
        doubts.append(Doubt(f"{policy.setting}={policy.days} is less than {FEWEST_DAYS} days"))
    with failures_in_words(policy):
        begin, end = LONG_AGO if again else end_of_last(policy), begin_of_keeping(policy)
        for policy_part in policy.parts:
            last = 0
            for ids in pieces(policy_part, begin, end, COUNTED_AT_ONCE):
                amounts = [amount(rows, policy_part.column) for rows in policy_part.going(ids)]
                count += sum(n for n, _ in amounts)
                size += sum(n for _, n in amounts)
                last += amounts[-1][0]
            doubts += doubts_about(policy_part, last)
    return Forecast(count, size, doubts)


def amount(rows: Rows, column: str) -> tuple[int, int]:
    """The number of these rows and their bytes; with ``column``, only the bytes of that column."""
    names = [column] if column else [field.attname for field in rows.model._meta.concrete_fields if field.column]
    bytes_of: Any = Value(0 if column else ROW_BYTES)
    for name in names:
        column_size = Func(F(name), function="pg_column_size", output_field=IntegerField())
        bytes_of = bytes_of + Coalesce(column_size, Value(0))
    sums = rows.aggregate(count=Count("*"), size=Coalesce(Sum(bytes_of, output_field=IntegerField()), Value(0)))
    return sums["count"], sums["size"]


def doubts_about(policy_part: PolicyPart, going: int) -> list[Doubt]:
    """Reasons to ask: nearly all rows of a kind would be deleted.

    Counts only as many rows as necessary, the newest first.
    """
    total = policy_part.every().order_by("-pk")[: int(going / MOST) + 1].count()
    if going <= MOST * total:
        return []
    kind = policy_part.every().model._meta.verbose_name_plural
    return [Doubt(f"it would delete {going:,} of {total:,} {kind}", going)]
