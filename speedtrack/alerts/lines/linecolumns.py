"""Lines as columns, for charts and sensitivity: arrays of numpy, as an object per point would cost Python too much."""

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from django.db import connection

from speedtrack.alerts.lines.lines import END, LinePoint, points, sql
from speedtrack.projects.models import Branch

HEAD = 20  # bytes before the elements of an array of one dimension, five numbers; the third is the type's oid
KINDS = {20: "i8", 21: "i2", 23: "i4", 701: "f8"}
SUMMARY = ("value", "low", "high", "n")

Array = np.ndarray[Any, np.dtype[Any]]

# First the paths: their commits and positions. Then one row per series, its columns as arrays in PostgreSQL's binary
# form: a row per point would cost Python too much.
COLUMNS = sql("""
      WITH path AS MATERIALIZED (
        SELECT asked.place, found.*
          FROM unnest(%(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
               WITH ORDINALITY AS asked (branch_id, first, last, place)
    CROSS JOIN LATERAL (
            SELECT array_agg(p.commit_id) AS commits, array_agg(p.number) AS numbers
              FROM projects_position p
             WHERE p.branch_id = asked.branch_id AND p.number BETWEEN asked.first AND asked.last) found)
    SELECT place, 0, array_send(commits), array_send(numbers), NULL, NULL, NULL, NULL FROM path
 UNION ALL
    SELECT path.place, s.id, points.*
      FROM path
      JOIN unnest(%(series)s::bigint[], %(places)s::bigint[]) AS s (id, place) ON s.place = path.place
CROSS JOIN LATERAL (
        SELECT array_send(array_agg(m.commit_id)), array_send(array_agg(m.value)), array_send(array_agg(m.low)),
               array_send(array_agg(m.high)), array_send(array_agg(m.n)),
               json_object_agg(m.commit_id, string_to_array(m.flags, ',')) FILTER (WHERE m.flags <> '')
          FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = ANY(path.commits) AND IS_POINT
        HAVING count(*) > 0) points
""")


class LineColumns(NamedTuple):
    """The points of one series in commit order, as columns.

    Positions count from the first position asked for. ``flags``: by position, for points that have any.
    """

    series_id: int
    at: Array
    value: Array
    low: Array
    high: Array
    n: Array
    flags: dict[int, list[str]]

    def chosen(self, indices: Any) -> "LineColumns":
        """A copy that has only the points at these indices."""
        at = self.at[indices]
        flags = {position: self.flags[position] for position in self.flags.keys() & set(at.tolist())}
        value, low, high, n = (column[indices] for column in (self.value, self.low, self.high, self.n))
        return LineColumns(self.series_id, at, value, low, high, n, flags)


def newest_line(lines: Sequence[LineColumns]) -> LineColumns:
    """The line whose last point is the newest; of several the one of the newest series."""
    return max(lines, key=lambda line: (line.at[-1], line.series_id))


def columns(series_ids: Iterable[int], branch: Branch, first: int, last: int = END) -> list[LineColumns]:
    """The points of ``lines.points`` as columns: one entry per series with points.

    In the order of their first points.
    """
    (of_path,) = columns_along([PathOfSeries(branch, first, last, list(series_ids))])
    return of_path


class PathOfSeries(NamedTuple):
    """A stretch of a branch, and the series whose points along it are wanted."""

    branch: Branch
    first: int
    last: int
    series_ids: list[int]


def columns_along(paths: Sequence[PathOfSeries]) -> list[list[LineColumns]]:
    """For each path what ``columns`` returns, by one query."""
    series = [(pk, number) for number, path in enumerate(paths, start=1) for pk in path.series_ids]
    parameters: dict[str, Any] = {
        "branches": [path.branch.pk for path in paths],
        "firsts": [path.first for path in paths],
        "lasts": [path.last for path in paths],
        "series": [pk for pk, _ in series],
        "places": [number for _, number in series],
    }
    with connection.cursor() as cursor:
        cursor.execute(COLUMNS, parameters)
        rows = sorted(cursor, key=itemgetter(0, 1))
    groups = {number: [row[1:] for row in group] for number, group in groupby(rows, key=itemgetter(0))}
    return [columns_of_path(path, groups[number]) for number, path in enumerate(paths, start=1)]


def columns_of_path(path: PathOfSeries, rows: list[tuple[Any, ...]]) -> list[LineColumns]:
    """The columns of one path. ``rows``: the path's rows of COLUMNS, without the number of the path."""
    path_row, *rows = rows
    if not rows:
        return []
    commits, numbers = array_of(path_row[1]), array_of(path_row[2])
    order = np.argsort(commits)
    commits, numbers = commits[order], numbers[order] - path.first
    lines = [line_columns(row, commits, numbers) for row in rows]
    pooled = pooled_columns([line.series_id for line in lines if not (np.diff(line.at) > 0).all()], *path[:3])
    return sorted((pooled.get(line.series_id, line) for line in lines), key=lambda line: (line.at[0], line.series_id))


def line_columns(row: tuple[Any, ...], commits: Array, positions: Array) -> LineColumns:
    """The columns of one series from a row of COLUMNS.

    ``commits``: the ids of the path's commits, ascending; ``positions``: where they are on the branch.
    """
    series_id, ids, *summaries, flags = row
    at = positions[np.searchsorted(commits, array_of(ids))]
    order = np.argsort(at, kind="stable")
    value, low, high, n = (array_of(encoded)[order] for encoded in summaries)
    position_of = dict(zip(array_of(ids).tolist(), at.tolist(), strict=True)) if flags else {}
    by_place = {position_of[int(commit)]: names for commit, names in (flags or {}).items()}
    return LineColumns(series_id, at[order], value, low, high, n, by_place)


def array_of(encoded: bytes | None) -> Array:
    """Decode an array without nulls from PostgreSQL's binary form; an empty one of integers from null."""
    if encoded is None or len(encoded) < HEAD:
        return np.empty(0, np.int32)
    kind = KINDS[int.from_bytes(encoded[8:12])]
    return np.frombuffer(encoded, [("size", ">i4"), ("value", f">{kind}")], offset=HEAD)["value"].astype(kind)


def list_of(encoded: bytes | str | None) -> list[Any]:
    """An array in PostgreSQL's binary form, or of JSON as text, as a list; null as an empty one."""
    values: list[Any] = json.loads(encoded) if isinstance(encoded, str) else array_of(encoded).tolist()
    return values


def pooled_columns(series_ids: list[int], branch: Branch, first: int, last: int) -> dict[int, LineColumns]:
    """By series id: the columns of series that have measured some commits more than once. At most two queries."""
    of_series: dict[int, list[LinePoint]] = defaultdict(list)
    for point in points(series_ids, branch, first, last) if series_ids else ():
        of_series[point.series_id].append(point)
    return {pk: columns_of_points(pk, of_line, first) for pk, of_line in of_series.items()}


def columns_of_points(series_id: int, of_line: list[LinePoint], first: int) -> LineColumns:
    at, value, low, high, n = (np.array([getattr(p, name) for p in of_line]) for name in ("position", *SUMMARY))
    flags = {p.position - first: p.flags for p in of_line if p.flags}
    return LineColumns(series_id, at - first, value, low, high, n, flags)
