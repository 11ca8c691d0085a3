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


def gap_of(run_id: int, status: str, error: str) -> Gap:
    """What a run that did not succeed says of its commit."""
    if status == Status.FAILED:
        return Gap("failed", (plain(error).strip().partition("\n")[0] or "the run failed")[:200], run_id)
    if status in ACTIVE:
        return Gap("running", "being measured now", run_id)
    if status == Status.QUEUED:
        return Gap("waiting", "waiting to be measured", run_id)
    return Gap("cancelled", "its run was cancelled", run_id)


def gaps_of(machine: Machine, commit_ids: Iterable[int]) -> dict[int, Gap]:
    """By commit: what became of its newest own run on the machine, unless that succeeded."""
    runs = Run.objects.filter(machine=machine, commit__in=list(commit_ids), base=None)
    rows = runs.exclude(status=Status.SUCCEEDED).order_by("id").values_list("commit_id", "id", "status", "error")
    return {commit_id: gap_of(run_id, status, error) for commit_id, run_id, status, error in rows}
