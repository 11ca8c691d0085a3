"""A paired run that is being measured, as its runner reports it."""

from typing import Any

from speedtrack.alerts.triage import measuring
from speedtrack.projects.models import Commit
from speedtrack.runs.documents import Renewal
from speedtrack.runs.models import Run
from speedtrack.runs.queue import queue
from speedtrack.tests import builders
from speedtrack.web.tests.world import CPU, World


def paired_run(made: World, pairs: int, base: int = 0, head: int = 1) -> Run:
    """A claimed run of get-p1 in pairs of two commits, given by their places; nothing else waits."""
    old, new = (Commit.objects.get(project=made.project, sha=made.shas[place]) for place in (base, head))
    Run.objects.filter(status="queued").update(status="cancelled")
    queued = measuring.measure_pair(old, new, made.machines[0].pk, ["get-p1"]).run
    Run.objects.filter(pk=queued.pk).update(trials=pairs)
    run = builders.claim(made.machines[0])
    assert run.pk == queued.pk
    return run


def pairs_of(count: int, change: float = 1.2) -> list[tuple[float, float]]:
    return [(5000.0 + 7 * (i * 5 % 8), change * (5000.0 + 7 * (i * 3 % 8))) for i in range(count)]


def report_pairs(
    run: Run, count: int, flags: list[str] | None = None, change: float = 1.2
) -> list[tuple[float, float]]:
    """Renew the lease with this many pairs of the run, of which ``head`` is slower; return them."""
    pairs = pairs_of(count, change)
    rows: list[dict[str, Any]] = [
        {"base": {CPU: before}, "head": {CPU: after}, "flags": flags or []} for before, after in pairs
    ]
    now = f"get-p1, trial {count + 1}"
    progress = {"done": 2 * count, "total": 2 * run.trials, "now": now, "pairs": {"get-p1": rows}}
    queue.renew(run.machine, run.pk, Renewal.model_validate({"token": run.lease_token, "progress": progress}))
    return pairs
