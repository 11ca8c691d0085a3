"""The points of commits on machines: what a judgement is about."""

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from django.db import connection

from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.comparisons import MeasuredCommit

COLUMNS = """
    SELECT m.commit_id, s.machine_id, m.series_id, s.benchmark_id, b.name, s.metric, b.ladder, s.environment_id,
           m.attempt_id, string_to_array(m.flags, ','), m.value, m.low, m.high
"""
RELATED = """
      JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
  ORDER BY m.attempt_id
"""
# Lateral, so that an index finds them: by series and commit.
AT_PLACES = lines.sql(f"""{COLUMNS}
      FROM unnest(%(series)s::int[], %(commits)s::int[]) AS place (series_id, commit_id)
CROSS JOIN LATERAL (
        SELECT m.* FROM runs_measurement m
         WHERE m.series_id = place.series_id AND m.commit_id = place.commit_id AND IS_POINT OFFSET 0) m
      JOIN runs_series s ON s.id = m.series_id
{RELATED}""")  # noqa: S608 - constants


class CommitOnMachine(NamedTuple):
    """One side of a comparison."""

    commit_id: int
    machine_id: int


class Place(NamedTuple):
    """A commit in a series."""

    series_id: int
    commit_id: int


class SidePoint(NamedTuple):
    """The measurements of a commit in one series, of all its runs. ``flags``: why no run of it is to be trusted."""

    commit_id: int
    machine_id: int
    series_id: int
    benchmark_id: int
    benchmark: str
    metric: str
    ladder: str
    environment_id: int
    attempts: tuple[int, ...]
    flags: list[str]
    measured: MeasuredCommit

    @property
    def place(self) -> Place:
        return Place(self.series_id, self.commit_id)

    @property
    def value(self) -> float:
        return self.measured.value

    @property
    def low(self) -> float:
        return self.measured.low

    @property
    def high(self) -> float:
        return self.measured.high


T = TypeVar("T")


class PointRow(NamedTuple):
    """The columns of COLUMNS; samples, where a judgement is made from them."""

    commit_id: int
    machine_id: int
    series_id: int
    benchmark_id: int
    benchmark: str
    metric: str
    ladder: str
    environment_id: int
    attempt_id: int
    flags: list[str]
    value: float
    low: float
    high: float
    samples: list[float | None] | None = None
    flagged: list[int] | None = None


def points_at(places: Collection[Place]) -> dict[Place, SidePoint]:
    """The points of series at commits without samples, as far as there are some."""
    if not places:
        return {}
    series, commits = zip(*set(places), strict=True)
    return {point.place: point for point in read(AT_PLACES, series=series, commits=commits)}


def read(query: str, **columns: Sequence[int]) -> list[SidePoint]:
    with connection.cursor() as cursor:
        cursor.execute(query, {name: list(column) for name, column in columns.items()})
        return combined(PointRow(*row) for row in cursor)


def combined(rows: Iterable[PointRow]) -> list[SidePoint]:
    """The points of these rows, which are in the order of the runs."""
    groups: dict[tuple[int, int], list[PointRow]] = defaultdict(list)
    for row in rows:
        groups[row.series_id, row.commit_id].append(row)
    return [point_of(own) for own in groups.values()]


def point_of(rows: list[PointRow]) -> SidePoint:
    """Combine the runs of one series into one point: the samples of its clean runs, and the value of the newest one.

    If no run is clean, those of all runs.
    """
    sound = rows if len(rows) == 1 else [row for row in rows if not row.flags] or rows
    newest = sound[-1]
    samples = [sample for row in sound if row.samples for sample in usable_samples(row.samples, row.flagged)]
    return SidePoint(
        newest.commit_id,
        newest.machine_id,
        newest.series_id,
        newest.benchmark_id,
        newest.benchmark,
        newest.metric,
        newest.ladder,
        newest.environment_id,
        tuple([row.attempt_id for row in rows]),
        newest.flags,
        MeasuredCommit(samples, newest.value, newest.low, newest.high),
    )


def usable_samples(values: list[float | None], flagged: list[int] | None) -> list[float]:
    """The finite samples of a measurement, without those of flagged trials unless there are no others."""
    if not flagged:
        return [value for value in values if value is not None and math.isfinite(value)]
    finite = [(trial, value) for trial, value in enumerate(values) if value is not None and math.isfinite(value)]
    return [value for trial, value in finite if trial not in flagged] or [value for _, value in finite]


def points_to_compare(old: Mapping[int, T], new: Mapping[int, T]) -> tuple[T, T]:
    """The points of the newest series that measured both commits; if there is none, of the newest series of each.

    ``old``, ``new``: points by series id, as objects or as places in columns.
    """
    if len(old) == 1 and old.keys() == new.keys():  # as nearly always
        ((pk, point),) = old.items()
        return point, new[pk]
    both = old.keys() & new.keys()
    return (old[max(both)], new[max(both)]) if both else (old[max(old)], new[max(new)])
