"""Compare the newest level of each line with fixed references, to find drift that no single commit explains.

References are the last release, the commits of about 30 and 90 days before, and the best level so far. A suspected
drift is settled by pairs of the reference and the head, like any other change, but not narrowed: its range is
(reference, head]. It is suspected again only when it has grown.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from django.db import connection
from django.db.models import Q

from speedtrack.alerts import lines
from speedtrack.alerts.brackets import positions_of
from speedtrack.alerts.effects import smallest_effect
from speedtrack.alerts.known import PlacedStep, steps_on
from speedtrack.alerts.lines import TrialPoint
from speedtrack.alerts.models import BestLevel, ChangePoint
from speedtrack.alerts.windows import Window
from speedtrack.benchmarks.metrics import METRICS, Direction
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Series
from speedtrack.stats import drift
from speedtrack.stats.drift import LEVEL, Drift

AGES = [30, 90]  # days

Kind = ChangePoint.Kind
Status = ChangePoint.Status
#: Steps of these statuses are, or may be, real: including those of the machine, and those not settled yet.
LEFT_STANDING = (Status.CONFIRMED, Status.HISTORY, Status.MACHINE, *ChangePoint.OPEN)

# The places on a branch with which its head is compared, and the last clean points of the series up to each, newest
# first.
REFERENCES = lines.sql("""
    WITH place AS (
        (SELECT tag.name::text, p.number
           FROM projects_tag tag
           JOIN projects_commit c ON c.project_id = tag.project_id AND c.sha = tag.sha
           JOIN projects_position p ON p.branch_id = %(branch)s AND p.commit_id = c.id AND p.number < %(number)s
          WHERE tag.project_id = %(project)s
       ORDER BY p.number DESC, tag.id DESC LIMIT 1)
        UNION ALL
        SELECT age.days || ' days before', older.number
          FROM projects_commit head, unnest(%(ages)s::int[]) AS age (days), LATERAL (
                   SELECT p.number
                     FROM projects_commit c
                     JOIN projects_position p ON p.branch_id = %(branch)s AND p.commit_id = c.id
                    WHERE c.project_id = %(project)s AND p.number < %(number)s
                      AND c.committed_at <= head.committed_at - make_interval(days => age.days)
                 ORDER BY c.committed_at DESC, p.number DESC LIMIT 1) older
         WHERE head.id = %(head)s
        UNION ALL
        SELECT 'its best level', p.number
          FROM projects_position p WHERE p.branch_id = %(branch)s AND p.commit_id = %(best)s
    )
    SELECT place.name, last.numbers, last.commits, last.values
      FROM place, LATERAL (
               SELECT array_agg(number) AS numbers, array_agg(commit_id) AS commits, array_agg(value) AS values
                 FROM (SELECT p.number, p.commit_id, m.value
                         FROM projects_position p, LATERAL (
                                  SELECT value FROM runs_measurement m
                                   WHERE m.series_id = %(series)s AND m.commit_id = p.commit_id AND IS_CLEAN_POINT
                                ORDER BY m.id DESC LIMIT 1) m
                        WHERE p.branch_id = %(branch)s AND p.number <= place.number
                     ORDER BY p.number DESC LIMIT %(count)s) points) last
     WHERE cardinality(last.numbers) >= %(fewest)s
""")


@dataclass(frozen=True)
class Reference:
    """A measured commit, and the values of the measured commits from ``begin`` up to it; ``name`` says what it is."""

    name: str
    begin: int
    position: int
    commit_id: int
    values: Sequence[float]


def look_for_drift(series: Series, window: Window, effect: float, placed: Sequence[PlacedStep]) -> ChangePoint | None:
    """Suspect a drift that the newest point of a line shows.

    ``effect``: the smallest that counts as a change; ``placed``: the known steps of the series on this branch.
    """
    branch, points = window.branch, window.points
    if not window.new or window.new[-1] != len(points) - 1 or len(points) < 2 * LEVEL:
        return None
    newest, head = [point.value for point in points[-LEVEL:]], points[-1]
    steps = [(step.last, step.ratio) for step in placed if step.status in LEFT_STANDING]
    if ratios_within(steps, points[-LEVEL].position, head.position):
        return None  # the newest points are on two levels; the step between them is a change point of its own
    found: list[tuple[Reference, Drift, float]] = []
    for reference in references(series, branch, head, best_commit(series, branch, points, effect)):
        if reference.position > points[-LEVEL].position - 1 or ratios_within(
            steps, reference.begin, reference.position
        ):
            continue
        explained = math.prod(ratios_within(steps, reference.position, head.position))
        if one := drift.drift_since(reference.values, newest, smallest_effect=effect, explained=explained):
            found.append((reference, one, explained))
    fresh = drift.fresh_step(without_steps(points, steps)) if found else 1.0
    for reference, one, explained in sorted(found, key=lambda drifted: -drifted[1].score):
        left = drift.drift_since(reference.values, newest, smallest_effect=effect, explained=explained * fresh)
        is_left = left is not None and (one.ratio > 1) == (left.ratio > 1)
        if is_left and is_news(series, branch, reference, one):
            return suspect_drift(series, branch, reference, head, one)
    return None


def without_steps(points: Sequence[TrialPoint], steps: Sequence[tuple[int, float]]) -> list[float]:
    """The values of the points with the effect of these steps removed. A step is (position, ratio)."""
    return [point.value / math.prod(ratios_within(steps, 0, point.position)) for point in points]


def suspect_drift(series: Series, branch: Branch, reference: Reference, head: TrialPoint, found: Drift) -> ChangePoint:
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


def references(series: Series, branch: Branch, head: TrialPoint, best: int) -> list[Reference]:
    """The last release before the head, the commits AGES days before it, and the commit ``best``, if measured."""
    asked: dict[str, Any] = {
        "series": series.pk,
        "project": series.project_id,
        "branch": branch.pk,
        "head": head.commit_id,
        "number": head.position,
        "best": best,
        "ages": AGES,
        "count": LEVEL,
        "fewest": drift.FEWEST,
    }
    with connection.cursor() as cursor:
        cursor.execute(REFERENCES, asked)
        return [
            Reference(name, numbers[-1], numbers[0], commits[0], values[::-1])
            for name, numbers, commits, values in cursor
        ]


def best_commit(series: Series, branch: Branch, points: Sequence[TrialPoint], effect: float) -> int:
    """The commit of the best level that the line ever had; replaced when a level is better by the smallest effect.

    So noise does not move the reference.
    """
    of_line = BestLevel.objects.filter(series=series, branch=branch)
    known = of_line.values_list("commit_id", "level").first()
    better = min if METRICS[series.metric].better == Direction.LOWER else max
    ends = range(LEVEL, len(points) + 1) if known is None else [len(points)]
    levels = {end: median([point.value for point in points[end - LEVEL : end]]) for end in ends}
    end = better(levels, key=lambda at: levels[at])
    worth = 1 + effect
    if known and better(levels[end] * (worth if better is min else 1 / worth), known[1]) == known[1]:
        return known[0]
    best = points[end - 1].commit_id
    BestLevel.objects.update_or_create(series=series, branch=branch, defaults={"commit_id": best, "level": levels[end]})
    return best


def ratios_within(steps: Sequence[tuple[int, float]], first: int, last: int) -> list[float]:
    """The ratios of the steps (position, ratio) after the first and up to the last position."""
    return [ratio for number, ratio in steps if first < number <= last and ratio > 0]


def is_news(series: Series, branch: Branch, reference: Reference, found: Drift) -> bool:
    """Is it a new drift, or a known one that has grown?

    A drift that overlaps an earlier one in time and direction is the same one, whatever its reference.
    """
    earlier = ChangePoint.objects.filter(series=series, kind=Kind.DRIFT, commit__positions__branch=branch).filter(
        Q(commit__positions__number__gt=reference.position) | Q(status__in=ChangePoint.OPEN)
    )
    is_up = found.ratio > 1
    same = [cp for cp in earlier.distinct() if (cp.ratio > 1) == is_up]
    if any(cp.status in ChangePoint.OPEN for cp in same):
        return False
    surely = found.low if is_up else found.high  # noise alone must not look like growth
    return all((surely > 1) == is_up and drift.has_grown(surely, cp.ratio) for cp in same)


def steps_in(cp: ChangePoint) -> list[PlacedStep]:
    """The steps between the ends of a drift that are, or may be, real."""
    ends = positions_of(cp.branch, [cp.before_id, cp.commit_id])
    if len(ends) < 2:
        return []
    first, last = ends[cp.before_id], ends[cp.commit_id]
    steps = steps_on(cp.series, cp.branch).placed
    return [step for step in steps if first < step.last <= last and step.status in LEFT_STANDING]


def product(steps: Iterable[PlacedStep]) -> float:
    return math.prod(step.ratio for step in steps if step.ratio > 0)


def is_explained(cp: ChangePoint) -> bool:
    """Do steps that were suspected after a drift explain it?"""
    left = cp.ratio / product(step for step in steps_in(cp) if step.id > cp.pk)
    return (left - 1) * (cp.ratio - 1) <= 0 or abs(left - 1) < smallest_effect(cp.series)


def waits_for_a_step(cp: ChangePoint) -> bool:
    """Is a step between the ends of a drift not settled yet? Then it is not known how much it explains."""
    return cp.kind == Kind.DRIFT and any(step.status in ChangePoint.OPEN for step in steps_in(cp))


def steps_seen_by_pairs(cp: ChangePoint) -> float:
    """The part of the ratio in pairs of a drift's ends that comes from steps of the code between them."""
    return product(step for step in steps_in(cp) if step.status in (Status.CONFIRMED, Status.HISTORY))


def drift_in_words(cp: ChangePoint) -> str:
    """What an alert says about a drift."""
    places = positions_of(cp.branch, [cp.before_id, cp.commit_id])
    ago = places.get(cp.commit_id, 0) - places.get(cp.before_id, 0)
    low, high = sorted((cp.low - 1, cp.high - 1))
    moved = "slower" if cp.is_slowdown else "faster"
    size = f"{cp.ratio - 1:+.1%} [{low:+.1%}, {high:+.1%}]"
    return f"{moved}: {size} since {cp.reference} ({ago} commits ago), without a single step"
