"""Watch the newest level of each line against fixed references, for what no single commit explains.

References are the last release, the commits of about 30 and 90 days before, and the best level so far. A suspected
drift is settled by pairs of the reference and the head, like any other change, but not narrowed: its range is
(reference, head]. It is suspected again only when it has grown.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import connection
from django.db.models import OuterRef, Q, QuerySet, Subquery

from speedtrack.alerts.history import smallest_effect
from speedtrack.alerts.known import rewritten
from speedtrack.alerts.models import BestLevel, ChangePoint
from speedtrack.alerts.windows import Line, Measured
from speedtrack.benchmarks.metrics import METRICS, Direction
from speedtrack.projects.models import Branch, Commit, Position, Tag
from speedtrack.runs.models import Series
from speedtrack.stats import drift
from speedtrack.stats.drift import LEVEL, Drift

AGES = (timedelta(days=30), timedelta(days=90))

Kind = ChangePoint.Kind
Status = ChangePoint.Status

# The last clean points of a series up to a position of a branch, newest first.
LAST = """
    SELECT p.number, p.commit_id, m.value
      FROM projects_position p
      JOIN LATERAL (SELECT value FROM runs_measurement m
                     WHERE m.series_id = %(series)s AND m.commit_id = p.commit_id
                       AND m.accepted AND NOT m.paired AND m.flags = '{}'
                  ORDER BY m.id DESC LIMIT 1) m ON true
     WHERE p.branch_id = %(branch)s AND p.number <= %(number)s
  ORDER BY p.number DESC LIMIT %(count)s
"""


@dataclass(frozen=True)
class Reference:
    """A measured commit, and the values of the measured commits from ``begin`` up to it; ``name`` says what it is."""

    name: str
    begin: int
    position: int
    commit_id: int
    values: Sequence[float]


def look(series: Series, line: Line) -> ChangePoint | None:
    """Suspect a drift that the newest point of a line shows."""
    branch, points = line.branch, line.points
    if not line.new or line.new[-1] != len(points) - 1 or len(points) < 2 * LEVEL:
        return None
    newest, head = [point.value for point in points[-LEVEL:]], points[-1]
    steps = list(steps_between(series, branch, 0, head.position).values_list("commit__positions__number", "ratio"))
    steps += [(number, cp.ratio) for cp, _, number in rewritten(series, line)]
    if within(steps, points[-LEVEL].position, head.position):
        return None  # the newest points are of two levels, and the step between them is looked after by itself
    effect = smallest_effect(series)
    best = best_so_far(series, branch, points)
    found: list[tuple[Reference, Drift]] = []
    for reference in [*references(series, branch, head), *best]:
        if reference.position > points[-LEVEL].position - 1 or within(steps, reference.begin, reference.position):
            continue
        explained = math.prod(within(steps, reference.position, head.position))
        if one := drift.drifted(reference.values, newest, smallest_effect=effect, explained=explained):
            found.append((reference, one))
    for reference, one in sorted(found, key=lambda pair: -pair[1].score):
        if is_news(series, branch, reference, one):
            return suspect(series, branch, reference, head, one)
    return None


def suspect(series: Series, branch: Branch, reference: Reference, head: Measured, found: Drift) -> ChangePoint:
    return ChangePoint.objects.create(
        series=series,
        branch=branch,
        kind=Kind.DRIFT,
        reference=reference.name,
        before_id=reference.commit_id,
        commit_id=head.commit_id,
        ratio=found.ratio,
        low=found.low,
        high=found.high,
        score=found.score,
    )


def references(series: Series, branch: Branch, head: Measured) -> list[Reference]:
    """The last release before the head, and the commits of so many days before."""
    tags = Tag.objects.filter(project=series.project_id, sha=OuterRef("commit__sha")).order_by("-pk").values("name")
    places = Position.objects.filter(branch=branch, number__lt=head.position)
    release = places.annotate(tag=Subquery(tags[:1])).exclude(tag=None).order_by("-number").first()
    found = [up_to(series, branch, release.number, str(getattr(release, "tag", "")))] if release else []
    committed_at = Commit.objects.get(pk=head.commit_id).committed_at
    for age in AGES:
        older = places.filter(commit__committed_at__lte=committed_at - age).order_by("-number").first()
        if older is not None:
            found.append(up_to(series, branch, older.number, f"{age.days} days before"))
    return [reference for reference in found if reference is not None]


def up_to(series: Series, branch: Branch, number: int, name: str) -> Reference | None:
    """The reference at the last measured commit up to a position; None where too few were measured."""
    with connection.cursor() as cursor:
        cursor.execute(LAST, {"series": series.pk, "branch": branch.pk, "number": number, "count": LEVEL})
        rows = cursor.fetchall()
    if len(rows) < drift.FEWEST:
        return None
    return Reference(name, rows[-1][0], rows[0][0], rows[0][1], [value for _, _, value in reversed(rows)])


def best_so_far(series: Series, branch: Branch, points: Sequence[Measured]) -> list[Reference]:
    """The best level that the line ever had; a new one is noted once it is better by the smallest effect.

    So the reference stays where it is while the noise plays about it.
    """
    known = BestLevel.objects.filter(series=series, branch=branch).first()
    better = min if METRICS[series.metric].better == Direction.LOWER else max
    ends = range(LEVEL, len(points) + 1) if known is None else [len(points)]
    levels = {end: _median([point.value for point in points[end - LEVEL : end]]) for end in ends}
    end = better(levels, key=lambda at: levels[at])
    worth = 1 + smallest_effect(series)
    if known is None or better(levels[end] * (worth if better is min else 1 / worth), known.level) != known.level:
        known, _ = BestLevel.objects.update_or_create(
            series=series, branch=branch, defaults={"commit_id": points[end - 1].commit_id, "level": levels[end]}
        )
    place = branch.positions.filter(commit=known.commit_id).values_list("number", flat=True).first()
    reference = None if place is None else up_to(series, branch, place, "its best level")
    return [reference] if reference else []


def _median(values: list[float]) -> float:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def steps_between(series: Series, branch: Branch, first: int, last: int) -> QuerySet[ChangePoint]:
    """The steps of a series that lie between two positions, or may: the machine's too, and those not yet settled."""
    real = (Status.CONFIRMED, Status.HISTORY, Status.MACHINE, *ChangePoint.OPEN)
    return ChangePoint.objects.filter(
        series=series,
        kind=Kind.STEP,
        status__in=real,
        commit__positions__branch=branch,
        commit__positions__number__gt=first,
        commit__positions__number__lte=last,
    )


def within(steps: Sequence[tuple[int, float]], first: int, last: int) -> list[float]:
    """The ratios of the steps (position, ratio) after the first and up to the last position."""
    return [ratio for number, ratio in steps if first < number <= last and ratio > 0]


def is_news(series: Series, branch: Branch, reference: Reference, found: Drift) -> bool:
    """Is it another drift than those that were looked at, or one of them that has grown?

    A drift that overlaps an earlier one in time and direction is the same, whatever its reference.
    """
    earlier = ChangePoint.objects.filter(series=series, kind=Kind.DRIFT, commit__positions__branch=branch).filter(
        Q(commit__positions__number__gt=reference.position) | Q(status__in=ChangePoint.OPEN)
    )
    same = [cp for cp in earlier.distinct() if (cp.ratio > 1) == (found.ratio > 1)]
    if any(cp.status in ChangePoint.OPEN for cp in same):
        return False
    return all(drift.has_grown(found.ratio, cp.ratio) for cp in same)


def is_explained(cp: ChangePoint) -> bool:
    """Do steps that were suspected or settled since then explain a suspected drift?"""
    ends = dict(cp.branch.positions.filter(commit__in=[cp.before_id, cp.commit_id]).values_list("commit_id", "number"))
    if len(ends) < 2:
        return False
    newer = steps_between(cp.series, cp.branch, ends[cp.before_id], ends[cp.commit_id]).filter(pk__gt=cp.pk)
    explained = math.prod(ratio for ratio in newer.values_list("ratio", flat=True) if ratio > 0)
    left = cp.ratio / explained
    return (left - 1) * (cp.ratio - 1) <= 0 or abs(left - 1) < smallest_effect(cp.series)


def words(cp: ChangePoint) -> str:
    """What an alert says of a drift."""
    places = dict(
        cp.branch.positions.filter(commit__in=[cp.before_id, cp.commit_id]).values_list("commit_id", "number")
    )
    ago = places.get(cp.commit_id, 0) - places.get(cp.before_id, 0)
    low, high = sorted((cp.low - 1, cp.high - 1))
    moved = "slower" if cp.is_slowdown else "faster"
    size = f"{cp.ratio - 1:+.1%} [{low:+.1%}, {high:+.1%}]"
    return f"{moved}: {size} since {cp.reference} ({ago} commits ago), without one step"
