"""The commits of a grid: the newest of a branch, or those before one of them, with their tags and change points."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Exists, OuterRef
from django.http import Http404

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.projects import positions
from speedtrack.projects.models import Branch, Commit, Position, sha_begins
from speedtrack.web.pages import changes
from speedtrack.web.scope import PageScope

SHORTEST_SHA = 7
COLUMNS = ("id", "sha", "subject", "author_name", "unreachable_since")
# Times as numbers: psycopg takes eleven microseconds to read one.
COMMITS = """
      WITH up_to AS MATERIALIZED (SELECT END AS number)
    SELECT p.number, t.names, extract(epoch FROM c.committed_at)::float8, c.id, c.sha, c.subject, c.author_name,
           c.unreachable_since,
           ARRAY(SELECT ARRAY[b.name, cp.status, a.status, cp.ratio::text, cp.from_zero::text,
                              (SELECT l.number - f.number
                                 FROM projects_position l JOIN projects_position f ON f.branch_id = l.branch_id
                                WHERE l.branch_id = cp.branch_id AND l.commit_id = cp.commit_id
                                  AND f.commit_id = cp.before_id)::text]
                   FROM alerts_changepoint cp
                   JOIN runs_series s ON s.id = cp.series_id
                   JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
              LEFT JOIN alerts_alert a ON a.id = cp.alert_id
                  WHERE cp.commit_id = c.id AND cp.status = ANY (%(visible)s)
                    AND s.machine_id = %(machine)s AND s.metric = %(metric)s
               ORDER BY cp.id)
      FROM projects_position p
      JOIN projects_commit c ON c.id = p.commit_id
 LEFT JOIN (SELECT sha, array_agg(name ORDER BY name) AS names
              FROM projects_tag WHERE project_id = %(project)s GROUP BY sha) t ON t.sha = c.sha
     WHERE p.branch_id = %(branch)s AND p.number <= (SELECT number FROM up_to)
       AND p.number > (SELECT number FROM up_to) - %(count)s
  ORDER BY p.number DESC LIMIT %(count)s
"""
# The upper end of a sha's prefix: no digit follows "f".
BEFORE = """(
    SELECT min(e.number) - 1 FROM projects_commit f
     CROSS JOIN LATERAL (SELECT number FROM projects_position
                          WHERE branch_id = %(branch)s AND commit_id = f.id OFFSET 0) e
     WHERE f.project_id = %(project)s AND f.sha >= %(before)s AND f.sha < %(before)s || 'g')"""


class Mark(NamedTuple):
    """A change point at a cell. ``width``: how many commits may be the cause."""

    status: str
    ratio: float
    from_zero: float | None
    width: int | None
    alert_status: str | None

    def change_in_words(self, metric: Metric) -> str:
        return numbers.change_from(metric, self.ratio, self.from_zero)


@dataclass(frozen=True)
class GridColumn:
    """A commit of a grid at its place on the branch, with its ``tags``. ``marks``: by name of the benchmark.

    ``pk`` and ``short`` repeat the commit's own: they are read for each cell, and properties would be slow.
    """

    number: int
    commit: Commit
    tags: tuple[str, ...]
    marks: list[tuple[str, Mark]]
    pk: int
    short: str


def columns_before(scope: PageScope, before: str, count: int) -> list[GridColumn]:
    """The commits of a branch before the one whose sha begins like this, or the newest ones; oldest first.

    Their marks are those of the machine and the metric.

    Raises Http404 if there is none before it.
    """
    branch = scope.branch
    if branch is None:
        return []
    parameters: dict[str, Any] = {
        "project": branch.project_id,
        "branch": branch.pk,
        "machine": scope.machine.pk if scope.machine else None,
        "metric": scope.metric.name,
        "visible": list(changes.VISIBLE),
        "count": count,
        "before": before,
    }
    with connection.cursor() as cursor:
        cursor.execute(COMMITS.replace("END", BEFORE if before else positions.head("%(branch)s")), parameters)
        rows = cursor.fetchall()
    if before and not rows:
        raise Http404(f"There is no commit before {before!r} on branch {branch}.")
    return [column_of(branch.project_id, *row) for row in reversed(rows)]


def end_on(branch: Branch | None, before: str) -> str:
    """The value of ``before`` in an address, if that commit is on the branch: the grid ends before it.

    Empty, for the newest commits, if the commit is only on other branches of the project. Raises Http404 for a commit
    that does not exist.
    """
    if branch is None or not before:
        return ""
    if len(before) < SHORTEST_SHA or not before.isalnum():
        raise Http404(f"before={before}: give at least {SHORTEST_SHA} characters of a commit's sha.")
    here = Exists(Position.objects.filter(branch=branch, commit=OuterRef("pk")))
    matches = Commit.objects.filter(sha_begins(before), project=branch.project_id).values_list(here, flat=True)
    if not (on_branch := list(matches)):
        raise Http404(f"There is no commit {before!r}.")
    return before if any(on_branch) else ""


def number_of(text: str | None) -> float | None:
    return None if text is None else float(text)


def column_of(project_id: int, number: int, tags: list[str] | None, committed_at: float, *columns: Any) -> GridColumn:
    at = datetime.fromtimestamp(committed_at, UTC)
    *of_commit, change_points = columns
    commit = Commit(project_id=project_id, committed_at=at, **dict(zip(COLUMNS, of_commit, strict=True)))
    marks = [
        (benchmark, Mark(status, float(ratio), number_of(from_zero), int(width) if width else None, alert_status))
        for benchmark, status, alert_status, ratio, from_zero, width in change_points
    ]
    return GridColumn(number, commit, tuple(tags or ()), marks, commit.pk, commit.short)
