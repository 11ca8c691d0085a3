"""The one reader of lines: the points of a series along a branch, one per measured commit.

Pages and mails read summaries (``points``), charts and sensitivity columns (``linecolumns``), detection reads the
samples (``trials``).
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from django.db import connection
from django.db.models import QuerySet

from speedtrack.ground.postgres.pgvalues import array_text
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Measurement, Samples
from speedtrack.stats.summary import summarize

END = 2**31 - 1  # a position behind all commits


def sql(query: str) -> str:
    """Replace three names in a query by SQL conditions.

    IS_POINT: measurement ``m`` is a point of a line: it is accepted and not one side of a pair. IS_CLEAN_POINT: its
    value can also be trusted. IS_MEASURED: the commit of position ``p`` has a clean point in series ``s``.
    """
    point = "m.accepted AND NOT m.paired"
    clean = f"{point} AND m.flags = ''"
    at_position = "m.series_id = s.id AND m.commit_id = p.commit_id"
    is_measured = f"EXISTS (SELECT FROM runs_measurement m WHERE {at_position} AND {clean})"
    return query.replace("IS_POINT", point).replace("IS_CLEAN_POINT", clean).replace("IS_MEASURED", is_measured)


# By series, not by commit: a commit has the points of all other series as well. The lateral subqueries let the index of
# points find them, whatever PostgreSQL assumes about the sizes of the tables.
COLUMNS = """
    SELECT m.series_id, p.number, m.commit_id, m.attempt_id, m.value, m.low, m.high, m.n,
           string_to_array(m.flags, ',')"""
SUMMARIES = sql(f"""{COLUMNS}
      FROM unnest(%(series)s::bigint[]) AS s(id)
CROSS JOIN LATERAL (
        SELECT m.* FROM runs_measurement m
         WHERE m.series_id = s.id
           AND m.commit_id = ANY(ARRAY(SELECT commit_id FROM projects_position
                                        WHERE branch_id = %(branch)s AND number BETWEEN %(first)s AND %(last)s))
           AND IS_POINT OFFSET 0) m
      JOIN projects_position p ON p.branch_id = %(branch)s AND p.commit_id = m.commit_id
  ORDER BY p.number, m.series_id, m.attempt_id
""")  # noqa: S608 - constants
# Of many series at a single position: by commit, although that reads the points of other series as well.
MANY = 300
SUMMARIES_AT = sql(f"""{COLUMNS}
      FROM projects_position p
CROSS JOIN LATERAL (
        SELECT m.* FROM runs_measurement m
         WHERE m.commit_id = p.commit_id AND m.series_id + 0 = ANY (%(series)s::bigint[]) AND IS_POINT OFFSET 0) m
     WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
  ORDER BY p.number, m.series_id, m.attempt_id
""")  # noqa: S608 - constants


def point_measurements() -> QuerySet[Measurement]:
    """The measurements for which IS_POINT holds."""
    return Measurement.objects.filter(accepted=True, paired=False)


def clean_measurements() -> QuerySet[Measurement]:
    """The measurements for which IS_CLEAN_POINT holds."""
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


def points(series_ids: Iterable[int], branch: Branch, first: int, last: int = END) -> list[LinePoint]:
    """The points of these series between two positions of a branch, in commit order, each series by itself.

    A commit that was not measured is absent. Reads the index alone; samples are loaded only for commits that a series
    measured more than once: they are pooled.
    """
    series = list(series_ids)
    summaries = SUMMARIES_AT if first == last and len(series) > MANY else SUMMARIES
    with connection.cursor() as cursor:
        cursor.execute(summaries, {"branch": branch.pk, "first": first, "last": last, "series": array_text(series)})
        rows = [LinePoint._make(row) for row in cursor]
    if len({(row.series_id, row.commit_id) for row in rows}) == len(rows):
        return rows
    groups = [list(group) for _, group in groupby(rows, key=attrgetter("position", "series_id"))]
    samples = samples_by_attempt(row for group in groups if len(group) > 1 for row in group)
    return [group[0] if len(group) == 1 else pooled_point(group, samples) for group in groups]


def samples_by_attempt(points: Iterable[LinePoint]) -> dict[tuple[int, int, int], list[float]]:
    """By (series id, commit id, attempt): its clean samples, or all if none is clean.

    Absent where they have been deleted.
    """
    keys = [(row.series_id, row.commit_id, row.attempt_id) for row in points]
    measurements = point_measurements().filter(
        series__in={k[0] for k in keys}, commit__in={k[1] for k in keys}, attempt__in={k[2] for k in keys}
    )
    rows = measurements.values_list("pk", "series_id", "commit_id", "attempt_id")
    names = {pk: (series, commit, attempt) for pk, series, commit, attempt in rows}
    return {names[pk]: values for pk, values in samples_of_measurements(names).items()}


def samples_of_measurements(measurement_ids: Iterable[int]) -> dict[int, list[float]]:
    """By measurement id: its clean samples, or all if none is clean. Absent where they have been deleted."""
    samples = Samples.objects.filter(measurement__in=list(measurement_ids)).order_by("measurement")
    return {row.measurement_id: list((row.clean_by_trial or row.by_trial).values()) for row in samples}


def pooled_point(group: Sequence[LinePoint], samples: dict[tuple[int, int, int], list[float]]) -> LinePoint:
    """Several measurements of one commit by one series as one point; only the clean ones, if there are any.

    A measurement whose samples have been deleted counts as one sample: its median.
    """
    clean = [row for row in group if not row.flags] or group
    of_rows = [samples.get((row.series_id, row.commit_id, row.attempt_id)) or [row.value] for row in clean]
    estimate = summarize([value for values in of_rows for value in values])
    n = sum(row.n for row in clean)
    return clean[-1]._replace(value=estimate.value, low=estimate.low, high=estimate.high, n=n)
