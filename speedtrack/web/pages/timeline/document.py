"""A timeline as the JSON document that the chart is drawn from."""

import json
from collections.abc import Iterator
from typing import Any

from speedtrack.alerts import lines
from speedtrack.alerts.lines import LineColumns
from speedtrack.alerts.models import ChangePoint
from speedtrack.runs.models import Series
from speedtrack.text import plain_json, plain_values
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline.breaks import Break, find_breaks
from speedtrack.web.pages.timeline.points import change_points_in, gaps_in
from speedtrack.web.pages.timeline.view import View

# PostgreSQL writes the columns as JSON: turning a row per commit into JSON in Python would take too long.
COMMIT_COLUMNS = """
    SELECT json_build_object(
             'sha', coalesce(json_agg(sha), '[]'),
             'subject', coalesce(json_agg(subject), '[]'),
             'author', coalesce(json_agg(author_name), '[]'),
             'time', coalesce(json_agg(time), '[]'))::text
      FROM (SELECT left(c.sha, 12) AS sha, left(c.subject, %(subject)s) AS subject, c.author_name,
                   extract(epoch FROM c.committed_at)::bigint AS time
              FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
             WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
          ORDER BY p.number) path
"""
TAGS = """
    SELECT p.number, t.name
      FROM projects_tag t
      JOIN projects_commit c ON c.project_id = t.project_id AND c.sha = t.sha
      JOIN projects_position p ON p.commit_id = c.id
     WHERE t.project_id = %(project)s
       AND p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
  ORDER BY p.number, t.name
"""


def timeline_document(view: View) -> bytes:
    """The chart's data as JSON, in columns; ``at`` counts commits from the first of the view."""
    metric = view.scope.metric
    columns = list(columns_of(view))
    measured = {at for _, line in columns for at in line.at}
    content = {
        "schema": "speedtrack.timeline/1",
        "project": view.scope.project.slug,
        "benchmark": view.benchmark.name,
        "branch": view.branch.name,
        "metric": {"name": metric.name, "title": metric.title, "unit": metric.unit, "better": metric.better.value},
        "first": view.first,
        "gaps": gap_documents(view, measured),
        "changes": [change_document(view, cp) for cp in change_points_in(view) if cp.status in changes.VISIBLE],
        "breaks": [break_document(view, one) for one in breaks_among(view, columns)],
        "tags": [{"at": number - view.first, "name": name} for number, name in view.fetch(TAGS)],
    }
    ((commits,),) = view.fetch(COMMIT_COLUMNS)
    drawn_lines = ",".join(line_document(series, line) for series, line in columns)
    return json_object(plain_values(content), commits=plain_json(commits), lines=f"[{drawn_lines}]").encode()


def breaks_among(view: View, columns: list[tuple[Series, LineColumns]]) -> list[Break]:
    """The breaks between these lines; none where each machine has one line."""
    if len({series.machine_id for series, _ in columns}) == len(columns):
        return []
    return find_breaks((series, [view.first + at for at in line.at]) for series, line in columns)


def break_document(view: View, one: Break) -> dict[str, Any]:
    facts = [changed._asdict() for changed in one.changed]
    return {"at": one.position - view.first, "machine": one.machine, "what": one.what, "facts": facts}


def columns_of(view: View) -> Iterator[tuple[Series, LineColumns]]:
    """The series that have points in the view, in the order in which they begin."""
    known = {s.pk: s for s in view.series}
    for line in lines.columns(known, view.branch, view.first, view.last):
        yield known[line.series_id], line


def line_document(series: Series, line: LineColumns) -> str:
    names = {
        "machine": series.machine.name,
        "environment": short_digest(series.environment.digest),
        "definition": short_digest(series.benchmark.digest),
        "at": line.at,
    }
    return json_object(names, value=line.value, low=line.low, high=line.high, n=line.n, flags=line.flags)


def json_object(values: dict[str, Any], **encoded: str) -> str:
    """One JSON object of plain values and of values that are JSON already."""
    more = "".join(f',"{name}":{text}' for name, text in encoded.items())
    return f"{json.dumps(values, separators=(',', ':'))[:-1]}{more}}}"


def short_digest(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def gap_documents(view: View, measured: set[int]) -> list[dict[str, Any]]:
    """The commits without a point of which a reason is known; all others are merely not measured."""
    found = sorted((number - view.first, gap) for number, gap in gaps_in(view).items())
    return [{"at": at, "state": gap.state, "reason": gap.reason} for at, gap in found if at not in measured]


def change_document(view: View, cp: ChangePoint) -> dict[str, Any]:
    return {
        "at": getattr(cp, "place") - view.first,  # noqa: B009 (annotated by change_points_in)
        "machine": cp.series.machine.name,
        "status": cp.status,
        "width": changes.width_of(cp),
        "worse": cp.is_slowdown,
        "ratio": cp.ratio,
        "low": cp.low,
        "high": cp.high,
        "alert": cp.alert_id,
    }
