"""Short versions of the pages of runs and of the queue: a page is loaded again only when its version has changed."""

import hashlib
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from django.db import connection
from django.db.models import FilteredRelation, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.utils import timezone

from speedtrack.runs.models import ACTIVE, Machine, Run, Status
from speedtrack.runs.scheduling import standing

#: What the version of a run is made of.
OF_RUN = ("pk", "status", "attempt", "cancel_requested_at", "started_at", "progress", "error")
OF_MACHINE = ("pk", "paused", "quarantined_at", "retired_at", "runner_said")


def version_of(run: Run) -> str:
    """The version of a run's page; of a run that waits also by the state of its machine."""
    waits = run.status == Status.QUEUED
    return digest([*(getattr(run, name) for name in OF_RUN), *(version_of_machine(run.machine) if waits else ())])


def version_of_machine(machine: Machine) -> tuple[object, ...]:
    return (*(getattr(machine, name) for name in OF_MACHINE), standing.is_silent(machine, timezone.now()))


#: From the ends of three indexes: the newest run, the newest event of runs, and what detection has yet to see.
NEWEST = {
    "newest_run": "SELECT max(id) FROM runs_run",
    "newest_event": "SELECT max(id) FROM runs_runevent",
    "newest_undetected": "SELECT max(undetected_since)::text FROM runs_series WHERE undetected_since IS NOT NULL",
}


def newest_rows() -> tuple[object, ...]:
    """What changes when a run is queued, moves or ends, and when detection has seen what it measured."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT ({'), ('.join(NEWEST.values())})")
        return tuple(cursor.fetchone())


def version_now() -> str:
    """The version of all queues, for pages that show neither runs nor machines: by one statement.

    A server without machines has no runs either.
    """
    return version_of_all(with_version(Machine.objects.only(*OF_MACHINE, "last_seen_at")))


def with_version(machines: QuerySet[Any]) -> QuerySet[Any]:
    """Machines with what the version of all queues needs: a row for each, and for each run that one measures."""
    measured = FilteredRelation("runs", condition=Q(runs__status__in=ACTIVE))
    newest = {name: RawSQL(f"({query})", []) for name, query in NEWEST.items()}  # noqa: S611 - constants
    rows: QuerySet[Any] = machines.annotate(measured=measured, **newest).select_related("measured")
    return rows


def version_of_all(machines: Iterable[Any]) -> str:
    """The version of all queues. ``machines``: all, read ``with_version``."""
    rows = list(machines)
    active = [run for row in rows if (run := getattr(row, "measured", None))]
    newest_now = tuple(getattr(rows[0], name) if rows else None for name in NEWEST)
    return queue_version(active, {row.pk: row for row in rows}.values(), newest_now)


def queue_version(active: Iterable[Run], machines: Iterable[Machine], newest: tuple[object, ...]) -> str:
    """The version of all queues. ``active``: the runs being measured; ``newest``: of ``newest_rows``."""
    states = sorted(map(version_of_machine, machines), key=itemgetter(0))
    return digest([*sorted(version_of(run) for run in active), *states, *newest])


def digest(values: Iterable[object]) -> str:
    return f"v{hashlib.blake2b(repr(list(values)).encode(), digest_size=6).hexdigest()}"
