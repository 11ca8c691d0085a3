"""The one reader of lines: the points of a series along a branch, one per measured commit.

Pages and mails read summaries (``points``), charts read columns (``columns``), detection reads trials
(``trial_points``).
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import attrgetter
from statistics import median
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import QuerySet

from speedtrack.projects.models import Branch, Position
from speedtrack.runs.models import Measurement, Samples
from speedtrack.stats.summary import summarize

END = 2**31 - 1  # a position behind all commits
BETWEEN = "p.number BETWEEN %(first)s AND %(last)s"
AMONG = "p.number = ANY(%(at)s)"


def sql(query: str) -> str:
    """The query, with the names of three conditions replaced by the conditions.

    IS_POINT: measurement ``m`` is a point of a line, that is accepted and not one side of a pair. IS_CLEAN_POINT: its
    value can also be trusted. IS_MEASURED: the commit of position ``p`` has a clean point in series ``s``.
    """
    point = "m.accepted AND NOT m.paired"
    clean = f"{point} AND m.flags = '{{}}'"
    at_position = "m.series_id = s.id AND m.commit_id = p.commit_id"
    measured = f"EXISTS (SELECT FROM runs_measurement m WHERE {at_position} AND {clean})"
    return query.replace("IS_POINT", point).replace("IS_CLEAN_POINT", clean).replace("IS_MEASURED", measured)


SUMMARIES = sql("""
    SELECT m.series_id, p.number, m.commit_id, m.attempt_id, m.value, m.low, m.high, m.n, m.flags
      FROM projects_position p
      JOIN runs_measurement m ON m.commit_id = p.commit_id
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
       AND m.series_id = ANY(%(series)s) AND IS_POINT
  ORDER BY p.number, m.series_id, m.attempt_id
""")
# One row per series, its columns as JSON written by PostgreSQL: one row per commit would cost Python too much.
COLUMNS = sql("""
    SELECT m.series_id,
           array_agg(p.number - %(first)s ORDER BY p.number),
           json_agg(m.value::real ORDER BY p.number)::text,
           json_agg(m.low::real ORDER BY p.number)::text,
           json_agg(m.high::real ORDER BY p.number)::text,
           json_agg(m.n ORDER BY p.number)::text,
           coalesce(json_object_agg(p.number - %(first)s, m.flags) FILTER (WHERE m.flags <> '{}'), '{}')::text
      FROM projects_position p
      JOIN runs_measurement m ON m.commit_id = p.commit_id
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
       AND m.series_id = ANY(%(series)s) AND IS_POINT
  GROUP BY m.series_id
  ORDER BY min(p.number), m.series_id
""")
# Of each bucket of commits, the positions of the first, the last, the smallest and the largest point of each series,
# and of the points that are flagged: a chart of these looks like one of all.
OUTLINE = sql("""
    SELECT array_agg(DISTINCT kept.number)
      FROM (
        SELECT min(p.number) AS first, max(p.number) AS last,
               min(ARRAY[m.value, p.number]) AS smallest, max(ARRAY[m.value, p.number]) AS largest,
               array_agg(p.number) FILTER (WHERE m.flags <> '{}') AS flagged
          FROM projects_position p
          JOIN runs_measurement m ON m.commit_id = p.commit_id
         WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
           AND m.series_id = ANY(%(series)s) AND IS_POINT
      GROUP BY m.series_id, (p.number - %(first)s) / %(step)s) bucket
CROSS JOIN LATERAL unnest(ARRAY[first, last, smallest[2]::int, largest[2]::int] || flagged) AS kept(number)
""")
PLACES = sql("""
    SELECT m.series_id, array_agg(DISTINCT p.number ORDER BY p.number)
      FROM projects_position p
      JOIN runs_measurement m ON m.commit_id = p.commit_id
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
       AND m.series_id = ANY(%(series)s) AND IS_POINT
  GROUP BY m.series_id
""")
NEAREST_BEFORE = sql("""
    SELECT s.id, found.commit_id, found.number
      FROM unnest(%(series)s::bigint[]) AS s(id)
CROSS JOIN LATERAL (
        SELECT p.commit_id, p.number
          FROM projects_position p
         WHERE p.branch_id = %(branch)s AND p.number < %(number)s AND p.number >= %(number)s - %(reach)s
           AND EXISTS (SELECT FROM runs_measurement m
                        WHERE m.series_id = s.id AND m.commit_id = p.commit_id AND IS_POINT)
      ORDER BY p.number DESC LIMIT 1) found
""")
# One row per stretch: the position and the commit of each sample, and its value, in commit order. Lateral subqueries,
# so that PostgreSQL looks up each commit rather than read whole series. A series with fewer points than are wanted is
# searched back to its first one, not to the root of the branch. Its first one: "+ 0", or PostgreSQL would look for the
# smallest number from the root on.
TRIALS = sql("""
    SELECT s.at, found.*
      FROM unnest(%(series)s::bigint[], %(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
           WITH ORDINALITY AS s (id, branch_id, first, last, at)
CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT m.commit_id FROM runs_measurement m
                      WHERE m.series_id = s.id AND IS_CLEAN_POINT LIMIT %(before)s) AS commits OFFSET 0) AS few
CROSS JOIN LATERAL (
        SELECT CASE WHEN cardinality(few.commits) < %(before)s
                    THEN (SELECT min(p.number + 0) FROM projects_position p
                           WHERE p.branch_id = s.branch_id AND p.commit_id = ANY (few.commits))
                    ELSE 0 END AS number OFFSET 0) AS lowest
CROSS JOIN LATERAL (
        SELECT array_agg(number), array_agg(commit_id), array_agg(value)
          FROM (SELECT near.number, near.commit_id, t.value
                  FROM (
                    (SELECT p.number, p.commit_id FROM projects_position p
                      WHERE p.branch_id = s.branch_id AND p.number >= lowest.number AND p.number < s.first
                        AND IS_MEASURED
                   ORDER BY p.number DESC LIMIT %(before)s)
                    UNION ALL
                    (SELECT p.number, p.commit_id FROM projects_position p
                      WHERE p.branch_id = s.branch_id AND p.number BETWEEN s.first AND s.last)
                    UNION ALL
                    (SELECT p.number, p.commit_id FROM projects_position p
                      WHERE p.branch_id = s.branch_id AND p.number > s.last AND IS_MEASURED
                   ORDER BY p.number LIMIT %(after)s)) near
            CROSS JOIN LATERAL (
                    SELECT m.id, m.value FROM runs_measurement m
                     WHERE m.series_id = s.id AND m.commit_id = near.commit_id AND IS_CLEAN_POINT OFFSET 0) m
             LEFT JOIN LATERAL (
                    SELECT r.values, r.flagged FROM runs_samples r WHERE r.measurement_id = m.id OFFSET 0) r ON true
            CROSS JOIN LATERAL unnest(coalesce(r.values, ARRAY[m.value])) WITH ORDINALITY AS t(value, place)
                 WHERE t.value > '-Infinity' AND t.value < 'Infinity'
                   AND t.place - 1 <> ALL (coalesce(r.flagged, '{}'))
              ORDER BY near.number, m.id, t.place) ordered) found
""")


def point_measurements() -> QuerySet[Measurement]:
    """Those for which IS_POINT holds, to be filtered further."""
    return Measurement.objects.filter(accepted=True, paired=False)


def clean_measurements() -> QuerySet[Measurement]:
    """Those for which IS_CLEAN_POINT holds, to be filtered further."""
    return point_measurements().filter(flags=[])


class LinePoint(NamedTuple):
    """A measured commit of one series, summarised. Values in the metric's unit, with the median's 95% interval."""

    series_id: int
    position: int
    commit_id: int
    attempt_id: int
    value: float
    low: float
    high: float
    n: int
    flags: list[str]


class LineColumns(NamedTuple):
    """The points of one series: ``at`` are positions, counted from the first one asked for; the rest is JSON."""

    series_id: int
    at: list[int]
    value: str
    low: str
    high: str
    n: str
    flags: str


class TrialPoint(NamedTuple):
    """A measured commit with the clean, finite samples of all its runs, in the metric's unit, and their median.

    A measurement whose samples have been deleted counts as one sample: its median.
    """

    position: int
    commit_id: int
    trials: tuple[float, ...]
    value: float


class Stretch(NamedTuple):
    """The part of a series' line along a branch between two positions."""

    series_id: int
    branch_id: int
    first: int
    last: int = END


@dataclass(frozen=True)
class Around:
    """How many clean points before the first position and after the last one are read as well."""

    before: int = 0
    after: int = 0


def points(series_ids: Iterable[int], branch: Branch, first: int, last: int = END) -> list[LinePoint]:
    """The points of these series between two positions of a branch, in commit order, each series by itself.

    A commit that was not measured is absent. Reads the index alone; samples are loaded only for commits that a series
    measured more than once: they are pooled.
    """
    with connection.cursor() as cursor:
        cursor.execute(SUMMARIES, {"branch": branch.pk, "first": first, "last": last, "series": list(series_ids)})
        rows = [LinePoint._make(row) for row in cursor]
    if len({(row.series_id, row.commit_id) for row in rows}) == len(rows):
        return rows
    groups = [list(group) for _, group in groupby(rows, key=attrgetter("position", "series_id"))]
    samples = samples_by_attempt(row for group in groups if len(group) > 1 for row in group)
    return [group[0] if len(group) == 1 else pooled(group, samples) for group in groups]


def samples_by_attempt(points: Iterable[LinePoint]) -> dict[tuple[int, int, int], list[float]]:
    """The clean samples (all, if none is clean) by series, commit and attempt; absent where they have been deleted."""
    keys = [(row.series_id, row.commit_id, row.attempt_id) for row in points]
    measurements = point_measurements().filter(
        series__in={k[0] for k in keys}, commit__in={k[1] for k in keys}, attempt__in={k[2] for k in keys}
    )
    rows = measurements.values_list("pk", "series_id", "commit_id", "attempt_id")
    names = {pk: (series, commit, attempt) for pk, series, commit, attempt in rows}
    return {names[pk]: values for pk, values in samples_of_measurements(names).items()}


def samples_of_measurements(measurement_ids: Iterable[int]) -> dict[int, list[float]]:
    """The clean samples of measurements by id; all of them if none is clean. Absent where they have been deleted."""
    stored = Samples.objects.filter(measurement__in=list(measurement_ids)).order_by("measurement")
    return {one.measurement_id: list((one.clean_by_trial or one.by_trial).values()) for one in stored}


def pooled(group: Sequence[LinePoint], samples: dict[tuple[int, int, int], list[float]]) -> LinePoint:
    """Several measurements of one commit by one series as one point; only the clean ones, if there are any.

    One whose samples have been deleted counts as one sample: its median.
    """
    clean = [row for row in group if not row.flags] or group
    of_rows = [samples.get((row.series_id, row.commit_id, row.attempt_id)) or [row.value] for row in clean]
    estimate = summarize([value for values in of_rows for value in values])
    n = sum(row.n for row in clean)
    return clean[-1]._replace(value=estimate.value, low=estimate.low, high=estimate.high, n=n)


def outline(series_ids: Iterable[int], branch: Branch, first: int, last: int, step: int) -> list[int]:
    """The positions whose points show the outline of these series, where ``step`` commits share a place of a chart."""
    asked: dict[str, Any] = {"branch": branch.pk, "first": first, "last": last, "series": list(series_ids)}
    with connection.cursor() as cursor:
        cursor.execute(OUTLINE, asked | {"step": step})
        return cursor.fetchone()[0] or []


def columns(
    series_ids: Iterable[int], branch: Branch, first: int, last: int, at: Sequence[int] | None = None
) -> list[LineColumns]:
    """The same points as columns, for charts; series with points there, in the order of their first points.

    ``at``: only those at these positions.
    """
    asked: dict[str, Any] = {"branch": branch.pk, "first": first, "last": last, "series": list(series_ids)}
    query = COLUMNS.replace(BETWEEN, AMONG) if at is not None else COLUMNS
    with connection.cursor() as cursor:
        cursor.execute(query, asked | {"at": at})
        found = [LineColumns._make(row) for row in cursor]
    again = [one.series_id for one in found if len(set(one.at)) < len(one.at)]
    wanted = None if at is None else set(at)
    by_series = {
        pk: pooled_columns(
            pk, [p for p in points([pk], branch, first, last) if wanted is None or p.position in wanted], first
        )
        for pk in again
    }
    return [by_series.get(one.series_id, one) for one in found]


def pooled_columns(series_id: int, found: Sequence[LinePoint], first: int) -> LineColumns:
    """The columns of a series that measured some commit more than once."""
    return LineColumns(
        series_id,
        at=[p.position - first for p in found],
        value=json.dumps([p.value for p in found]),
        low=json.dumps([p.low for p in found]),
        high=json.dumps([p.high for p in found]),
        n=json.dumps([p.n for p in found]),
        flags=json.dumps({p.position - first: p.flags for p in found if p.flags}),
    )


def positions(series_ids: Iterable[int], branch: Branch, first: int, last: int) -> dict[int, list[int]]:
    """Series id -> the positions of its points between two positions of a branch."""
    asked: dict[str, Any] = {"branch": branch.pk, "first": first, "last": last, "series": list(series_ids)}
    with connection.cursor() as cursor:
        cursor.execute(PLACES, asked)
        return dict(cursor.fetchall())


def measured_commits(series_ids: Iterable[int], branch: Branch, first: int, last: int) -> int:
    """How many commits between two positions of a branch have a point in any of these series."""
    places = Position.objects.filter(branch=branch, number__range=(first, last))
    points = point_measurements().filter(series__in=list(series_ids)).values("commit")
    return places.filter(commit__in=points).count()


def nearest_before(series_ids: Iterable[int], branch: Branch, number: int, reach: int) -> dict[int, tuple[int, int]]:
    """Series id -> (commit id, position) of its newest point before a position, at most ``reach`` commits back."""
    asked: dict[str, Any] = {"series": list(series_ids), "branch": branch.pk, "number": number, "reach": reach}
    with connection.cursor() as cursor:
        cursor.execute(NEAREST_BEFORE, asked)
        return {series_id: (commit_id, at) for series_id, commit_id, at in cursor}


def trial_points(stretches: Sequence[Stretch], around: Around = Around()) -> list[list[TrialPoint]]:
    """For each stretch: the clean points of its series between its positions, and around them, in commit order."""
    found: list[list[TrialPoint]] = [[] for _ in stretches]
    asked: dict[str, Any] = {
        "series": [one.series_id for one in stretches],
        "branches": [one.branch_id for one in stretches],
        "firsts": [one.first for one in stretches],
        "lasts": [one.last for one in stretches],
        **vars(around),
    }
    with connection.cursor() as cursor:
        cursor.execute(TRIALS, asked)
        for at, numbers, commits, values in cursor:
            found[at - 1] = points_of_samples(numbers or [], commits or [], values or [])
    return found


def points_of_samples(numbers: list[int], commits: list[int], values: list[float]) -> list[TrialPoint]:
    """The points whose samples these are; those of one point stand together."""
    begins = [i for i, number in enumerate(numbers) if i == 0 or number != numbers[i - 1]]
    trials = [tuple(values[begin:end]) for begin, end in pairwise([*begins, len(values)])]
    return [
        TrialPoint(numbers[begin], commits[begin], of_point, median(of_point))
        for begin, of_point in zip(begins, trials, strict=True)
    ]
