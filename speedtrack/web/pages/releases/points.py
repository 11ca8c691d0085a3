"""What the series of a metric measured of releases."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from django.db import connection

from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import Metric
from speedtrack.judging.points import Place, SidePoint, points_at
from speedtrack.projects.models import Project
from speedtrack.runs.models import Machine
from speedtrack.web.pages.releases.versions import Release, Stretch

Points = dict[str, dict[int, SidePoint]]  # of a release: by benchmark and by series
# The series with a point of any of these commits. The order makes each a single search in the index of points, which
# ends at the first one; EXISTS would read all points of the commits, those of other metrics and machines as well.
MEASURED = sql("""
    SELECT s.id, b.name, b.ladder, b.rung
      FROM runs_series s JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
     WHERE s.project_id = %(project)s AND s.machine_id = %(machine)s AND s.metric = %(metric)s
       AND (SELECT m.commit_id FROM runs_measurement m
             WHERE m.series_id = s.id AND m.commit_id = ANY (%(commits)s::int[]) AND IS_POINT
          ORDER BY m.commit_id LIMIT 1) IS NOT NULL
""")
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


class MeasuredSeries(NamedTuple):
    pk: int
    benchmark: str
    ladder: str
    rung: float | None


def measured_series(
    project: Project, machine: Machine | None, metric: Metric, commits: Sequence[int]
) -> list[MeasuredSeries]:
    """The series with a point of any of these commits."""
    machine_id = machine.pk if machine else None
    parameters = {"project": project.pk, "machine": machine_id, "metric": metric.name, "commits": list(commits)}
    with connection.cursor() as cursor:
        cursor.execute(MEASURED, parameters)
        return [MeasuredSeries(*row) for row in cursor]


def points_by_release(series: Mapping[int, int], stretch: Stretch) -> dict[int, Points]:
    """By commit id, the points of the shown releases and of those that they are compared with.

    ``series``: by id, a number that the series of its benchmark share.
    """
    keys = [Place(*key) for key in product(series, (release.commit.pk for release in stretch.shown))]
    return grouped(points_at([*keys, *references(series, stretch)]))


def references(series: Mapping[int, int], stretch: Stretch) -> list[Place]:
    """Two releases of each benchmark: the first that has it, and the newest that is older than those shown."""
    earlier = [release.commit.pk for release in stretch.releases[: stretch.begin]]
    if not earlier:
        return []
    columns = {"series": list(series), "benchmarks": list(series.values())}
    with connection.cursor() as cursor:
        cursor.execute(REFERENCES, {**columns, "forwards": earlier, "backwards": earlier[::-1]})
        return [Place(pk, commit) for own, *commits in cursor for pk in own for commit in {*commits} - {None}]


def values_by_release(series: Sequence[int], releases: Sequence[Release]) -> dict[int, Points]:
    """By commit id, the points of all releases."""
    keys = product(series, (release.commit.pk for release in releases))
    return grouped(points_at([Place(*key) for key in keys]))


def grouped(points_by_key: Mapping[Place, SidePoint]) -> dict[int, Points]:
    """By commit id: its points, by benchmark and then by series."""
    points: dict[int, Points] = defaultdict(lambda: defaultdict(dict))
    for key, point in points_by_key.items():
        points[key.commit_id][point.benchmark][key.series_id] = point
    return points
