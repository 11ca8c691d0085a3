"""Find suspected change points in series that have new measurements. Sensitive, never mailed: confirm.py settles."""

from bisect import bisect_left

from django.db import transaction

from speedtrack.alerts import series as lines
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.series import MeasuredCommit
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Run, Series
from speedtrack.stats.changepoint import Point, Shift, suspect

WINDOW = 240  # measured commits looked at: 200 for the yardsticks, and the level before them
LEARN = 40  # first points of a line that was cut: the level and the noise before them are not known
NEAR = 2  # measured commits: a shift this near to a known one, in its direction, is the same one

Status = ChangePoint.Status


def detect() -> int:
    """Look at every series with new measurements. Returns how many were looked at. Safe to run twice at once."""
    looked = 0
    for series in Series.objects.filter(undetected_since__isnull=False).select_related("project", "benchmark"):
        seen = series.undetected_since
        with transaction.atomic():
            if Series.objects.filter(pk=series.pk, undetected_since=seen).update(undetected_since=None):
                detect_in(series)
                looked += 1
    return looked


def detect_in(series: Series) -> None:
    """Bring the suspected change points of a series in line with its points, on every branch of the project."""
    if not METRICS[series.metric].watched:
        return
    for branch in series.project.branches.all():
        line = [p for p in lines.load([series], branch) if not p.flags]
        shifts = find_shifts(series, line[-WINDOW:])
        learned = LEARN if len(line) > WINDOW else 0
        withdraw_unfounded(series, branch, line)
        update_suspicions(series, branch, line[-WINDOW:], [shift for shift in shifts if shift.seen >= learned])


def withdraw_unfounded(series: Series, branch: Branch, line: list[MeasuredCommit]) -> None:
    """Drop the suspicions one of whose two commits is no point any more: what was measured of it is now flagged."""
    points = {p.commit_id for p in line}
    open_ones = ChangePoint.objects.filter(series=series, branch=branch, status=Status.SUSPECTED)
    unfounded = [cp.pk for cp in open_ones if not {cp.before_id, cp.commit_id} <= points]
    ChangePoint.objects.filter(pk__in=unfounded, status=Status.SUSPECTED).delete()


def update_suspicions(series: Series, branch: Branch, points: list[MeasuredCommit], shifts: list[Shift]) -> None:
    """Write new suspicions; drop those that further points have dissolved before anybody measured them again.

    A refuted change at a commit that now moves the other way is suspected anew; what else was settled stays.
    """
    known = list(ChangePoint.objects.filter(series=series, branch=branch))
    index = places(branch, known, points)
    settled = [cp for cp in known if cp.status != Status.SUSPECTED]
    fixed = {cp.commit_id for cp in settled if cp.status != Status.REFUTED}
    open_ones = {cp.commit_id: cp for cp in known if cp.status == Status.SUSPECTED}
    kept: set[int] = set()
    for shift in shifts:
        commit_id, before_id = points[shift.index].commit_id, points[shift.index - 1].commit_id
        if commit_id in fixed or any(same_change(cp, shift, index) for cp in settled):
            continue
        kept.add(commit_id)
        ChangePoint.objects.update_or_create(
            series=series,
            branch=branch,
            commit_id=commit_id,
            defaults={"before_id": before_id, "ratio": shift.ratio, "low": shift.low, "high": shift.high,
                      "score": shift.score, "status": Status.SUSPECTED, "note": "", "settled_at": None},
        )  # fmt: skip
    dissolved = [cp.pk for commit_id, cp in open_ones.items() if commit_id not in kept and cp.pk in index]
    ChangePoint.objects.filter(pk__in=dissolved, status=Status.SUSPECTED).delete()


def find_shifts(series: Series, points: list[MeasuredCommit]) -> list[Shift]:
    """The suspected shifts, by the practical threshold of the project's newest suite for this metric."""
    metric = METRICS[series.metric]
    run = Run.objects.own().filter(project=series.project).order_by("-id").select_related("suite").first()
    smallest = run.suite.smallest_effect(metric.name, metric.smallest_effect) if run else metric.smallest_effect
    samples = lines.samples_of(id for p in points for id in p.measurement_ids)
    trials = [Point(tuple(v for id in p.measurement_ids for v in samples[id])) for p in points]
    return suspect(trials, smallest_effect=smallest)


def places(branch: Branch, known: list[ChangePoint], points: list[MeasuredCommit]) -> dict[int, int]:
    """Change point id -> index of the first point of its new level; those older than the points are left out.

    A commit found by bisection is measured in pairs only and is no point itself: the next point then stands for it.
    """
    positions = [p.position for p in points]
    numbers = dict(
        branch.positions.filter(commit__in=[cp.commit_id for cp in known]).values_list("commit_id", "number")
    )
    found = {cp.pk: bisect_left(positions, numbers[cp.commit_id]) for cp in known if cp.commit_id in numbers}
    return {pk: place for pk, place in found.items() if 0 < place < len(points)}


def same_change(known: ChangePoint, shift: Shift, index: dict[int, int]) -> bool:
    place = index.get(known.pk)
    near = 0 if known.status == Status.REFUTED else NEAR  # a refuted pair of commits clears itself, not its neighbours
    return place is not None and abs(place - shift.index) <= near and (known.ratio > 1) == (shift.ratio > 1)
