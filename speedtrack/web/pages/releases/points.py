"""What the series of a metric measured of releases."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array, array_of
from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import Metric
from speedtrack.ground.postgres.pgvalues import all_rows, array_text, rows_of_arrays
from speedtrack.judging.points import PointRow, SidePoint, combined
from speedtrack.projects.models import Project
from speedtrack.runs.models import Machine
from speedtrack.web.pages.releases.versions import Stretch

Points = dict[str, dict[int, SidePoint]]  # of a release: by benchmark and by series
FEW = 8  # releases that MEASURED looks for first
# The series with a point of any of these commits. The order makes each a single search in the index of points, which
# ends at the first one; EXISTS would read all points of the commits, those of other metrics and machines as well. A few
# commits are found faster than all, and nearly every series has one of them.
ANY_POINT = """(SELECT m.commit_id FROM runs_measurement m
                           WHERE m.series_id = s.id AND m.commit_id = ANY (%({commits})s::int[]) AND IS_POINT
                        ORDER BY m.commit_id LIMIT 1)"""
MEASURED = sql(f"""
    SELECT s.id, b.name, b.ladder, b.rung, b.id, s.environment_id
      FROM runs_series s JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
     WHERE s.project_id = %(project)s AND s.machine_id = %(machine)s AND s.metric = %(metric)s
       AND coalesce({ANY_POINT.format(commits="few")},
                    {ANY_POINT.format(commits="commits")}) IS NOT NULL
""")  # noqa: S608 - constants
# Of each benchmark, the first of these commits that one of its series measured. They are in the order of the array, so
# that the search ends there.
FIRST_MEASURED = """(
    SELECT c.id FROM unnest(%({commits})s::int[]) WITH ORDINALITY AS c (id, place)
     WHERE EXISTS (SELECT FROM unnest(b.series) AS s (id)
                    WHERE EXISTS (SELECT FROM runs_measurement m
                                   WHERE m.series_id = s.id AND m.commit_id = c.id AND IS_POINT OFFSET 0) OFFSET 0)
  ORDER BY c.place LIMIT 1)"""
REFERENCES = sql(f"""
    SELECT b.series, {FIRST_MEASURED.format(commits="forwards")}, {FIRST_MEASURED.format(commits="backwards")}
      FROM (SELECT array_agg(id ORDER BY id DESC) AS series
              FROM unnest(%(series)s::int[], %(benchmarks)s::int[]) AS s (id, benchmark) GROUP BY benchmark) b
""")  # noqa: S608 - constants


# The points of series, of each at some commits, as columns in PostgreSQL's binary form.
POINTS = sql("""
    SELECT json_agg(json_build_array(m.series_id, m.commit_id, m.attempt_id, string_to_array(m.flags, ',')))
               FILTER (WHERE m.flags <> ''),
           array_send(array_agg(m.series_id::bigint)), array_send(array_agg(m.commit_id::bigint)),
           array_send(array_agg(m.attempt_id::bigint)), array_send(array_agg((m.flags <> '')::int)),
           array_send(array_agg(m.value)), array_send(array_agg(m.low)), array_send(array_agg(m.high))
      FROM unnest(%(series)s::int[], %(commits)s::text[]) AS s (id, commits)
CROSS JOIN LATERAL (
        SELECT m.* FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = ANY (s.commits::int[]) AND IS_POINT OFFSET 0) m
    HAVING count(*) > 0
""")


class MeasuredSeries(NamedTuple):
    pk: int
    benchmark: str
    ladder: str
    rung: float | None
    benchmark_id: int
    environment_id: int


class DrawnValue(NamedTuple):
    """A release under one benchmark, as a chart shows it."""

    value: float
    low: float
    high: float
    flags: list[str]


@dataclass(frozen=True)
class ReleaseColumns:
    """The points of series of one metric on one machine, an entry for each run, in the order of series and commits.

    ``flags``: by series, commit and attempt, of those with any.
    """

    machine_id: int
    metric: Metric
    flags: Mapping[tuple[int, int, int], list[str]]
    series: Array
    commit: Array
    attempt: Array
    is_flagged: Array
    value: Array
    low: Array
    high: Array

    def chosen(self, indices: Array) -> "ReleaseColumns":
        """Only those at these indices, in this order."""
        return ReleaseColumns(
            self.machine_id, self.metric, self.flags, *(column[indices] for column in columns_of(self))
        )

    def of_series(self, pks: Collection[int]) -> "ReleaseColumns":
        return self.chosen(np.flatnonzero(np.isin(self.series, list(pks))))

    def at_commits(self, pks: Collection[int]) -> "ReleaseColumns":
        return self.chosen(np.flatnonzero(np.isin(self.commit, list(pks))))

    def joined(self, further: "ReleaseColumns") -> "ReleaseColumns":
        """These points and further ones, none of which is among these."""
        both = zip(columns_of(self), columns_of(further), strict=True)
        flags = {**self.flags, **further.flags}
        return ReleaseColumns(self.machine_id, self.metric, flags, *map(np.concatenate, both)).in_order

    @property
    def in_order(self) -> "ReleaseColumns":
        return self.chosen(np.lexsort((self.attempt, self.commit, self.series)))

    @property
    def fingerprint(self) -> bytes:
        """Bytes that differ when any of these points does."""
        return np.stack([self.series, self.commit, self.attempt, self.is_flagged]).tobytes()

    def by_release(self, series: Mapping[int, MeasuredSeries]) -> dict[int, Points]:
        """By commit id: the points of these series as objects."""
        own = self.of_series(series)
        columns = (own.series, own.commit, own.attempt, own.value, own.low, own.high)
        points: dict[int, Points] = defaultdict(lambda: defaultdict(dict))
        for point in combined(self.row_of(series[pk], *row) for pk, *row in rows_of(*columns)):
            points[point.commit_id][point.benchmark][point.series_id] = point
        return points

    def row_of(
        self, series: MeasuredSeries, commit: int, attempt: int, value: float, low: float, high: float
    ) -> PointRow:
        names = (series.benchmark_id, series.benchmark, self.metric.name, series.ladder, series.environment_id)
        flags = self.flags.get((series.pk, commit, attempt), [])
        return PointRow(commit, self.machine_id, series.pk, *names, attempt, flags, value, low, high)

    def drawn(self, series: Mapping[int, str]) -> dict[tuple[str, int], DrawnValue]:
        """By benchmark and commit: a value of the newest series, from its newest clean run, or its newest if none is.

        ``series``: the benchmark of each.
        """
        own = self.of_series(series)
        order = np.lexsort((own.attempt, own.is_flagged == 0, own.series))  # the last one of a benchmark counts
        columns = (own.series, own.commit, own.attempt, own.value, own.low, own.high)
        return {
            (series[pk], commit): DrawnValue(value, low, high, self.flags.get((pk, commit, attempt), []))
            for pk, commit, attempt, value, low, high in rows_of(*(column[order] for column in columns))
        }


def columns_of(points: ReleaseColumns) -> tuple[Array, ...]:
    return points.series, points.commit, points.attempt, points.is_flagged, points.value, points.low, points.high


def rows_of(*columns: Array) -> Iterable[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)


def measured_series(
    project: Project, machine: Machine | None, metric: Metric, commits: Sequence[int]
) -> list[MeasuredSeries]:
    """The series with a point of any of these commits."""
    parameters: dict[str, Any] = {
        "project": project.pk,
        "machine": machine.pk if machine else None,
        "metric": metric.name,
        "commits": array_text(commits),
        "few": array_text(commits[:: -(-len(commits) // FEW) or 1]),
    }
    return list(map(MeasuredSeries._make, all_rows(MEASURED, parameters)))


@dataclass(frozen=True)
class SeriesOfPage:
    """The series that a page compares, and those that its chart draws, with their benchmarks; both by id."""

    machine_id: int
    metric: Metric
    compared_series: Mapping[int, MeasuredSeries]
    drawn_series: Mapping[int, str]

    def points_at(self, commits: Mapping[int, str]) -> ReleaseColumns:
        """The points of some series by one query. ``commits``: by series, its commits as ``array_text`` writes them."""
        texts = array_text(f'"{own}"' for own in commits.values())
        rows = rows_of_arrays(POINTS, {"series": array_text(commits), "commits": texts})
        flagged, *encoded = rows[0] if rows else (None, *[None] * 7)
        flags = {(series, commit, attempt): own for series, commit, attempt, own in flagged or ()}
        return ReleaseColumns(self.machine_id, self.metric, flags, *map(array_of, encoded)).in_order


class PointsOfPage(NamedTuple):
    """The points that the tables compare, and all points, which the chart draws."""

    compared_points: ReleaseColumns
    all_points: ReleaseColumns


def points_of_page(series: SeriesOfPage, stretch: Stretch) -> PointsOfPage:
    """The points of the releases on the page, of those that they are compared with, and of the chart."""
    shown, earlier = stretch.commits[stretch.begin : stretch.end], stretch.commits[: stretch.begin]
    near = [*shown, *dict.fromkeys([*earlier[:1], *earlier[-1:]])]
    commits = {
        **dict.fromkeys(series.compared_series, array_text(near)),
        **dict.fromkeys(series.drawn_series, array_text(stretch.commits)),
    }
    columns = series.points_at(commits)
    further = references(series.compared_series, columns, earlier) if earlier else {}
    if unread := {pk: array_text(own) for pk, own in further.items() if pk not in series.drawn_series}:
        columns = columns.joined(series.points_at(unread))
    return PointsOfPage(columns.at_commits({*near, *chain.from_iterable(further.values())}), columns)


def references(
    series: Mapping[int, MeasuredSeries], columns: ReleaseColumns, earlier: Sequence[int]
) -> dict[int, set[int]]:
    """By series: the first of the ``earlier`` commits that has its benchmark, and the last.

    They are searched where the very first and last of ``earlier``, of which ``columns`` has the points, lack it.
    """
    ends = (columns.at_commits([commit]).series.tolist() for commit in (earlier[0], earlier[-1]))
    with_both = set.intersection(*({series[pk].benchmark for pk in own if pk in series} for own in ends))
    lacking = {pk: own.benchmark for pk, own in series.items() if own.benchmark not in with_both}
    if not lacking:
        return {}
    numbers = {name: number for number, name in enumerate(dict.fromkeys(lacking.values()))}
    benchmarks = [numbers[name] for name in lacking.values()]
    lists = {"series": lacking, "benchmarks": benchmarks, "forwards": earlier, "backwards": earlier[::-1]}
    rows = all_rows(REFERENCES, {name: array_text(own) for name, own in lists.items()})
    near = {None, earlier[0], earlier[-1]}
    return {pk: further for own, *both in rows if (further := {*both} - near) for pk in own}
