"""What a timeline shows, from its address: series, branch, and a range of commits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.db import connection
from django.db.models import Min, QuerySet
from django.http import Http404, QueryDict

from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.projects import positions
from speedtrack.projects.models import Branch, Position, sha_begins
from speedtrack.reports.readings.choices import named_or_default
from speedtrack.runs.models import Series
from speedtrack.web.scope import PageScope, scope_of

RANGES = (50, 200, 1000)
DEFAULT_LAST = 200
RANGE_KEYS = ("last", "from", "to", "around")
AROUND = 20  # commits on each side of the one that ``around`` names
MARGIN = 3  # commits shown before the first measured one
SUBJECT = 100  # characters of a subject that the chart gets
# The lateral subquery lets the index of points find them among the few commits.
FIRST_MEASURED = sql("""
    SELECT min(p.number)
      FROM unnest(%(series)s::bigint[]) AS s(id)
CROSS JOIN LATERAL (
        SELECT m.commit_id FROM runs_measurement m
         WHERE m.series_id = s.id
           AND m.commit_id = ANY(ARRAY(SELECT commit_id FROM projects_position
                                        WHERE branch_id = %(branch)s AND number >= %(begin)s))
           AND IS_POINT OFFSET 0) m
      JOIN projects_position p ON p.branch_id = %(branch)s AND p.commit_id = m.commit_id
""")
# From the head on, because a line is mostly measured there. Without "OFFSET 0" PostgreSQL may read the line whole.
IS_MEASURED = """EXISTS (SELECT FROM runs_measurement m
                          WHERE m.series_id = ANY(%(series)s) AND m.commit_id = p.commit_id OFFSET 0)"""
NEWEST_MEASURED = f"""
    SELECT newest.number
      FROM (SELECT {positions.head("%(branch)s")} AS number OFFSET 0) head
CROSS JOIN LATERAL ({positions.last(IS_MEASURED, "%(branch)s", "0", "head.number")}) newest
"""  # noqa: S608 - constants


@dataclass(frozen=True)
class View:
    """The series of a timeline, of one machine or several, from position ``first`` to ``last`` of a branch.

    ``benchmark``: its name, under which it may have had several definitions.
    ``metrics``: those that the benchmark was measured with, and the one of the view, in their usual order.
    ``known``: the series of the benchmark, of all machines and metrics.
    """

    scope: PageScope
    benchmark: str
    branch: Branch
    metrics: list[Metric]
    series: list[Series]
    known: list[Series]
    first: int
    last: int

    @property
    def machine_names(self) -> list[str]:
        return sorted({s.machine.name for s in self.series})

    @property
    def commits(self) -> int:
        return self.last - self.first + 1

    def newest(self, count: int) -> "View":
        """A copy with only the newest commits."""
        return replace(self, first=max(self.first, self.last - count + 1))


def view_of(slug: str, benchmark: str, metric: str, query: QueryDict) -> View:
    """The view that an address names. Raises Http404 for what does not exist."""
    view = lines_of(slug, benchmark, metric, query)
    if is_range_asked(query):
        return view
    return replace(view, first=first_shown(view.branch, view.series, view.first))


def series_of(project: int, benchmark: str) -> QuerySet[Series]:
    series = Series.objects.filter(project=project, benchmark__name=benchmark)
    related = series.select_related("machine", "environment", "benchmark").order_by("machine__name", "pk")
    return related.defer("machine__facts", "environment__facts", "benchmark__definition", "benchmark__why")


SERIES = PreparedQuery(series_of)


def lines_of(slug: str, benchmark: str, metric: str, query: QueryDict) -> View:
    """The same for pages that show no range: without one in the address, from wherever that may begin."""
    scope = scope_of(slug, query, metric)
    machines = [named_or_default("machine", name, scope.machines, "") for name in query.getlist("machine")] or [
        scope.machine
    ]
    all_series = SERIES.rows(project=scope.project.pk, benchmark=benchmark)
    if scope.branch is None or not (all_series or definitions_of(scope, benchmark).exists()):
        raise Http404(f"{slug} has no benchmark {benchmark!r}.")
    names = {metric, *(line.metric for line in all_series)}
    metrics = [candidate for candidate in scope.metrics if candidate.name in names]
    lines = [line for line in all_series if line.metric == metric and line.machine in machines]
    ends = range_of(scope, scope.branch, query)
    return View(scope, benchmark, scope.branch, metrics, lines, all_series, *ends)


def definitions_of(scope: PageScope, benchmark: str) -> QuerySet[Benchmark]:
    return Benchmark.objects.filter(project=scope.project, name=benchmark)


def is_range_asked(query: QueryDict) -> bool:
    """Return whether the address names a range.

    Without one, a timeline shows those of the newest commits that were measured.
    """
    return any(query.get(key) for key in RANGE_KEYS)


def first_shown(branch: Branch, lines: Sequence[Series], first: int) -> int:
    """A little before the first measured commit from position ``first`` on; that position if none is measured."""
    with connection.cursor() as cursor:
        cursor.execute(FIRST_MEASURED, {"series": [line.pk for line in lines], "branch": branch.pk, "begin": first})
        (number,) = cursor.fetchone()
    return first if number is None else max(first, number - MARGIN)


def range_of(scope: PageScope, branch: Branch, query: QueryDict) -> tuple[int, int]:
    """The first and last position: around a commit, from one commit to another, or the newest commits."""
    around, begin, end = (query.get(key) for key in ("around", "from", "to"))
    if around:
        middle = position_of(branch, around)
        return max(0, middle - AROUND), min(scope.head, middle + AROUND)
    if begin or end:
        first = position_of(branch, begin) if begin else 0
        last = position_of(branch, end) if end else scope.head
        return min(first, last), max(first, last)
    newest = query.get("last") or str(DEFAULT_LAST)
    if newest == "all":
        return 0, scope.head
    count = int(newest) if newest.isdecimal() and len(newest) < 8 else DEFAULT_LAST
    return max(0, scope.head - count + 1), scope.head


def position_of(branch: Branch, sha: str) -> int:
    """The position of the commit whose hash begins like this."""
    commits = Position.objects.filter(sha_begins(sha, "commit__"), branch=branch, commit__project=branch.project_id)
    number: int | None = commits.aggregate(number=Min("number"))["number"] if len(sha) >= 7 else None
    if number is None:
        raise Http404(f"There is no commit {sha!r} on branch {branch}.")
    return number


def newest_position(branch: Branch, series: Sequence[Series]) -> int:
    """The position of the newest commit that one of these series measured."""
    with connection.cursor() as cursor:
        cursor.execute(NEWEST_MEASURED, {"branch": branch.pk, "series": [line.pk for line in series]})
        row = cursor.fetchone()
    if row is None:
        raise Http404(f"This line has no point on branch {branch}.")
    number: int = row[0]
    return number
