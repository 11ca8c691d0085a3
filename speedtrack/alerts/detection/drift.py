"""Compare the newest level of each line with fixed references, to find drift that no single commit explains.

References are the last release, the commits about 30 and 90 days before the head, and the best level so far. A
suspected drift is settled by pairs of the reference and the head, like any other change, but not narrowed: its range is
(reference, head]. It is suspected again only when it has grown.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from statistics import median
from typing import Any

from django.db import connection
from django.db.models import Q

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.effects import smallest_effect
from speedtrack.alerts.lines.known import PlacedStep, steps_on
from speedtrack.alerts.lines.trials import CommitSearch, PositionRange, TrialLine, TrialPoint, find_commits
from speedtrack.alerts.lines.windows import BEFORE, Window
from speedtrack.alerts.models import Alert, BestLevel, ChangePoint, Verdict
from speedtrack.alerts.pairs import sizes
from speedtrack.alerts.pairs.brackets import positions_of
from speedtrack.alerts.pairs.pairing import measured_runs, sample_pairs
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Direction
from speedtrack.runs.models import Series
from speedtrack.stats.changes import drift
from speedtrack.stats.changes.drift import FEWEST, LEVEL, Drift
from speedtrack.stats.levels import medians

AGES = [30, 90]  # days
THROUGHPUT = "throughput_rps"
REACH = 1000  # commits of a branch in which the points of a reference must lie

Kind = ChangePoint.Kind
Status = ChangePoint.Status
#: Steps of these statuses are, or may be, real: including those of the machine, and those not settled yet.
LEFT_STANDING = (Status.CONFIRMED, Status.HISTORY, Status.MACHINE, *ChangePoint.OPEN)

BEST_LEVEL = "its best level"
BEST = "SELECT series_id, branch_id, commit_id, level FROM alerts_bestlevel WHERE series_id = ANY (%(series)s)"
# The places on branches with which their heads are compared: those of each head, by its number; then the best level of
# each line, by the number of the line below zero.
REFERENCES = """
    WITH head AS (
        SELECT asked.at, asked.branch_id, c.project_id, c.committed_at, p.number
          FROM unnest(%(branches)s::bigint[], %(heads)s::bigint[]) WITH ORDINALITY AS asked (branch_id, head_id, at)
          JOIN projects_commit c ON c.id = asked.head_id
          JOIN projects_position p ON p.branch_id = asked.branch_id AND p.commit_id = c.id)
    SELECT head.at, place.*
      FROM head CROSS JOIN LATERAL (
            (SELECT tag.name::text, p.number
               FROM projects_tag tag
               JOIN projects_commit c ON c.project_id = tag.project_id AND c.sha = tag.sha
               JOIN projects_position p
                 ON p.branch_id = head.branch_id AND p.commit_id = c.id AND p.number < head.number
              WHERE tag.project_id = head.project_id
           ORDER BY p.number DESC, tag.id DESC LIMIT 1)
            UNION ALL
            SELECT age.days || ' days before', older.number
              FROM unnest(%(ages)s::int[]) AS age (days), LATERAL (
                       SELECT p.number
                         FROM projects_commit c
                         JOIN projects_position p ON p.branch_id = head.branch_id AND p.commit_id = c.id
                        WHERE c.project_id = head.project_id AND p.number < head.number
                          AND c.committed_at <= head.committed_at - make_interval(days => age.days)
                     ORDER BY c.committed_at DESC, p.number DESC LIMIT 1) older) place
 UNION ALL
    SELECT -line.at, %(best_level)s, p.number
      FROM unnest(%(lines)s::bigint[], %(best)s::bigint[]) WITH ORDINALITY AS line (branch_id, best_id, at)
      JOIN projects_position p ON p.branch_id = line.branch_id AND p.commit_id = line.best_id
"""
# Of each commit of a series the newest clean value.
VALUES = lines.sql("""
    SELECT m.value
      FROM unnest(%(series)s::bigint[], %(commits)s::bigint[]) WITH ORDINALITY AS point (series_id, commit_id, at)
CROSS JOIN LATERAL (
        SELECT m.value FROM runs_measurement m
         WHERE m.series_id = point.series_id AND m.commit_id = point.commit_id AND IS_CLEAN_POINT
      ORDER BY m.id DESC LIMIT 1) m
  ORDER BY point.at
""")


@dataclass(frozen=True)
class Heading:
    """A line to be compared with its references.

    ``effect``: the smallest effect that matters; ``placed``: the known steps of the series on this branch.
    """

    window: Window
    effect: float
    placed: Sequence[PlacedStep]

    @property
    def head(self) -> TrialPoint:
        return self.window.points[-1]

    @property
    def newest(self) -> list[float]:
        """The values of the newest points, which make up its present level."""
        return self.window.values[-LEVEL:]

    @property
    def begins(self) -> int:
        """A position before which the line has no points."""
        points, new = self.window.points, self.window.new
        return points.positions[0] if new and new[0] < BEFORE else 0

    @property
    def level_begins(self) -> int:
        return self.window.points.positions[-LEVEL]

    @cached_property
    def steps(self) -> list[tuple[int, float]]:
        """The (position, ratio) of each step that is, or may be, real."""
        return [(step.last, step.ratio) for step in self.placed if step.status in LEFT_STANDING]

    def is_on_one_level(self) -> bool:
        """Return whether the newest point is new, and on one level with those before it.

        Otherwise the step between them is a change point of its own.
        """
        points, new = self.window.points, self.window.new
        if not new or new[-1] != len(points) - 1 or len(points) < 2 * LEVEL:
            return False
        return not ratios_within(self.steps, self.level_begins, self.head.position)


@dataclass(frozen=True)
class DriftReference:
    """A measured commit, and the values of the measured commits from ``begin`` up to it; ``name`` says what it is."""

    name: str
    begin: int
    position: int
    commit_id: int
    values: Sequence[float]

    @property
    def is_best(self) -> bool:
        return self.name == BEST_LEVEL


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
    return ChangePoint.objects.create(
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


def references(lines: Sequence[Heading], best: Sequence[int]) -> list[list[DriftReference]]:
    """For each line its measured references.

    These are ``best``, the last release before its head, and the commits AGES days before.
    """
    searches = list(reference_searches(lines, best))
    levels = [
        (*search, level)
        for search, level in zip(searches, find_commits([search for _, _, search in searches]), strict=True)
        if len(level.commits) >= FEWEST
    ]
    values = iter(newest_values([(search.series_id, level.commits.tolist()) for _, _, search, level in levels]))
    by_line: list[list[DriftReference]] = [[] for _ in lines]
    for at, name, _, level in levels:
        ends = int(level.numbers[0]), int(level.numbers[-1]), int(level.commits[-1])
        by_line[at].append(DriftReference(name, *ends, list(islice(values, len(level.commits)))))
    return by_line


def reference_searches(lines: Sequence[Heading], best: Sequence[int]) -> Iterator[tuple[int, str, CommitSearch]]:
    """For each line the names of its references, and the searches for their levels; the nearest ones first."""
    branches, heads = [line.window.branch.pk for line in lines], [line.head.commit_id for line in lines]
    numbered = {ends: number for number, ends in enumerate(dict.fromkeys(zip(branches, heads, strict=True)), start=1)}
    parameters: dict[str, Any] = {
        "branches": [branch for branch, _ in numbered],
        "heads": [head for _, head in numbered],
        "ages": AGES,
        "lines": branches,
        "best": list(best),
        "best_level": BEST_LEVEL,
    }
    positions: dict[int, list[tuple[int, str]]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(REFERENCES, parameters)
        for at, name, number in cursor:
            positions[at].append((number, name))
    for at, (line, *ends) in enumerate(zip(lines, branches, heads, strict=True)):
        common = sorted(positions[numbered[ends[0], ends[1]]], reverse=True)
        for number, name in [*common, *positions[-1 - at]]:
            within = PositionRange(ends[0], max(line.begins, number - REACH), number)
            yield at, name, CommitSearch(line.window.series.pk, within, LEVEL, from_end=True)


def newest_values(points: Iterable[tuple[int, Iterable[int]]]) -> list[float]:
    """The newest clean value of each series at each of its commits."""
    pairs = [(series, commit) for series, commits in points for commit in commits]
    with connection.cursor() as cursor:
        cursor.execute(VALUES, {"series": [pk for pk, _ in pairs], "commits": [pk for _, pk in pairs]})
        return [value for (value,) in cursor]


def best_commits(lines: Sequence[Heading]) -> list[int]:
    """For each line, the id of the commit with the best level that it ever had.

    It is replaced only by a level that is better by the smallest effect, so noise does not move the reference.
    """
    with connection.cursor() as cursor:
        cursor.execute(BEST, {"series": [line.window.series.pk for line in lines]})
        stored_levels = {(series, branch): (commit, level) for series, branch, commit, level in cursor}
    levels = [best_level(line, stored_levels.get((line.window.series.pk, line.window.branch.pk))) for line in lines]
    better = [
        BestLevel(series=line.window.series, branch=line.window.branch, commit_id=commit, level=level)
        for line, (commit, level, is_new) in zip(lines, levels, strict=True)
        if is_new
    ]
    BestLevel.objects.bulk_create(
        better, update_conflicts=True, unique_fields=["series", "branch"], update_fields=["commit", "level"]
    )
    return [commit for commit, _, _ in levels]


def best_level(line: Heading, stored_level: tuple[int, float] | None) -> tuple[int, float, bool]:
    """The commit and the value of the line's best level, and whether it is better than the ``stored_level``."""
    window, values = line.window, line.window.values
    better = min if METRICS[window.series.metric].better == Direction.LOWER else max
    ends = range(LEVEL, len(values) + 1) if stored_level is None else [len(values)]
    middles = medians([value for end in ends for value in values[end - LEVEL : end]], [LEVEL for _ in ends])
    levels = dict(zip(ends, middles, strict=True))
    end = better(levels, key=lambda at: levels[at])
    worth = 1 + line.effect
    if (
        stored_level
        and better(levels[end] * (worth if better is min else 1 / worth), stored_level[1]) == stored_level[1]
    ):
        return *stored_level, False
    return window.points.commits[end - 1], levels[end], True


def ratios_within(steps: Sequence[tuple[int, float]], first: int, last: int) -> list[float]:
    """The ratios of the steps (position, ratio) after the first and up to the last position."""
    return [ratio for number, ratio in steps if first < number <= last and ratio > 0]


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


def steps_in(cp: ChangePoint) -> list[PlacedStep]:
    """The steps between the ends of a drift that are, or may be, real, each with its size in the drift's series.

    Those of the series itself; and those that another metric of the benchmark shows at other commits, as far as it is
    known what they did to the series. Steps that a person has called invalid are none.
    """
    ends = positions_of(cp.branch, [cp.before_id, cp.commit_id])
    if len(ends) < 2:
        return []
    first, last = ends[cp.before_id], ends[cp.commit_id]
    placed = [step for step in steps_on(cp.series, cp.branch).placed if first < step.last <= last]
    standing = [step for step in placed if step.status in LEFT_STANDING]
    invalid = set(
        ChangePoint.objects.filter(
            pk__in=[step.id for step in standing], alert__status=Alert.Status.INVALID
        ).values_list("pk", flat=True)
    )
    own = [step for step in standing if step.id not in invalid]
    return own + steps_beside(cp, own, first, last)


def steps_beside(cp: ChangePoint, own: Sequence[PlacedStep], first: int, last: int) -> list[PlacedStep]:
    """Steps of other metrics of a drift's benchmark, at commits of ``first`` to ``last`` without a step of its own.

    Metrics that moved with one commit have one cause, of which one step is taken: confirmed ones first, then the
    headline.
    """
    beside = ChangePoint.objects.filter(
        series__benchmark=cp.series.benchmark_id,
        series__machine=cp.series.machine_id,
        kind=Kind.STEP,
        status__in=(Status.CONFIRMED, Status.HISTORY, *ChangePoint.OPEN),
        commit__positions__branch=cp.branch_id,
        commit__positions__number__range=(first + 1, last),
        ratio__gt=0,
    )
    candidates = list(
        beside.exclude(series=cp.series_id)
        .exclude(alert__status=Alert.Status.INVALID)
        .select_related("series")
        .distinct()
    )
    positions = positions_of(
        cp.branch, [commit for change in candidates for commit in (change.before_id, change.commit_id)]
    )
    steps: list[PlacedStep] = []
    for change in sorted(
        candidates, key=lambda change: (change.status != Status.CONFIRMED, change.series.metric != HEADLINE, change.pk)
    ):
        begin, end = positions.get(change.before_id), positions[change.commit_id]
        has_step = any(begin is None or shares_place(step, begin, end) for step in (*own, *steps))
        if not has_step and (ratio := ratio_in(change, cp.series)):
            steps.append(PlacedStep(change.pk, change.status, ratio, begin, end))
    return steps


def shares_place(step: PlacedStep, begin: int, end: int) -> bool:
    """Return whether a commit of a step's range is among those after ``begin`` and up to ``end``."""
    return (step.last - 1 if step.first is None else step.first) < end and begin < step.last


def ratio_in(step: ChangePoint, series: Series) -> float | None:
    """What a step of another metric of the benchmark did to a series: the median of the pairs that measured both.

    Without such pairs, CPU time per request and throughput are taken for reciprocals; other metrics are not known.
    """
    pairs = [(base, head) for base, head in pairs_of_step(step, series) if base > 0 and head > 0]
    if pairs:
        return median(head / base for base, head in pairs)
    if {step.series.metric, series.metric} == {HEADLINE, THROUGHPUT}:
        return 1 / step.ratio
    return None


def pairs_of_step(step: ChangePoint, series: Series) -> list[tuple[float, float]]:
    """The pairs of a series in the runs of another series' step: of its commit, or else of its bracket."""
    own_pairs = sample_pairs(measured_runs(step, step.before_id, step.commit_id), series)
    bracket = step.verdicts.filter(answer=Verdict.Answer.DIFFERENT).order_by("-id").first()
    if own_pairs or bracket is None or sizes.is_part_of(step, bracket):
        return own_pairs
    return sample_pairs(measured_runs(step, bracket.base_id, bracket.commit_id), series)


def product(steps: Iterable[PlacedStep]) -> float:
    return math.prod(step.ratio for step in steps if step.ratio > 0)


def is_explained(cp: ChangePoint) -> bool:
    """Return whether steps that were suspected after a drift explain it."""
    remains = cp.ratio / product(step for step in steps_in(cp) if step.id > cp.pk)
    return (remains - 1) * (cp.ratio - 1) <= 0 or abs(remains - 1) < smallest_effect(cp.series)


def waits_for_a_step(cp: ChangePoint) -> bool:
    """Return whether a step between the ends of a drift is not settled yet, so it is not known how much it explains."""
    return cp.kind == Kind.DRIFT and any(step.status in ChangePoint.OPEN for step in steps_in(cp))


def steps_seen_by_pairs(cp: ChangePoint) -> float:
    """The product of the ratios of the code's steps between a drift's ends: that part of its ratio is no drift."""
    return product(step for step in steps_in(cp) if step.status in (Status.CONFIRMED, Status.HISTORY))


def drift_in_words(cp: ChangePoint) -> str:
    """The sentence of an alert about a drift."""
    positions = positions_of(cp.branch, [cp.before_id, cp.commit_id])
    ago = positions.get(cp.commit_id, 0) - positions.get(cp.before_id, 0)
    direction = "slower" if cp.is_slowdown else "faster"
    size = numbers.size(cp.ratio, cp.low, cp.high)
    return f"{direction}: {size} since {cp.reference} ({ago} commits ago), without a single step"
