"""Which points of a project programs ask for; and the newest value of each series."""

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache

from django.db import connection
from django.http import Http404, QueryDict
from django.utils.dateparse import parse_date, parse_datetime
from prometheus_client.openmetrics.exposition import escape_metric_name
from prometheus_client.utils import floatToGoString

from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.ground.texts.text import plain
from speedtrack.projects import positions
from speedtrack.projects.models import Branch, Project
from speedtrack.reports.readings.choices import named_or_default

RECENT = 200  # commits among which the newest value of a series is looked for

# Of the newest commits of a branch that were measured: the first and the last position, and the bounds of their ids.
# And a version of all points of the project: whoever accepts or flags measurements updates their series, and each
# version of a row has another pair of ``xmin`` and ``ctid``. LIMIT, or PostgreSQL
# would read all measurements to hash them.
BOUNDS = f"""
  SELECT min(number), max(number) FILTER (WHERE is_measured), min(commit_id), max(commit_id), (
           SELECT md5(string_agg(concat(s.id, s.xmin, s.ctid), ',' ORDER BY s.id))
             FROM runs_series s WHERE s.project_id = %(project)s)
    FROM (SELECT p.number, p.commit_id,
                 (SELECT true FROM runs_measurement m WHERE m.commit_id = p.commit_id LIMIT 1) AS is_measured
            FROM ({positions.newest("%(branch)s", "%(recent)s")}) p) newest
"""  # noqa: S608 - constants
# Of each series the point of its newest commit on the path. If the path's ids ascend, that is nearly always the last
# point in the index between their bounds: one look per series, also of one that ended long ago. The other points of a
# series on the path are read only where that commit is on another branch, or ids do not ascend.
NEWEST = sql("""
      WITH path AS MATERIALIZED (
        SELECT commits, commits = ARRAY(SELECT unnest(commits) ORDER BY 1) AS ascends
          FROM (SELECT array_agg(p.commit_id ORDER BY p.number) AS commits FROM projects_position p
                 WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s) recent)
    SELECT b.name, s.metric, ma.name, e.digest, found.value, c.sha
      FROM path
CROSS JOIN runs_series s
CROSS JOIN LATERAL (
        SELECT m.commit_id FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id BETWEEN %(least)s AND %(most)s AND IS_CLEAN_POINT
      ORDER BY m.commit_id DESC LIMIT 1) last
CROSS JOIN LATERAL (
        SELECT CASE WHEN path.ascends AND last.commit_id = ANY (path.commits) THEN last.commit_id
                    ELSE (SELECT m.commit_id FROM runs_measurement m
                           WHERE m.series_id = s.id AND m.commit_id = ANY (path.commits) AND IS_CLEAN_POINT
                        ORDER BY array_position(path.commits, m.commit_id) DESC LIMIT 1) END AS commit_id OFFSET 0) at
CROSS JOIN LATERAL (
        SELECT m.value FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = at.commit_id AND IS_CLEAN_POINT ORDER BY m.id DESC LIMIT 1) found
      JOIN projects_commit c ON c.id = at.commit_id
      JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
      JOIN runs_machine ma ON ma.id = s.machine_id
      JOIN runs_environment e ON e.id = s.environment_id
     WHERE s.project_id = %(project)s
  ORDER BY b.name, s.metric, ma.name, s.id
""")


@dataclass(frozen=True)
class ExportFilters:
    """Which points of a project to export. Empty texts select all."""

    project: Project
    branch: Branch
    benchmark: str = ""
    metric: str = ""
    machine: str = ""
    environment: str = ""
    since: datetime | None = None
    until: datetime | None = None
    after: int = -1
    samples: bool = False


def filters_of(project: Project, query: QueryDict) -> ExportFilters:
    """The filters in a query. Raises Http404 for a branch that does not exist, and for invalid values."""
    branches = list(Branch.objects.filter(project=project).order_by("deleted_at", "name"))
    branch = named_or_default("branch", query.get("branch"), branches, project.default_branch)
    if branch is None:
        raise Http404(f"{project} has no branch yet.")
    after = query.get("after", "-1")
    if not after.removeprefix("-").isdecimal() or len(after) > 9:
        raise Http404(f"after={after[:20]}: give the position of a commit on the branch.")
    names = {name: query.get(name, "")[:200] for name in ("benchmark", "metric", "machine")}
    return ExportFilters(
        project,
        branch,
        **names,
        environment=query.get("environment", "").removeprefix("sha256:").replace("%", "").replace("_", "")[:64],
        since=moment(query, "since"),
        until=moment(query, "until"),
        after=int(after),
        samples=query.get("samples") == "1",
    )


def moment(query: QueryDict, name: str) -> datetime | None:
    """A date, or a time with its zone; None if the parameter is absent. Raises Http404 for anything else."""
    if not (text := query.get(name, "")):
        return None
    with suppress(ValueError, OverflowError):
        instant = parse_datetime(text)
        if instant is None and (day := parse_date(text)):
            instant = datetime.fromisoformat(f"{day}T00:00:00+00:00")
        if instant is not None and instant.tzinfo is not None:
            return instant.astimezone(UTC)  # PostgreSQL refuses a time that only its zone keeps within the years
    raise Http404(f"{name}={text[:40]}: give a date such as 2026-11-23, or a time such as 2026-11-23T12:00:00Z.")


@dataclass(frozen=True)
class RecentPoints:
    """The points of a project among the newest commits of a branch. Equal ones have equal points (``version``)."""

    project: int
    slug: str
    branch: int
    name: str
    first: int | None
    last: int | None
    least: int | None
    most: int | None
    version: str | None

    @classmethod
    def of(cls, project: Project, branch: Branch) -> "RecentPoints":
        with connection.cursor() as cursor:
            cursor.execute(BOUNDS, {"project": project.pk, "branch": branch.pk, "recent": RECENT})
            return cls(project.pk, project.slug, branch.pk, branch.name, *cursor.fetchone())


Newest = tuple[str, str, str, str, float, str]  # benchmark, metric, machine, environment, value, sha


def newest_values(recent: RecentPoints) -> list[Newest]:
    """The newest clean value of each series among these points."""
    with connection.cursor() as cursor:
        cursor.execute(NEWEST, vars(recent))
        rows: list[Newest] = cursor.fetchall()
        return rows


def heading_of(metric: str) -> str:
    """The lines that say what the values of a metric are."""
    definition = METRICS.get(metric)
    title = (
        f"{definition.title}, {definition.unit or 'a count'}, {definition.better} is better" if definition else metric
    )
    name = gauge_of(metric)
    return f"# HELP {name} {escaped(title)}\n# TYPE {name} gauge\n"


def gauge_of(metric: str) -> str:
    return escape_metric_name(f"speedtrack_{metric}")


def escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def openmetrics(filters: ExportFilters) -> bytes:
    return exposition(RecentPoints.of(filters.project, filters.branch))


@lru_cache(maxsize=20)
def exposition(recent: RecentPoints) -> bytes:
    """The newest values in OpenMetrics' text format; kept, because scrapers ask more often than points come.

    Written here: prometheus_client takes five times as long for thousands of lines.
    """
    slug, branch = recent.slug, escaped(recent.name)
    gauges: dict[str, list[str]] = defaultdict(list)
    for benchmark, metric, machine, environment, value, sha in newest_values(recent):
        short = environment.removeprefix("sha256:")[:12]
        number: str = floatToGoString(value)  # type: ignore[no-untyped-call]
        gauges[metric].append(
            f'{{benchmark="{escaped(plain(benchmark))}",branch="{branch}",commit="{sha}",environment="{short}",'
            f'machine="{escaped(machine)}",project="{slug}"}} {number}\n'
        )
    texts = [
        f"{heading_of(metric)}{''.join(gauge_of(metric) + line for line in lines)}" for metric, lines in gauges.items()
    ]
    return f"{''.join(texts)}# EOF\n".encode()
