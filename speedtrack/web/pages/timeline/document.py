"""A timeline as the JSON document that the chart is drawn from."""

import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from speedtrack.alerts import lines
from speedtrack.alerts.lines import Array, LineColumns
from speedtrack.runs.models import Series
from speedtrack.text import plain_json, plain_values
from speedtrack.web.drawing.gaps import Gap
from speedtrack.web.drawing.outlines import outline
from speedtrack.web.pages.timeline.breaks import Break, find_breaks
from speedtrack.web.pages.timeline.points import ShownChange, gaps_in, shown_changes
from speedtrack.web.pages.timeline.view import View

# PostgreSQL writes the columns as JSON: turning a row per commit into JSON in Python would take too long.
COMMIT_COLUMNS = """
    SELECT json_build_object(
             'at', coalesce(json_agg(at), '[]'),
             'sha', coalesce(json_agg(sha), '[]'),
             'subject', coalesce(json_agg(subject), '[]'),
             'author', coalesce(json_agg(author_name), '[]'),
             'time', coalesce(json_agg(time), '[]'))::text
      FROM (SELECT p.number - %(first)s AS at, left(c.sha, 12) AS sha, left(c.subject, %(subject)s) AS subject,
                   c.author_name, extract(epoch FROM c.committed_at)::bigint AS time
              FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
             WHERE p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s
               AND (%(kept)s::int[] IS NULL OR p.number = ANY(%(kept)s))
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


# Above MOST_COMMITS commits, those that share one of PLACES places of the chart are drawn as their outline.
MOST_COMMITS = 2000
PLACES = 500
PLACES_OF_MANY = 180  # of more than two lines
LABELLED = 8  # parts whose ends the chart names
DIGITS = 7


def gaps_by_place(view: View) -> dict[int, Gap]:
    """The gaps by position; of a long view, one of each state at each place of the chart."""
    gaps = gaps_in(view)
    if view.commits <= MOST_COMMITS:
        return gaps
    step = -(-view.commits // PLACES)
    return {at: gaps[at] for at in {(at // step, gap.state): at for at, gap in gaps.items()}.values()}


def timeline_document(view: View, whole: bool = False) -> bytes:
    """The chart's data as JSON, in columns; ``at`` counts commits from the first of the view.

    ``whole``: all points, even where a chart of their outline looks the same.
    """
    metric = view.scope.metric
    changed = shown_changes(view)
    drawn = whole or view.commits <= MOST_COMMITS
    gaps = gaps_in(view) if drawn else gaps_by_place(view)
    columns = list(columns_of(view))
    measured = measured_by(columns)
    step, named = 1, None
    if not drawn:
        told = [*gaps, *(place for one in changed for place in (one.place - 1, one.place))]
        step, columns, named = outlines(view, columns, [place - view.first for place in told])
    without_gap = {at for _, line in columns for at in line.at.tolist()}
    places = [(series, (view.first + line.at).tolist()) for series, line in columns]
    content = {
        "schema": "speedtrack.timeline/2",
        "project": view.scope.project.slug,
        "benchmark": view.benchmark.name,
        "branch": view.branch.name,
        "metric": {"name": metric.name, "title": metric.title, "unit": metric.unit, "better": metric.better.value},
        "first": view.first,
        "count": view.commits,
        "step": step,
        "measured": measured,
        "gaps": gap_documents(view, gaps, without_gap),
        "breaks": [break_document(view, one) for one in find_breaks(places)],
        "tags": [{"at": number - view.first, "name": name} for number, name in view.fetch(TAGS)],
    }
    ((commits,),) = view.fetch(COMMIT_COLUMNS, kept=named)
    drawn_lines = ",".join(line_document(series, line) for series, line in columns)
    marks = json.dumps([change_document(view, one) for one in changed], separators=(",", ":"))  # no foreign texts
    parts = {"changes": marks, "commits": plain_json(commits), "lines": f"[{drawn_lines}]"}
    return json_object(plain_values(content), **parts).encode()


Line = tuple[Series, LineColumns]


def outlines(view: View, columns: list[Line], told: list[int]) -> tuple[int, list[Line], list[int]]:
    """How many commits share a place of the chart, the lines as outlines, and the positions of the commits it names.

    ``told``: places that the chart tells of; their points are kept.
    """
    step = -(-view.commits // (PLACES_OF_MANY if len(columns) > 2 else PLACES))
    found = [(series, outline(line, step, told)) for series, line in columns]
    labels = range(0, view.commits, -(-view.commits // LABELLED))
    named = {*told, *labels, view.commits - 1}.union(*(line.at.tolist() for _, line in found))
    return step, found, sorted(view.first + at for at in named if 0 <= at < view.commits)


def break_document(view: View, one: Break) -> dict[str, Any]:
    facts = [changed._asdict() for changed in one.changed]
    return {"at": one.position - view.first, "machine": one.machine, "what": one.what, "facts": facts}


def columns_of(view: View) -> Iterator[Line]:
    """The series that have points in the view, in the order in which they begin."""
    known = {s.pk: s for s in view.series}
    for line in lines.columns(known, view.branch, view.first, view.last):
        yield known[line.series_id], line


def measured_by(columns: list[Line]) -> dict[str, int]:
    """How many commits each machine measured; one that it measured in two environments counts twice."""
    found: dict[str, int] = defaultdict(int)
    for series, line in columns:
        found[series.machine.name] += len(line.at)
    return found


def line_document(series: Series, line: LineColumns) -> str:
    names = {
        "machine": series.machine.name,
        "environment": short_digest(series.environment.digest),
        "definition": short_digest(series.benchmark.digest),
        "at": line.at.tolist(),
        "n": line.n.tolist(),
        "flags": line.flags,
    }
    return json_object(names, value=numbers(line.value), low=numbers(line.low), high=numbers(line.high))


def numbers(values: Array) -> str:
    """Numbers as a JSON list, with the digits that a chart can show; null for one that is not finite."""
    texts = [f"{value:.{DIGITS}g}" for value in values.tolist()]
    if not np.isfinite(values).all():
        texts = ["null" if "n" in text else text for text in texts]  # nan, inf
    return f"[{','.join(texts)}]"


def json_object(values: dict[str, Any], **encoded: str) -> str:
    """One JSON object of plain values and of values that are JSON already."""
    more = "".join(f',"{name}":{text}' for name, text in encoded.items())
    return f"{json.dumps(values, separators=(',', ':'))[:-1]}{more}}}"


def short_digest(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def gap_documents(view: View, gaps: dict[int, Gap], measured: set[int]) -> list[dict[str, Any]]:
    """The commits without a point of which a reason is known; all others are merely not measured."""
    found = sorted((number - view.first, gap) for number, gap in gaps.items())
    return [{"at": at, "state": gap.state, "reason": gap.reason} for at, gap in found if at not in measured]


def change_document(view: View, one: ShownChange) -> dict[str, Any]:
    return {
        "at": one.place - view.first,
        "machine": one.machine,
        "status": one.status,
        "width": one.width,
        "worse": one.is_slowdown,
        "ratio": one.ratio,
        "low": one.low,
        "high": one.high,
        "alert": one.alert_id,
    }
