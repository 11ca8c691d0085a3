"""Short versions of the pages of runs and of the queue: a page is loaded again only when its version has changed."""

import hashlib
from collections.abc import Iterable

from django.db.models import Max

from speedtrack.runs.models import Machine, Run, RunEvent

#: What the version of a run is made of.
OF_RUN = ("pk", "status", "attempt", "cancel_requested_at", "started_at", "progress", "error")


def version_of(run: Run) -> str:
    return digest(getattr(run, name) for name in OF_RUN)


def queue_version(active: Iterable[Run]) -> str:
    """The version of all queues. ``active``: the runs being measured.

    It reads the ends of indexes, and the machines.
    """
    machines = Machine.objects.order_by("pk").values_list("pk", "paused", "quarantined_at", "retired_at")
    newest = [found.aggregate(last=Max("pk"))["last"] for found in (Run.objects.all(), RunEvent.objects.all())]
    return digest([*sorted(version_of(run) for run in active), *machines, *newest])


def digest(values: Iterable[object]) -> str:
    return f"v{hashlib.blake2b(repr(list(values)).encode(), digest_size=6).hexdigest()}"
