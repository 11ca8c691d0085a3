"""Compare the newest level of each line with fixed references, to find drift that no single commit explains.

References are the last release, the commits about 30 and 90 days before the head, and the best level so far. A
suspected drift is settled by pairs of the reference and the head, like any other change, but not narrowed: its range is
(reference, head]. It is suspected again only when it has grown.
"""

import math
from collections.abc import Sequence

from django.db.models import Q

from speedtrack.alerts.detection.driftreferences import DriftReference, Heading, best_commits, ratios_within, references
from speedtrack.alerts.lines.past import mark_past
from speedtrack.alerts.lines.trials import TrialLine
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.pairs.brackets import positions_of
from speedtrack.benchmarks import numbers
from speedtrack.stats.changes import drift
from speedtrack.stats.changes.drift import LEVEL, Drift

Kind = ChangePoint.Kind
Status = ChangePoint.Status


def look_for_drifts(lines: Sequence[Heading]) -> None:
    """Suspect the drifts that the newest points of lines show.

    The number of queries does not grow with the number of lines.
    """
    level = [line for line in lines if line.is_on_one_level()]
    if level:
        for line, line_references in zip(level, references(level, best_commits(level)), strict=True):
            look_for_drift(line, line_references)


def look_for_drift(line: Heading, line_references: Sequence[DriftReference]) -> ChangePoint | None:
    """Suspect a drift of one line from one of the ``line_references``, and return it; None if there is none."""
    drifts: list[tuple[DriftReference, Drift, float]] = []
    for reference in line_references:
        if reference.position >= line.level_begins or ratios_within(line.steps, reference.begin, reference.position):
            continue
        explained = math.prod(ratios_within(line.steps, reference.position, line.head.position))
        if candidate := drift.drift_since(
            reference.values, line.newest, smallest_effect=line.effect, explained=explained, best=reference.is_best
        ):
            drifts.append((reference, candidate, explained))
    fresh = drift.fresh_step(without_steps(line.window.points, line.steps)) if drifts else 1.0
    for reference, candidate, explained in sorted(drifts, key=lambda drifted: -drifted[1].score):
        remains = drift.drift_since(
            reference.values,
            line.newest,
            smallest_effect=line.effect,
            explained=explained * fresh,
            best=reference.is_best,
        )
        is_left = remains is not None and (candidate.ratio > 1) == (remains.ratio > 1)
        if is_left and is_news(line, reference, candidate):
            return suspect_drift(line, reference, candidate)
    return None


def without_steps(points: TrialLine, steps: Sequence[tuple[int, float]]) -> list[float]:
    """The values of the points with the effect of these steps removed. A step is (position, ratio)."""
    return [
        value / math.prod(ratios_within(steps, 0, position))
        for position, value in zip(points.positions, points.values, strict=True)
    ]


def suspect_drift(line: Heading, reference: DriftReference, new_drift: Drift) -> ChangePoint:
    """Store the suspicion. It is news if a push measured the head: then a push revealed it."""
    suspicion = ChangePoint.objects.create(
        series=line.window.series,
        branch=line.window.branch,
        kind=Kind.DRIFT,
        reference=reference.name,
        before_id=reference.commit_id,
        commit_id=line.head.commit_id,
        ratio=new_drift.ratio,
        low=new_drift.low,
        high=new_drift.high,
        score=new_drift.score,
    )
    mark_past(suspicion, [line.head.commit_id])
    return suspicion


def is_news(line: Heading, reference: DriftReference, new_drift: Drift) -> bool:
    """Return whether it is a new drift, or a known one that has grown.

    A drift that overlaps an earlier one in time and direction is the same one, whatever its reference.
    """
    lines_drifts = ChangePoint.objects.filter(
        series=line.window.series, kind=Kind.DRIFT, commit__positions__branch=line.window.branch
    )
    earlier = lines_drifts.filter(Q(commit__positions__number__gt=reference.position) | Q(status__in=ChangePoint.OPEN))
    is_up = new_drift.ratio > 1
    same = [cp for cp in earlier.distinct() if (cp.ratio > 1) == is_up]
    if any(cp.status in ChangePoint.OPEN for cp in same):
        return False
    surely = new_drift.low if is_up else new_drift.high  # noise alone must not look like growth
    return all((surely > 1) == is_up and has_grown_since(line, reference, cp, surely) for cp in same)


def has_grown_since(line: Heading, reference: DriftReference, examined: ChangePoint, ratio: float) -> bool:
    """Return whether the drift is larger than an earlier examination of it.

    It must exceed what the pairs measured then, and what the line showed then: noise that made the drift look larger
    than the pairs found it is still there afterwards. The newest level may not share points with the one examined then.
    """
    points = line.window.points
    if examined.commit_id not in points.commits:
        return drift.has_grown(ratio, examined.ratio)
    head = points.commits.index(examined.commit_id)
    level = line.window.values[max(0, head + 1 - LEVEL) : head + 1]
    explained = math.prod(ratios_within(line.steps, reference.position, points.positions[head]))
    ratio_then = drift.shown_ratio(reference.values, level, explained=explained)
    apart = len(points) - 1 - head >= LEVEL
    return apart and all(drift.has_grown(ratio, before) for before in (examined.ratio, ratio_then))


def drift_in_words(cp: ChangePoint) -> str:
    """The sentence of an alert about a drift."""
    positions = positions_of(cp.branch, [cp.before_id, cp.commit_id])
    ago = positions.get(cp.commit_id, 0) - positions.get(cp.before_id, 0)
    effect, size = numbers.effect(cp.metric, cp.is_slowdown), numbers.size(cp.ratio, cp.low, cp.high)
    return f"{effect}: {size} since {cp.reference} ({ago} commits ago), without a single step"
