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


def newest_ids() -> tuple[int | None, int | None]:
    """The ids of the newest run and of the newest event of runs, from the ends of two indexes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT (SELECT max(id) FROM runs_run), (SELECT max(id) FROM runs_runevent)")
        run, event = cursor.fetchone()
    return run, event


def queue_version(active: Iterable[Run], machines: Iterable[Machine], newest: tuple[int | None, int | None]) -> str:
    """The version of all queues. ``active``: the runs being measured; ``newest``: of ``newest_ids``."""
    states = sorted(map(version_of_machine, machines), key=itemgetter(0))
    return digest([*sorted(version_of(run) for run in active), *states, *newest])


def digest(values: Iterable[object]) -> str:
    return f"v{hashlib.blake2b(repr(list(values)).encode(), digest_size=6).hexdigest()}"
