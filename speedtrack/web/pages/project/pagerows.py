"""Which rows of a grid are on a page of it: found without reading the lines of the others."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db import connection

from speedtrack.alerts.lines.linecolumns import LineColumns, newest_line
from speedtrack.alerts.lines.lines import sql
from speedtrack.web.pages.project.columns import GridColumn
from speedtrack.web.pages.project.filters import MOST, pages_for

LISTED_COMMITS = 8  # the newest ones, which a list tells whether they were measured
# Of series: those with points along a path, with those of its newest commits that they measured. Counted rather than
# sought, along an array that PostgreSQL does not see: it would read series that have ended as a whole.
OUTLINE = sql("""
      WITH path AS MATERIALIZED (SELECT %(path)s::int[] AS commits, %(newest)s::int[] AS newest)
    SELECT s.id, points.*
      FROM path
CROSS JOIN unnest(%(series)s::int[]) AS s (id)
CROSS JOIN LATERAL (
        SELECT array_agg(m.commit_id) FILTER (WHERE m.commit_id = ANY (path.newest))
          FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = ANY (path.commits) AND IS_POINT
        HAVING count(*) > 0) points
""")


class PageRows(NamedTuple):
    """Which rows are on a page. ``groups``: those of all rows, in their order; ``names``: the benchmarks of the page.

    ``begin``: how many rows come before these.
    """

    groups: list[str]
    names: list[str]
    begin: int

    @property
    def of(self) -> int:
        return len(self.groups)

    @property
    def first(self) -> int:
        return self.begin + 1

    @property
    def last(self) -> int:
        return self.begin + len(self.names)

    @property
    def previous_page(self) -> int | None:
        return self.begin // MOST or None

    @property
    def next_page(self) -> int | None:
        return self.begin // MOST + 2 if self.following else None

    @property
    def following(self) -> int:
        """How many rows the next page has."""
        return min(MOST, self.of - self.last)

    @property
    def are_headed(self) -> bool:
        return len(set(self.groups)) > 1

    @property
    def continued(self) -> str:
        """The group of the row before these; empty on the first page."""
        return self.groups[self.begin - 1] if self.begin else ""


@dataclass(frozen=True)
class Outline:
    """What concerns all rows, of whichever page: their benchmarks and series with points along the path.

    ``newest``: of each benchmark, the series of its newest line. ``measured``: as that of the grid.
    """

    series: list[int]
    newest: dict[str, int]
    measured: frozenset[int]

    @property
    def names(self) -> Collection[str]:
        return self.newest.keys()


def outline_of(by_name: Mapping[str, list[LineColumns]], path: Sequence[GridColumn]) -> Outline:
    """Group these lines into rows."""
    series = [line.series_id for lines in by_name.values() for line in lines]
    newest = {name: newest_line(lines).series_id for name, lines in by_name.items()}
    return Outline(series, newest, measured_commits(path, by_name))


def read_outline(benchmarks: Mapping[int, str], path: Sequence[GridColumn]) -> Outline:
    """Group series into the rows of all pages, without their points. A later series has newer points.

    ``benchmarks``: their names by series.
    """
    ids = [column.pk for column in path]
    with connection.cursor() as cursor:
        cursor.execute(OUTLINE, {"series": list(benchmarks), "path": ids, "newest": ids[-LISTED_COMMITS:]})
        measured: dict[int, list[int] | None] = dict(sorted(cursor))
    newest = {benchmarks[pk]: pk for pk in measured}
    return Outline(
        list(measured), newest, frozenset(commit for commits in measured.values() for commit in commits or ())
    )


def rows_of_page(groups: Mapping[str, str], names: Collection[str], page: int | None) -> PageRows:
    """The rows of a page; of the last one if there are fewer pages. ``groups``: by name, in the order of the rows."""
    ordered = [name for name in groups if name in names]
    begin = (min(page, pages_for(ordered)) - 1) * MOST if page else 0
    return PageRows([groups[name] for name in ordered], ordered[begin : begin + MOST] if page else ordered, begin)


def measured_commits(path: Sequence[GridColumn], by_name: Mapping[str, list[LineColumns]]) -> frozenset[int]:
    positions = {at for lines in by_name.values() for line in lines for at in line.at.tolist()}
    return frozenset(path[at].pk for at in positions)
