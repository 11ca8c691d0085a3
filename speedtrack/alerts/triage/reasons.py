"""Why a change of a series was or was not suspected, confirmed and reported, in words."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import F

from speedtrack.alerts.lines.effects import smallest_effect
from speedtrack.alerts.lines.lines import END
from speedtrack.alerts.lines.trials import TrialPoint
from speedtrack.alerts.lines.windows import points_of_each
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.triage.muting import mute_of
from speedtrack.benchmarks import numbers
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Series
from speedtrack.stats.changes import explain
from speedtrack.stats.changes.changepoint import DEFAULT, NEAR, Point
from speedtrack.stats.changes.explain import Limit, WindowEvidence
from speedtrack.stats.changes.history import HistoryVerdict, history_verdicts

AROUND = 240  # measured commits before a place that explain it
AFTER = 64
LIMITED_BY = {
    Limit.NOISE: "the noise of the line",
    Limit.TRIALS: "the error that its trials show",
    Limit.ROUNDING: "the smallest step of the rounded metric",
    Limit.EFFECT: "the smallest effect that matters",
}


@dataclass(frozen=True)
class Why:
    """The judgement of a possible change at a commit of a series. ``steps``: what followed, in order."""

    suspicious: bool
    judgement: str
    steps: list[str]


@dataclass(frozen=True)
class PlaceEvidence:
    """What detection weighs at one point of a line. ``index``: of the point; ``since``: of the first of its level.

    ``reason``: None for the first point of a level. ``changes``: the change points at the point.
    """

    series: Series
    points: Sequence[TrialPoint]
    index: int
    since: int
    effect: float
    reason: WindowEvidence | None
    changes: list[ChangePoint]

    @property
    def trials(self) -> list[Point]:
        return [Point(point.trials) for point in self.points]

    @property
    def before(self) -> Sequence[TrialPoint]:
        """The points of the old level."""
        return self.points[max(self.since, self.index - DEFAULT.before) : self.index]

    @property
    def after(self) -> Sequence[TrialPoint]:
        """The points of the new level."""
        return self.points[self.index : self.index + (self.reason.after if self.reason else 0)]


@dataclass(frozen=True)
class MeasuredPlace:
    """A point of a series, with the points that judge it. ``index``: of the point."""

    series: Series
    points: Sequence[TrialPoint]
    index: int

    @property
    def position(self) -> int:
        return self.points[self.index].position


def places_at(series: Sequence[Series], branch: Branch, number: int) -> list[MeasuredPlace]:
    """A position of a branch, or the next measured commit, in each of these series that has one. Few statements."""
    places = []
    for line, points in zip(series, points_of_each(series, branch, number), strict=True):
        index = bisect_left(points.positions, number)
        places += [MeasuredPlace(line, points, index)] if index < len(points) else []
    return places


def evidence_at(place: MeasuredPlace, branch: Branch) -> PlaceEvidence:
    """What detection weighs at a place of a branch."""
    series, points, index = place.series, place.points, place.index
    here, changes = place.position, changes_on(series, branch, points[0].position, points[-1].position)
    levels = [position for position, cps in changes.items() if any(map(divides, cps))]
    next_level = min((position for position in levels if position > here), default=math.inf)
    points = [point for point in points[: index + AFTER] if point.position < next_level]
    since = max((position for position in levels if position < here), default=-1)
    first = next((i for i, point in enumerate(points) if point.position >= since), 0)
    effect = smallest_effect(series)
    trials = [Point(point.trials) for point in points]
    reason = explain.explain_place(trials, index, smallest_effect=effect, since=first)
    return PlaceEvidence(series, points, index, first, effect, reason, changes.get(here, []))


def why(series: Series, branch: Branch, number: int) -> Why | None:
    """The judgement of the measured commit at a position of a branch, or of the next one.

    None if the series has no points there.
    """
    return next((why_of(evidence_at(place, branch)) for place in places_at([series], branch, number)), None)


def why_of(evidence: PlaceEvidence) -> Why:
    reason, index, since = evidence.reason, evidence.index, evidence.since
    if reason is None:
        return Why(False, "it is the first point of its level: there is nothing to compare it with", [])
    at_place = history_verdicts(evidence.trials, smallest_effect=evidence.effect, settled=[since], since=index)
    history = next((verdict for verdict in at_place if abs(verdict.index - index) <= NEAR), None)
    sentences = [judgement(reason), *([history_in_words(history)] if history and not reason.suspicious else [])]
    steps = [step for cp in evidence.changes for step in steps_of(cp)]
    return Why(reason.suspicious or history is not None, "; ".join(sentences), steps)


def divides(cp: ChangePoint) -> bool:
    """Return whether a new level begins with the change. Not with a refuted one."""
    return cp.status != ChangePoint.Status.REFUTED


def changes_on(series: Series, branch: Branch, first: int = 0, last: int = END) -> dict[int, list[ChangePoint]]:
    """By position on the branch, from ``first`` to ``last``: the change points of a series whose commit is there."""
    by_position: dict[int, list[ChangePoint]] = {}
    within = {"commit__positions__branch": branch, "commit__positions__number__range": (first, last)}
    rows = ChangePoint.objects.filter(series=series, **within).order_by("id")
    related: Any = rows.select_related("alert", "series__benchmark", "commit")
    for cp in related.annotate(place=F("commit__positions__number")):
        by_position.setdefault(cp.place, []).append(cp)
    return by_position


def judgement(reason: WindowEvidence) -> str:
    """A sentence: what moved, what it had to exceed, and whether it did."""
    movement = f"{numbers.change(reason.ratio)} over {reason.after} commit{'' if reason.after == 1 else 's'}"
    if reason.limited_by == Limit.HISTORY:
        return f"{movement}: too little history and too few trials to judge it"
    limit = f"{reason.limit:.1%}, {LIMITED_BY[reason.limited_by]}"
    agree = f"{reason.agreement:.0%} of all pairs of a commit before and one after agree; {reason.wanted:.0%} must"
    if reason.score <= 1:
        return f"{movement} does not exceed {limit} (score {reason.score:.2f})"
    if not reason.suspicious:
        return f"{movement} exceeds {limit} (score {reason.score:.2f}), but only {agree}"
    return f"{movement} exceeds {limit} (score {reason.score:.2f}); {agree}"


def history_in_words(verdict: HistoryVerdict) -> str:
    return f"the history of the line as a whole shows {numbers.change(verdict.ratio)} (score {verdict.score:.2f})"


def steps_of(cp: ChangePoint) -> list[str]:
    """Sentences: what became of a suspicion, and whether anybody was notified."""
    steps = [f"{cp.created:%Y-%m-%d %H:%M} suspected, score {cp.score:.2f}"]
    for verdict in cp.verdicts.select_related("base", "commit").order_by("id"):
        steps.append(f"{verdict.created:%Y-%m-%d %H:%M} {verdict_in_words(verdict)}")
    steps.append(f"{cp.status}{': ' + cp.note if cp.note else ''}")
    return [*steps, *alert_in_words(cp)]


def verdict_in_words(verdict: Verdict) -> str:
    pairs = f"{verdict.pairs} pairs of {verdict.base.short} and {verdict.commit.short}"
    change = numbers.size(verdict.ratio, verdict.low, verdict.high)
    p = f", p = {verdict.p:.2g}" if verdict.p is not None else ""
    level = " level" if verdict.answer in (Verdict.Answer.OLD, Verdict.Answer.NEW) else ""
    return f"{pairs}: {change}{p}: {verdict.answer}{level}"


def alert_in_words(cp: ChangePoint) -> list[str]:
    """Sentences: whether and how the alert of a change point was reported."""
    if cp.alert is None:
        muted = mute_of(cp.series) if cp.status in (ChangePoint.Status.SUSPECTED, ChangePoint.Status.SETTLING) else None
        return [f"{muted} is muted until {muted.until:%Y-%m-%d}: its alert will be silent"] if muted else []
    past = "the past: reported in a digest" if cp.past else ""
    silent = "silent: everything that got worse was muted" if cp.alert.muted else ""
    better = "an improvement: reported to those who asked" if cp.alert.improvement else ""
    how = silent or past or better or "news: reported at once"
    return [f"alert {cp.alert_id}, {cp.alert.status}; {how}"]
