"""A project: a grid of benchmarks by recent commits, its alerts, and what changed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery
from django.http import QueryDict
from django.urls import reverse

from speedtrack.alerts.models import Alert
from speedtrack.benchmarks.models import Benchmark
from speedtrack.benchmarks.storing import suite_of
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.judging.verdicts import Judgement
from speedtrack.reports.readings.alerts import for_banners
from speedtrack.runs.models import Run, Series
from speedtrack.web.drawing.charts.gaps import UNMEASURED
from speedtrack.web.pages import changes
from speedtrack.web.pages.alerting.banners import Banner, banners_of
from speedtrack.web.pages.changes import ChangeGroup
from speedtrack.web.pages.paging import page_of
from speedtrack.web.pages.project import grid
from speedtrack.web.pages.project.columns import GridColumn
from speedtrack.web.pages.project.filters import GridFilters
from speedtrack.web.pages.project.grid import Grid
from speedtrack.web.pages.project.outside import Snippet, snippets
from speedtrack.web.pages.project.pagerows import LISTED_COMMITS
from speedtrack.web.scope import PageScope, branches_with, scope_of

LISTED_CHANGES = 8
LISTED_ALERTS, BANNERS = 8, 3


@dataclass(frozen=True)
class CommitRow:
    """A commit of the list, measured or with the reason why it is not, and the changes that it caused."""

    placed: GridColumn
    state: str
    reason: str
    run_id: int | None
    changes: list[ChangeGroup]


# Of the project of a branch: the suite of its newest run. With "= project ORDER BY id" PostgreSQL would walk over the
# newest runs of all projects.
NEWEST_SUITE = (
    Run.objects.own()
    .filter(project__gte=OuterRef("project"), project__lte=OuterRef("project"))
    .order_by("project", "-id")
    .values("suite")[:1]
)
#: Its ladders that were measured.
LADDERS = Benchmark.objects.filter(
    Exists(Series.objects.filter(benchmark=OuterRef("pk"))), project=OuterRef("project")
).exclude(ladder="")
WITH_SUITE = branches_with(suite_id=Subquery(NEWEST_SUITE))
WITH_LADDERS = branches_with(suite_id=Subquery(NEWEST_SUITE), has_ladders=Exists(LADDERS))


@dataclass(frozen=True)
class ProjectPage:
    scope: PageScope
    grid: Grid
    changes: list[ChangeGroup]
    commits: list[CommitRow]
    alerts: list[Alert]  #: the open ones
    banners: list[Banner]  #: of the newest of them
    has_ladders: bool
    snippets: list[Snippet]


def load(slug: str, query: QueryDict) -> ProjectPage:
    """The page, with one page of the grid's rows.

    Raises Http404 for a name that does not exist, or a commit that is not on the branch.
    """
    scope = scope_of(slug, query, prepared=WITH_LADDERS)
    table = grid_of(scope, query, page_of(query))
    branches = [scope.branch.pk] if scope.branch else []
    change_groups = [group for groups in changes.newest_groups(branches, LISTED_CHANGES).values() for group in groups]
    ladders = getattr(scope.branch, "has_ladders", False)
    alerts = OPEN_ALERTS.rows(project=scope.project.pk)
    return ProjectPage(
        scope,
        table,
        change_groups,
        commit_rows(table, change_groups),
        alerts,
        banners_of(alerts[:BANNERS]),
        ladders,
        snippets(scope, table),
    )


def rows_of(slug: str, query: QueryDict, all_rows: bool = False) -> tuple[PageScope, Grid]:
    """The grid alone, as ``load`` has it, or with the rows of all its pages."""
    scope = scope_of(slug, query, prepared=WITH_SUITE)
    return scope, grid_of(scope, query, None if all_rows else page_of(query))


def grid_of(scope: PageScope, query: QueryDict, page: int | None) -> Grid:
    suite_id = getattr(scope.branch, "suite_id", None)
    suite = suite_of(suite_id) if suite_id else None
    return grid.load(scope, suite, GridFilters.of(query), query.get("before", ""), page)


def commit_rows(table: Grid, change_groups: list[ChangeGroup]) -> list[CommitRow]:
    """The newest commits of the grid, the newest first."""
    rows = []
    for placed in reversed(table.commits[-LISTED_COMMITS:]):
        gap = table.states.get(placed.commit.pk, UNMEASURED)
        is_measured = placed.commit.pk in table.measured
        state, reason = ("measured", "") if is_measured else (gap.state, gap.reason)
        own_changes = [c for c in change_groups if c.commit.pk == placed.commit.pk]
        rows.append(CommitRow(placed, state, reason, gap.run_id, own_changes))
    return rows


def listed_alerts(project: int) -> QuerySet[Alert]:
    """The newest of a project's open alerts, newest first, each with ``total``: how many are open."""
    alerts = Alert.objects.work().filter(project=project)
    total = alerts.order_by().values("project").annotate(count=Count("pk")).values("count")
    return for_banners(alerts.annotate(total=Subquery(total))).order_by("-id")[:LISTED_ALERTS]


OPEN_ALERTS = PreparedQuery(listed_alerts)


def project_document(scope: PageScope, grid: Grid, query: QueryDict) -> dict[str, Any]:
    """A page of the grid as JSON; ``next``: the address of the next one.

    ``look`` of a cell: same, worse or better with its level, or why there is no value.
    """
    return {
        "schema": "speedtrack.grid/2",
        "project": scope.project.slug,
        "branch": scope.branch.name if scope.branch else None,
        "machine": scope.machine.name if scope.machine else None,
        "metric": scope.metric.name,
        "unit": scope.metric.unit,
        "release": grid.release.tag if grid.release else None,
        "releases": [{"tag": release.tag, "sha": release.sha} for release in grid.releases],
        "commits": [
            {"sha": column.commit.sha, "tags": list(column.tags), "new_environment": column.pk in grid.breaks}
            for column in grid.commits
        ],
        "benchmarks": [
            {
                "name": row.benchmark,
                "group": group,
                "newest": row.newest,
                "flags": row.flags,
                "since_release": since_document(row.since),
                "release_looks": [cell.look for cell in row.release_cells],
                "looks": [cell.look for cell in row.cells],
            }
            for group, rows in grid.groups
            for row in rows
        ],
        "older": grid.older or None,
        "open_alerts": [alert.pk for alert in OPEN_ALERTS.rows(project=scope.project.pk)],
        "next": next_address(scope, grid, query),
    }


def next_address(scope: PageScope, grid: Grid, query: QueryDict) -> str | None:
    """Where the rows after these are; None after the last ones."""
    if grid.rows.span.next_page is None:
        return None
    parameters = query.copy()
    parameters["page"] = str(grid.rows.span.next_page)
    return f"{reverse('project-values', args=[scope.project.slug, 'json'])}?{parameters.urlencode()}"


def since_document(since: Judgement | None) -> dict[str, Any] | None:
    if since is None:
        return None
    low, high = since.interval or (None, None)
    return {"ratio": since.ratio, "low": low, "high": high, "look": since.look, "verdict": since.verdict}


def csv_rows(scope: PageScope, grid: Grid) -> Iterator[list[Any]]:
    """The rows of the grid without its cells; their values are in the CSV of the timelines."""
    release = grid.release.tag if grid.release else ""
    metric = scope.metric
    yield [
        *("benchmark", "group", "metric", "unit", "newest", "flags"),
        *("release", "since_release", "since_low", "since_high", "look"),
    ]
    for group, rows in grid.groups:
        for row in rows:
            comparison = row.since
            since = (
                [release, comparison.ratio, *(comparison.interval or ("", "")), comparison.look]
                if comparison
                else [""] * 5
            )
            yield [row.benchmark, group, metric.name, metric.unit, row.newest, " ".join(row.flags), *since]
