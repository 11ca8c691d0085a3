"""The references with which the newest level of a line is compared: the last release, its ages and its best level."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from django.db import connection

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.known import PlacedStep
from speedtrack.alerts.lines.trials import CommitSearch, PositionRange, TrialPoint, find_commits
from speedtrack.alerts.lines.windows import BEFORE, Window
from speedtrack.alerts.models import BestLevel, ChangePoint
from speedtrack.benchmarks.metrics import METRICS, Direction
from speedtrack.stats.changes.drift import FEWEST, LEVEL
from speedtrack.stats.levels import medians

AGES = [30, 90]  # days
REACH = 1000  # commits of a branch in which the points of a reference must lie
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
    """A measured commit, and the values of the measured commits from ``begin`` up to it. ``name``: for people."""

    name: str
    begin: int
    position: int
    commit_id: int
    values: Sequence[float]

    @property
    def is_best(self) -> bool:
        return self.name == BEST_LEVEL


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
