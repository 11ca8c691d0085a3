"""Ranges of lines with the trials of their clean points, for detection; read for many series at once.

First the commits are found, in ranges of positions that the series share; then the samples of these commits are read.
All as columns: a row of PostgreSQL or an object of Python per sample would cost too much.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple, overload

import numpy as np
from django.db import connection

from speedtrack.alerts.lines.linecolumns import Array, array_of
from speedtrack.alerts.lines.lines import END, sql
from speedtrack.ground.postgres.pgvalues import array_text
from speedtrack.projects import positions
from speedtrack.stats.levels import Trials, medians

FIRST_PIECE = 8  # commits that are searched first, for each point that is wanted
BESIDE = 8  # points on each side of a step that tell its levels
FURTHER = 16  # times as many are searched next
FLOAT, EMPTY = 12, 12  # bytes of an element, and of an empty array, in PostgreSQL's binary form
HEAD = 20  # bytes before the elements

# First the ranges: their commits and positions, and the last position of the branch. Then the commits of each series in
# its range. In the order of their ids, as the index of points is: it is then read once from one end to the other.
ALONG = sql(f"""
      WITH range AS MATERIALIZED (
        SELECT asked.number, found.*,
               {positions.head("asked.branch_id")} AS head
          FROM unnest(%(branches)s::bigint[], %(lows)s::int[], %(highs)s::int[])
               WITH ORDINALITY AS asked (branch_id, low, high, number)
    CROSS JOIN LATERAL (
            SELECT array_agg(p.commit_id ORDER BY p.commit_id) AS commits,
                   array_agg(p.number ORDER BY p.commit_id) AS numbers
              FROM projects_position p
             WHERE p.branch_id = asked.branch_id AND p.number BETWEEN asked.low AND asked.high) found)
    SELECT number, 0, array_send(commits), array_send(numbers), head FROM range
 UNION ALL
    SELECT range.number, s.at, array_send(ARRAY(SELECT m.commit_id FROM runs_measurement m
                                               WHERE m.series_id = s.id AND m.commit_id = ANY (range.commits)
                                                 AND IS_CLEAN_POINT)), NULL, NULL
      FROM unnest(%(series)s::bigint[], %(ranges)s::bigint[]) WITH ORDINALITY AS s (id, number, at)
      JOIN range USING (number)
""")  # noqa: S608 - constants
# Where the line of a series with fewer points than are wanted begins on a branch: null if it has no point there.
# "+ 0", or PostgreSQL would look for the smallest number from the root on.
BEGINNINGS = sql("""
    SELECT CASE WHEN cardinality(few.commits) < s.count
                THEN (SELECT min(p.number + 0) FROM projects_position p
                       WHERE p.branch_id = s.branch_id AND p.commit_id = ANY (few.commits))
                ELSE 0 END
      FROM unnest(%(series)s::bigint[], %(branches)s::bigint[], %(counts)s::int[])
           WITH ORDINALITY AS s (id, branch_id, count, at)
CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT m.commit_id FROM runs_measurement m
                      WHERE m.series_id = s.id AND IS_CLEAN_POINT LIMIT s.count) AS commits OFFSET 0) AS few
  ORDER BY s.at
""")
# All measurements of the series at their commits, as one row of columns, with the clean samples of each. OFFSET 0:
# PostgreSQL then looks up each row, whatever it assumes about the sizes of the tables.
SAMPLES = sql("""
    SELECT array_send(array_agg(s.at)), array_send(array_agg(m.id)), array_send(array_agg(m.commit_id)),
           array_send(array_agg(cardinality(m.clean))), string_agg(array_send(m.clean), '')
      FROM unnest(%(series)s::bigint[], %(commits)s::text[]) WITH ORDINALITY AS s (id, commits, at)
CROSS JOIN LATERAL (
        SELECT m.id, m.commit_id, coalesce(
                   CASE WHEN r.flagged IS NULL AND array_position(r.values, NULL) IS NULL THEN r.values
                        ELSE ARRAY(SELECT t.value FROM unnest(r.values) WITH ORDINALITY AS t (value, place)
                                    WHERE t.value IS NOT NULL AND t.place - 1 <> ALL (coalesce(r.flagged, '{}'))
                                 ORDER BY t.place) END,
                   ARRAY[m.value]) AS clean
          FROM runs_measurement m
     LEFT JOIN LATERAL (
               SELECT r.values, r.flagged FROM runs_samples r WHERE r.measurement_id = m.id OFFSET 0) r ON true
         WHERE m.series_id = s.id AND m.commit_id = ANY (s.commits::int[]) AND IS_CLEAN_POINT OFFSET 0) m
""")


class TrialPoint(NamedTuple):
    """A measured commit with the clean, finite samples of all its runs, in the metric's unit, and their median.

    A measurement whose samples have been deleted counts as one sample: its median.
    """

    position: int
    commit_id: int
    trials: tuple[float, ...]
    value: float


@dataclass(frozen=True)
class TrialLine(Sequence[TrialPoint]):
    """The points of a line in commit order, kept as columns; ``values``: their medians."""

    positions: list[int]
    commits: list[int]
    values: list[float]
    trials: Trials

    @classmethod
    def of(cls, points: Sequence[TrialPoint]) -> "TrialLine":
        positions, commits, trials, values = map(list, zip(*points, strict=True)) if points else ([], [], [], [])
        return cls(positions, commits, values, Trials.of(trials))

    @cached_property
    def ends(self) -> list[int]:
        """Where the trials of each point end in ``trials.values``."""
        ends: list[int] = np.cumsum(self.trials.sizes).tolist()
        return ends

    def __len__(self) -> int:
        return len(self.positions)

    def level_from_zero(self, first: int, last: int) -> float | None:
        """The level from index ``last`` on, if the level before index ``first`` is 0; otherwise None."""
        before, after = self.values[max(0, first - BESIDE) : first], self.values[last : last + BESIDE]
        if not (before and after) or median(before) != 0:
            return None
        return float(median(after)) or None

    @overload
    def __getitem__(self, index: int) -> TrialPoint: ...
    @overload
    def __getitem__(self, index: slice) -> list[TrialPoint]: ...
    def __getitem__(self, index: int | slice) -> TrialPoint | list[TrialPoint]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        end = self.ends[index]
        trials = tuple(self.trials.values[end - self.trials.sizes[index] : end].tolist())
        return TrialPoint(self.positions[index], self.commits[index], trials, self.values[index])


class LineRange(NamedTuple):
    """The part of a series' line along a branch from one position to another."""

    series_id: int
    branch_id: int
    first: int
    last: int = END


@dataclass(frozen=True)
class Around:
    """How many clean points to read before the first position and after the last one."""

    before: int = 0
    after: int = 0


class PositionRange(NamedTuple):
    """The positions of a branch from ``low`` to ``high``; none if ``low`` is above it."""

    branch_id: int
    low: int
    high: int


class CommitSearch(NamedTuple):
    """A search for the clean points of a series in a range, at most ``limit``: those nearest to its beginning or end.

    ``limit``: None for all of them.
    """

    series_id: int
    within: PositionRange
    limit: int | None = None
    from_end: bool = False

    def piece(self, factor: int) -> PositionRange:
        """The part of the range that is searched first: ``factor`` commits for each point that is wanted."""
        branch, low, high = self.within
        if self.limit is None or high - low < (size := factor * self.limit):
            return self.within
        return PositionRange(branch, *((high - size + 1, high) if self.from_end else (low, low + size - 1)))

    def after(self, piece: PositionRange, head: int) -> "CommitSearch":
        """The search in the rest of the range. ``head``: the last position of the branch."""
        branch, low, high = self.within
        ends = (low, piece.low - 1) if self.from_end else (piece.high + 1, min(high, head))
        return self._replace(within=PositionRange(branch, *ends))

    @property
    def is_over(self) -> bool:
        return self.within.low > self.within.high


class MeasuredCommits(NamedTuple):
    """Measured commits by id, in their order on a branch, with their positions."""

    numbers: Array
    commits: Array

    @classmethod
    def joined(cls, stretches: Iterable["MeasuredCommits"]) -> "MeasuredCommits":
        numbers, commits = (np.concatenate(columns) for columns in zip(*stretches, strict=True))
        order = np.argsort(numbers)
        return cls(numbers[order], commits[order])

    def nearest(self, search: CommitSearch) -> "MeasuredCommits":
        """The ``limit`` ones that the search is for, where its last piece had more of them."""
        if search.limit is None or len(self.numbers) <= search.limit:
            return self
        nearest = slice(-search.limit, None) if search.from_end else slice(search.limit)
        return MeasuredCommits(self.numbers[nearest], self.commits[nearest])


NO_COMMITS = MeasuredCommits(np.empty(0, np.int32), np.empty(0, np.int32))


def trial_lines(ranges: Sequence[LineRange], around: Around = Around()) -> list[TrialLine]:
    """For each range: the clean points of its series between its positions, and around them, in commit order."""
    searches = [
        search
        for series, branch, first, last in ranges
        for search in (
            CommitSearch(
                series, PositionRange(branch, 0, first - 1 if around.before else -1), around.before, from_end=True
            ),
            CommitSearch(series, PositionRange(branch, first, last)),
            CommitSearch(series, PositionRange(branch, last + 1, END if around.after else -1), around.after),
        )
    ]
    stretches = find_commits(searches)
    commits = [MeasuredCommits.joined(stretches[at : at + 3]) for at in range(0, len(stretches), 3)]
    return lines_of([line_range.series_id for line_range in ranges], commits)


def find_commits(searches: Sequence[CommitSearch]) -> list[MeasuredCommits]:
    """The commits that each search finds.

    One statement for all of them, and more for lines of which few commits are measured.
    """
    results, factor = [NO_COMMITS for _ in searches], FIRST_PIECE
    unfinished = {at: search for at, search in enumerate(searches) if not search.is_over}
    while unfinished:
        pieces = [search.piece(factor) for search in unfinished.values()]
        answers = commits_along([search.series_id for search in unfinished.values()], pieces)
        to_continue: dict[int, CommitSearch] = {}
        for (at, search), piece, (further, head) in zip(unfinished.items(), pieces, answers, strict=True):
            results[at] = MeasuredCommits.joined([results[at], further])
            if len(results[at].numbers) < (search.limit or 0):
                to_continue[at] = search.after(piece, head)
        unfinished = within_lines(to_continue) if factor == FIRST_PIECE else to_continue
        unfinished = {at: search for at, search in unfinished.items() if not search.is_over}
        factor *= FURTHER
    return [commits.nearest(search) for commits, search in zip(results, searches, strict=True)]


def commits_along(series: Sequence[int], ranges: Sequence[PositionRange]) -> list[tuple[MeasuredCommits, int]]:
    """The measured commits of each of these series in its range, and the last position of the range's branch."""
    numbers_of_ranges = {key: number for number, key in enumerate(dict.fromkeys(ranges), start=1)}
    parameters: dict[str, Any] = {
        "branches": [key.branch_id for key in numbers_of_ranges],
        "lows": [key.low for key in numbers_of_ranges],
        "highs": [key.high for key in numbers_of_ranges],
        "series": list(series),
        "ranges": [numbers_of_ranges[key] for key in ranges],
    }
    with connection.cursor() as cursor:
        cursor.execute(ALONG, parameters)
        rows = {row[:2]: row[2:] for row in cursor}
    along = {}
    for number in numbers_of_ranges.values():
        commits, numbers, head = rows[number, 0]
        along[number] = array_of(commits), array_of(numbers), -1 if head is None else head
    answers = []
    for at, number in enumerate(parameters["ranges"], start=1):
        commits, numbers, head = along[number]
        own_commits = np.unique(array_of(rows[number, at][0]))
        positions = numbers[np.searchsorted(commits, own_commits)]
        order = np.argsort(positions)
        answers.append((MeasuredCommits(positions[order], own_commits[order]), head))
    return answers


def within_lines(searches: Mapping[int, CommitSearch]) -> dict[int, CommitSearch]:
    """The searches, those from the end only as far as their series go: young ones do not lead to the branch's root."""
    backwards = [search for search in searches.values() if search.from_end]
    if not backwards:
        return dict(searches)
    parameters: dict[str, Any] = {
        "series": [search.series_id for search in backwards],
        "branches": [search.within.branch_id for search in backwards],
        "counts": [search.limit for search in backwards],
    }
    with connection.cursor() as cursor:
        cursor.execute(BEGINNINGS, parameters)
        beginnings = iter([END if number is None else number for (number,) in cursor])
    return {
        at: search._replace(within=search.within._replace(low=max(search.within.low, next(beginnings))))
        if search.from_end
        else search
        for at, search in searches.items()
    }


def lines_of(series: Sequence[int], commits_of_lines: Sequence[MeasuredCommits]) -> list[TrialLine]:
    """The lines of these series through their measured commits."""
    commits = [array_text(of_line.commits.tolist()) for of_line in commits_of_lines]
    with connection.cursor() as cursor:
        cursor.execute(SAMPLES, {"series": list(series), "commits": commits})
        *encoded, samples = cursor.fetchone()
    if samples is None:
        return [TrialLine.of([]) for _ in series]
    at, ids, commit_ids, sizes = map(array_of, encoded)
    at, numbers = at - 1, numbers_of(commits_of_lines, at - 1, commit_ids)
    order = np.lexsort((ids, numbers, at))
    values = samples_of(samples, sizes, order)
    points = points_of(MeasurementColumns(at[order], numbers[order], commit_ids[order], sizes[order]), values)
    return list(split(points, len(series)))


class MeasurementColumns(NamedTuple):
    """Measurements, or points, as columns: the index of the line, the position, the commit, the number of samples."""

    at: Array
    numbers: Array
    commits: Array
    sizes: Array


def numbers_of(commits_of_lines: Sequence[MeasuredCommits], at: Array, commits: Array) -> Array:
    """The positions of commits. ``at``: for each the index of its line in ``commits_of_lines``."""
    keys = np.concatenate(
        [(index << 32) + of_line.commits.astype(np.int64) for index, of_line in enumerate(commits_of_lines)]
    )
    numbers, order = np.concatenate([of_line.numbers for of_line in commits_of_lines]), np.argsort(keys)
    return numbers[order][np.searchsorted(keys[order], (at << 32) + commits)]


def samples_of(encoded: bytes, sizes: Array, order: Array) -> Array:
    """The elements of arrays of floats in this order.

    ``encoded``: arrays of these sizes in PostgreSQL's binary form, one after another.
    """
    lengths = np.where(sizes > 0, HEAD + FLOAT * sizes, EMPTY)
    begins = (np.cumsum(lengths) - lengths + HEAD + FLOAT - 8)[order]
    sizes = sizes[order]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    elements = (np.repeat(begins, sizes) + FLOAT * within)[:, None] + np.arange(8)
    values: Array = np.frombuffer(encoded, np.uint8)[elements].view(">f8").ravel().astype(np.float64)
    return values


def points_of(columns: MeasurementColumns, values: Array) -> tuple[MeasurementColumns, Array]:
    """One point for all measurements of a commit in a line; samples that are no finite numbers are left out."""
    is_finite = np.isfinite(values)
    owners = np.repeat(np.arange(len(columns.sizes)), columns.sizes)[is_finite]
    counts = np.bincount(owners, minlength=len(columns.sizes))
    is_first = (np.diff(columns.at, prepend=-1) != 0) | (np.diff(columns.numbers, prepend=-1) != 0)
    firsts = np.flatnonzero(is_first)
    sizes = np.add.reduceat(counts, firsts)
    at, numbers, commits, _ = (column[firsts[sizes > 0]] for column in columns)
    return MeasurementColumns(at, numbers, commits, sizes[sizes > 0]), values[is_finite]


def split(points: tuple[MeasurementColumns, Array], count: int) -> Iterator[TrialLine]:
    """The points of each of ``count`` lines."""
    (at, numbers, commits, sizes), values = points
    middles, samples = medians(values, sizes), np.concatenate([[0], np.cumsum(sizes)])
    for begin, end in pairwise(np.searchsorted(at, np.arange(count + 1)).tolist()):
        line = slice(begin, end)
        trials = Trials(values[samples[begin] : samples[end]], sizes[line])
        yield TrialLine(numbers[line].tolist(), commits[line].tolist(), middles[line], trials)
