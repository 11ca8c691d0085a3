"""Which rows of a grid are on a page of it: found without reading the lines of the others."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection

from speedtrack.alerts.lines.lines import sql
from speedtrack.web.pages.paging import PageSpan, one_page, span_of
from speedtrack.web.scope import PageScope

LISTED_COMMITS = 8  # the newest ones, which a list tells whether they were measured
# The series of a grid, which of its newest commits each measured, and whether it has any point along the path. The
# order makes that a single search in the index of points, which ends at the first one, also of series that have ended.
SHOWN_SERIES = sql("""
    SELECT s.id, b.name, b.why, s.environment_id, greatest(v.visible, v.paired, 0), recent.commits,
           cardinality(recent.commits) > 0
           OR (SELECT m.commit_id FROM runs_measurement m
                WHERE m.series_id = s.id AND m.commit_id = ANY (%(path)s::int[]) AND IS_POINT
             ORDER BY m.commit_id LIMIT 1) IS NOT NULL
      FROM runs_series s
      JOIN benchmarks_benchmark b ON b.id = s.benchmark_id AND b.ladder = ''
 LEFT JOIN alerts_seriessensitivity v ON v.series_id = s.id
CROSS JOIN LATERAL (
        SELECT ARRAY(
            SELECT m.commit_id FROM runs_measurement m
             WHERE m.series_id = s.id AND m.commit_id = ANY (%(newest)s::int[]) AND IS_POINT) AS commits) recent
     WHERE s.project_id = %(project)s AND s.machine_id = %(machine)s AND s.metric = %(metric)s
""")


class ShownSeries(NamedTuple):
    """What the grid needs to know about a series.

    ``smallest``: the smallest change that it shows; 0 if that is not known. ``recent``: the newest commits of the path
    that it measured; ``has_points``: whether it measured any of the path.
    """

    pk: int
    benchmark: str
    why: str
    environment_id: int
    smallest: float
    recent: list[int]
    has_points: bool


def shown_series(scope: PageScope, path: Sequence[int] = ()) -> dict[int, ShownSeries]:
    """By id, in their order: the series of a scope without those of ladders. ``path``: ids of commits, oldest first."""
    parameters = {
        "project": scope.project.pk,
        "machine": scope.machine.pk if scope.machine else None,
        "metric": scope.metric.name,
        "path": list(path),
        "newest": list(path[-LISTED_COMMITS:]),
    }
    with connection.cursor() as cursor:
        cursor.execute(SHOWN_SERIES, parameters)
        return {row[0]: ShownSeries._make(row) for row in sorted(cursor)}


class PageRows(NamedTuple):
    """Which rows are on a page, with its benchmarks. ``groups``: those of all rows, in their order."""

    groups: list[str]
    names: Sequence[str]
    span: PageSpan

    @property
    def are_headed(self) -> bool:
        return len(set(self.groups)) > 1

    @property
    def continued(self) -> str:
        """The group of the row before these; empty on the first page."""
        return self.groups[self.span.begin - 1] if self.span.begin else ""


@dataclass(frozen=True)
class Outline:
    """What concerns all rows, of whichever page: their benchmarks and series with points along the path.

    ``newest``: of each benchmark, the series of its newest line: a later one has newer points. ``measured``: as that of
    the grid.
    """

    series: list[int]
    newest: dict[str, int]
    measured: frozenset[int]

    @property
    def names(self) -> Collection[str]:
        return self.newest.keys()


def outline_of(series: Iterable[ShownSeries]) -> Outline:
    """The outline of these series, in the order of their ids."""
    measured_series = [row for row in series if row.has_points]
    return Outline(
        [row.pk for row in measured_series],
        {row.benchmark: row.pk for row in measured_series},
        frozenset(commit for row in measured_series for commit in row.recent),
    )


def rows_of_page(groups: Mapping[str, str], names: Collection[str], page: int | None) -> PageRows:
    """The rows of a page; of the last one if there are fewer pages. ``groups``: by name, in the order of the rows."""
    ordered = [name for name in groups if name in names]
    span = span_of(page, len(ordered)) if page else one_page(len(ordered))
    return PageRows([groups[name] for name in ordered], span.among(ordered), span)
