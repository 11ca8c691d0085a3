"""Short versions of the pages of runs and of the queue: a page is loaded again only when its version has changed."""

import hashlib
from collections.abc import Iterable
from operator import itemgetter

from django.db import connection
from django.utils import timezone

from speedtrack.runs.models import Machine, Run, Status
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
NEWEST = """
    SELECT (SELECT max(id) FROM runs_run), (SELECT max(id) FROM runs_runevent),
           (SELECT max(undetected_since)::text FROM runs_series WHERE undetected_since IS NOT NULL)
"""


def newest_rows() -> tuple[object, ...]:
    """What changes when a run is queued, moves or ends, and when detection has seen what it measured."""
    with connection.cursor() as cursor:
        cursor.execute(NEWEST)
        return tuple(cursor.fetchone())


def version_now() -> str:
    """The version of all queues, for pages that show neither runs nor machines."""
    newest = newest_rows()  # first: what changes meanwhile makes the page load again
    machines = Machine.objects.only(*OF_MACHINE, "last_seen_at")
    return queue_version(Run.objects.active().only(*OF_RUN), machines, newest)


def queue_version(active: Iterable[Run], machines: Iterable[Machine], newest: tuple[object, ...]) -> str:
    """The version of all queues. ``active``: the runs being measured; ``newest``: of ``newest_rows``."""
    states = sorted(map(version_of_machine, machines), key=itemgetter(0))
    return digest([*sorted(version_of(run) for run in active), *states, *newest])


def digest(values: Iterable[object]) -> str:
    return f"v{hashlib.blake2b(repr(list(values)).encode(), digest_size=6).hexdigest()}"
