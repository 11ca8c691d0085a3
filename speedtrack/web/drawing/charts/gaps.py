"""Find out why a commit has no point on a line."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Value

from speedtrack.ground.postgres.plainrows import among
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.ground.texts.text import plain
from speedtrack.runs.models import ACTIVE, Deferral, Machine, Run, Status

DEFERRED = "deferred"  # among the states of runs: the planner left the commit for later
BEHIND_RUNS = 2**63 - 1  # where its row is read


@dataclass(frozen=True)
class Gap:
    """``state``: failed, cancelled, waiting, running, linked or unmeasured; ``run_id``: the run that says so."""

    state: str
    reason: str
    run_id: int | None = None


UNMEASURED = Gap("unmeasured", "not measured")


#: A run of the commit of an outer query that measured it.
SUCCEEDED = Q(commit=OuterRef("commit"), status=Status.SUCCEEDED)
#: The runs that leave a commit without a point, and the columns of a run that ``gap_of`` takes.
WITHOUT_POINT = ~Q(status=Status.SUCCEEDED) | Q(linked__isnull=False)
GAP_COLUMNS = ("id", "status", "error", "linked__commit__sha")
DEFERRAL_COLUMNS = (Value(BEHIND_RUNS), Value(DEFERRED), "detail", Value(""))  # the same of a deferral


def gap_of(run_id: int, status: str, error: str, linked: str | None) -> Gap:
    """Why a commit has no point, by the run that did not measure it."""
    if linked:
        return Gap("linked", f"the same program as {linked[:10]}: not measured again", run_id)
    if status == Status.FAILED:
        return Gap("failed", (plain(error).strip().partition("\n")[0] or "the run failed")[:200], run_id)
    if status in ACTIVE:
        return Gap("running", "being measured now", run_id)
    if status == Status.QUEUED:
        return Gap("waiting", "waiting to be measured", run_id)
    return Gap("cancelled", "its run was cancelled", run_id)


def newest_gaps(rows: Iterable[Sequence[Any]]) -> dict[Any, Gap]:
    """The reasons by key. ``rows``: a key and GAP_COLUMNS each, in the order of the runs' ids; deferrals come last."""
    gaps: dict[Any, Gap] = {}
    for key, *columns in rows:
        gaps[key] = gap_after(gaps.get(key), *columns)
    return gaps


def gap_after(earlier: Gap | None, run_id: int, status: str, error: str, linked: str | None) -> Gap:
    """The reason for a commit's gap after one more of its runs, or after its deferral, which comes last."""
    if status != DEFERRED:
        return gap_of(run_id, status, error, linked)
    if earlier is None or earlier.state == "cancelled":  # that made room for newer commits
        return Gap("unmeasured", f"not measured: {error}")
    return earlier


def runs_without_points(machine: int, commits: list[int]) -> QuerySet[Any]:
    """Of these commits: the runs on the machine that gave no point, and what was put off."""
    runs = Run.objects.own().filter(among("commit_id", commits), machine=machine)
    pointless = runs.filter(WITHOUT_POINT).values_list("commit_id", *GAP_COLUMNS)
    put_off = Deferral.objects.filter(among("commit_id", commits)).exclude(Exists(runs.filter(SUCCEEDED)))
    return pointless.union(put_off.values_list("commit_id", *DEFERRAL_COLUMNS), all=True).order_by("id")


RUNS_WITHOUT_POINTS = PreparedQuery(runs_without_points)


def gaps_of(machine: Machine, commit_ids: Iterable[int]) -> dict[int, Gap]:
    """By commit: why its newest own run on the machine did not measure it; nothing where it did."""
    return newest_gaps(RUNS_WITHOUT_POINTS.tuples(machine=machine.pk, commits=list(commit_ids)))
