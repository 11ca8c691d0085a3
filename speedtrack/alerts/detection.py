"""Find suspected change points in series that have new measurements. Sensitive, never mailed: confirm.py settles."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Exists, OuterRef, Q

from speedtrack.alerts import drift, history
from speedtrack.alerts import series as lines
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.series import MeasuredCommit, NewsOfBranch
from speedtrack.alerts.trouble import isolated
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Measurement, Run, Series
from speedtrack.stats.changepoint import DEFAULT, Point, Shift, suspect

WINDOW = 240  # measured commits looked at: 200 for the yardsticks, and the level before them
NEAR = 2  # measured commits: a shift this near to a known one, in its direction, is the same one

Status = ChangePoint.Status


def detect() -> int:
    """Look at every series with new measurements. Returns how many were looked at. Safe to run twice at once."""
    looked = 0
    for series in Series.objects.undetected().select_related("project", "benchmark"):
        since = series.undetected_since
        with transaction.atomic(), isolated(series):
            if since and Series.objects.filter(pk=series.pk, undetected_since=since).update(undetected_since=None):
                detect_in(series, since)
                looked += 1
    return looked


def detect_in(series: Series, since: datetime) -> None:
    """Suspect changes that rest on measurements accepted since then, on every line of the series through them."""
    if not METRICS[series.metric].watched:
        return
    withdraw_unfounded(series)
    for news in lines.news(series, since):
        first = lines.position_back(series, news.branch, news.first, WINDOW)
        points = [point for point in lines.load([series], news.branch, first) if not point.flags]
        line = Line(news, points)
        update_suspicions(series, line)
        history.judge(series, line.branch, points, line.new)
        drift.look(series, line.branch, points, line.new)


@dataclass(frozen=True)
class Line:
    """The clean points of a series on a branch, and which of them are new."""

    news: NewsOfBranch
    points: Sequence[MeasuredCommit]

    @property
    def branch(self) -> Branch:
        return self.news.branch

    @property
    def new(self) -> list[int]:
        return [i for i, point in enumerate(self.points) if point.commit_id in self.news.commits]


def withdraw_unfounded(series: Series) -> None:
    """Drop the suspicions one of whose two commits is no point any more: what was measured of it is now flagged."""
    clean = Measurement.objects.filter(series=series, accepted=True, paired=False, flags=[])
    founded = Exists(clean.filter(commit=OuterRef("before"))) & Exists(clean.filter(commit=OuterRef("commit")))
    suspected = ChangePoint.objects.filter(series=series, status=Status.SUSPECTED, kind=ChangePoint.Kind.STEP)
    suspected.filter(~Q(founded)).delete()


def update_suspicions(series: Series, line: Line) -> None:
    """Write the suspicions that new points have raised, and move or drop those that points between have changed.

    A shift counts when a new point is among those it rests on: a point at the end of the line raises suspicions that
    its arrival has shown, one that fills a gap also those around it. So a window that slides over a long line suspects
    no old commit again.
    """
    new = line.new
    if not new:
        return
    shifts = find_shifts(series, line.points)
    known = known_changes(series, line)
    earlier: ChangePoint | None = None
    found: list[ChangePoint] = []
    for shift in shifts:
        match = next((k for k in known if k.is_same(shift)), None)
        if shift.returns and (earlier is None or earlier.status in (Status.REFUTED, Status.UNSETTLED)):
            earlier = None
            continue  # back from where it never was: the shift before it is not there, or was nothing
        origin = earlier if shift.returns else None
        earlier = match.change_point if match else None
        if match and match.is_open and match.change_point not in found:
            move(match.change_point, line, shift)
            found.append(match.change_point)
        elif match is None and rests_on(shift, new):
            earlier = raise_suspicion(series, line, shift, origin)
            known.append(KnownChange(earlier, shift.index, shift.index))
            found.append(earlier)
    filled = [i for i in new if i < len(line.points) - 1]
    dissolved = [
        k.change_point.pk
        for k in known
        if k.is_open and k.change_point not in found and any(i <= k.last + NEAR for i in filled)
    ]
    ChangePoint.objects.filter(pk__in=dissolved, status=Status.SUSPECTED).delete()


def rests_on(shift: Shift, new: Sequence[int]) -> bool:
    """Is one of these points among those that the shift was judged by?"""
    return any(shift.index - DEFAULT.before <= i <= shift.seen for i in new)


def raise_suspicion(series: Series, line: Line, shift: Shift, origin: ChangePoint | None) -> ChangePoint:
    return ChangePoint.objects.create(
        series=series, branch=line.branch, status=Status.SUSPECTED, returns_from=origin, **what_moved(line, shift)
    )


def move(suspicion: ChangePoint, line: Line, shift: Shift) -> None:
    """Bring an open suspicion in line with what further points say of it, unless it is being settled meanwhile."""
    ChangePoint.objects.filter(pk=suspicion.pk, status=Status.SUSPECTED).update(**what_moved(line, shift))


def what_moved(line: Line, shift: Shift) -> dict[str, float | int]:
    return {
        "before_id": line.points[shift.index - 1].commit_id,
        "commit_id": line.points[shift.index].commit_id,
        "ratio": shift.ratio,
        "low": shift.low,
        "high": shift.high,
        "score": shift.score,
    }


def find_shifts(series: Series, points: Sequence[MeasuredCommit]) -> list[Shift]:
    """The suspected shifts, by the practical threshold of the project's newest suite for this metric."""
    metric = METRICS[series.metric]
    run = Run.objects.own().filter(project=series.project).order_by("-id").select_related("suite").first()
    smallest = run.suite.smallest_effect(metric.name, metric.smallest_effect) if run else metric.smallest_effect
    samples = lines.samples_of(id for p in points for id in p.measurement_ids)
    trials = [Point(tuple(v for id in p.measurement_ids for v in samples[id])) for p in points]
    return suspect(trials, smallest_effect=smallest)


@dataclass(frozen=True)
class KnownChange:
    """A change point of the series, and the points of the line that its range covers: from ``first`` to ``last``.

    The first point after the range stands for a commit that was found by bisection and is no point itself.
    """

    change_point: ChangePoint
    first: int
    last: int

    @property
    def is_open(self) -> bool:
        return self.change_point.status == Status.SUSPECTED

    def is_same(self, shift: Shift) -> bool:
        """Is the shift this change again? What was refuted speaks for its own range only, not for its neighbours."""
        if self.is_open and self.first <= shift.index <= self.last:
            return True
        near = 0 if self.change_point.status == Status.REFUTED else NEAR
        same_way = (self.change_point.ratio > 1) == (shift.ratio > 1)
        return same_way and self.first - near <= shift.index <= self.last + near


def known_changes(series: Series, line: Line) -> list[KnownChange]:
    """The change points of the series whose ranges lie on this part of the branch."""
    found = ChangePoint.objects.filter(series=series, kind=ChangePoint.Kind.STEP).order_by("id")
    ends = {commit for cp in found for commit in (cp.before_id, cp.commit_id)}
    numbers = dict(line.branch.positions.filter(commit__in=ends).values_list("commit_id", "number"))
    places = [point.position for point in line.points]
    known = []
    for cp in found:
        if cp.before_id in numbers and cp.commit_id in numbers:
            first = bisect_left(places, numbers[cp.before_id] + 1)
            last = bisect_left(places, numbers[cp.commit_id])
            if last > 0 and first < len(places):
                known.append(KnownChange(cp, first, last))
    return known
