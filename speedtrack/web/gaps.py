"""Why a commit has no point on a line."""

from collections.abc import Iterable
from dataclasses import dataclass

from speedtrack.runs.models import ACTIVE, Machine, Run, Status
from speedtrack.web.text import plain


@dataclass(frozen=True)
class Gap:
    """``state`` is one of failed, cancelled, waiting, running, unmeasured; ``run_id`` the run that says why."""

    state: str
    reason: str
    run_id: int | None = None


UNMEASURED = Gap("unmeasured", "not measured")


def gap_of(run: Run) -> Gap:
    if run.status == Status.FAILED:
        return Gap("failed", (plain(run.error).strip().partition("\n")[0] or "the run failed")[:200], run.pk)
    if run.status in ACTIVE:
        return Gap("running", "being measured now", run.pk)
    if run.status == Status.QUEUED:
        return Gap("waiting", "waiting to be measured", run.pk)
    if run.status == Status.CANCELLED:
        return Gap("cancelled", "its run was cancelled", run.pk)
    return UNMEASURED


def gaps_of(machine: Machine, commit_ids: Iterable[int]) -> dict[int, Gap]:
    """By commit: what became of its newest own run on the machine, unless that succeeded."""
    runs = Run.objects.filter(machine=machine, commit__in=list(commit_ids), base=None)
    unfinished = runs.exclude(status=Status.SUCCEEDED).order_by("id")
    return {run.commit_id: gap_of(run) for run in unfinished.only("commit_id", "status", "error")}
