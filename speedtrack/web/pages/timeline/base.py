"""The values that a relative timeline refers to: those of each line at a base commit."""

from collections.abc import Sequence
from typing import NamedTuple

from speedtrack.alerts.lines.lines import sql
from speedtrack.projects.models import Commit
from speedtrack.web.pages.timeline.names import NamedLine
from speedtrack.web.pages.timeline.view import rows_of

LATELY = 200  # commits before the base in which a line's value is looked for

# The newest clean point of each series at or before a commit; on a branch without it, at or before its time.
VALUES = sql("""
    SELECT asked.line, found.*
      FROM unnest(%(lines)s::int[], %(series)s::bigint[], %(projects)s::bigint[], %(branches)s::bigint[])
           AS asked (line, series_id, project_id, branch_id)
CROSS JOIN LATERAL (
        SELECT coalesce(
                 (SELECT p.number FROM projects_position p
                   WHERE p.branch_id = asked.branch_id AND p.commit_id = %(commit)s),
                 (SELECT p.number FROM projects_commit c JOIN projects_position p ON p.commit_id = c.id
                   WHERE c.project_id = asked.project_id AND p.branch_id = asked.branch_id
                     AND c.committed_at <= %(time)s
                ORDER BY c.committed_at DESC LIMIT 1)) AS number OFFSET 0) newest
CROSS JOIN LATERAL (
        SELECT p.number, m.series_id, c.sha, m.value
          FROM projects_position p
          JOIN runs_measurement m ON m.series_id = asked.series_id AND m.commit_id = p.commit_id AND IS_CLEAN_POINT
          JOIN projects_commit c ON c.id = p.commit_id
         WHERE p.branch_id = asked.branch_id AND p.number BETWEEN newest.number - %(lately)s AND newest.number
      ORDER BY p.number DESC, m.attempt_id DESC LIMIT 1) found
  ORDER BY asked.line, found.number
""")


class BaseValue(NamedTuple):
    """The point that is 0% of a line."""

    number: int
    series_id: int
    sha: str
    value: float


def base_commit(project_ids: set[int], sha: str) -> Commit | None:
    """The commit of one of these projects whose hash begins like this."""
    if len(sha) < 7:
        return None
    commit: Commit | None = Commit.objects.filter(project__in=project_ids, sha__startswith=sha).order_by("pk").first()
    return commit


def base_values(lines: Sequence[NamedLine], commit: Commit) -> dict[int, BaseValue]:
    """By the number of the line; a line without a value in the commits before the base has none."""
    each = [(number, series, line) for number, line in enumerate(lines) for series in line.series]
    rows = rows_of(
        VALUES,
        lines=[number for number, _, _ in each],
        series=[series.pk for _, series, _ in each],
        projects=[line.branch.project_id for _, _, line in each],
        branches=[line.branch.pk for _, _, line in each],
        commit=commit.pk,
        time=commit.committed_at,
        lately=LATELY,
    )
    return {line: BaseValue._make(values) for line, *values in rows}  # the newest one of a line's series is the last
