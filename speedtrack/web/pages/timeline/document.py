"""A timeline as the JSON document that the chart is drawn from (``speedtrack.timeline/3``)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array, LineColumns
from speedtrack.ground.texts.text import plain_json, plain_values
from speedtrack.web.drawing.gaps import Gap
from speedtrack.web.drawing.outlines import outline
from speedtrack.web.pages.timeline.breaks import find_breaks
from speedtrack.web.pages.timeline.notes import Tags, notes_on
from speedtrack.web.pages.timeline.overlay import Overlay, Path, ShownLine
from speedtrack.web.pages.timeline.points import Gaps, ShownChange, shown_changes
from speedtrack.web.pages.timeline.releases import releases_of
from speedtrack.web.pages.timeline.trials import Trials, trials_of

# PostgreSQL writes the columns as JSON: turning a row per commit into JSON in Python would take too long.
COMMIT_COLUMNS = """
    SELECT found.document
      FROM unnest(%(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[], %(kept)s::text[])
           WITH ORDINALITY AS asked (branch_id, first, last, kept, place)
CROSS JOIN LATERAL (
    SELECT json_build_object(
             'at', coalesce(json_agg(at), '[]'),
             'sha', coalesce(json_agg(sha), '[]'),
             'subject', coalesce(json_agg(subject), '[]'),
             'author', coalesce(json_agg(author_name), '[]'),
             'time', coalesce(json_agg(time), '[]'),
             'unreachable', coalesce(json_agg(at) FILTER (WHERE is_gone), '[]'))::text AS document
      FROM (SELECT p.number - asked.first AS at, left(c.sha, 12) AS sha, left(c.subject, %(subject)s) AS subject,
                   c.author_name, extract(epoch FROM c.committed_at)::bigint AS time,
                   c.unreachable_since IS NOT NULL AS is_gone
              FROM (SELECT generate_series(asked.first, asked.last) AS number WHERE asked.kept IS NULL
                    UNION ALL
                    SELECT unnest(asked.kept::int[])) wanted
              JOIN projects_position p ON p.branch_id = asked.branch_id AND p.number = wanted.number
              JOIN projects_commit c ON c.id = p.commit_id
          ORDER BY p.number) path) found
  ORDER BY asked.place
"""
# Above MOST_COMMITS commits, those that share one of PLACES places of the chart are drawn as their outline.
MOST_COMMITS = 2000
PLACES = 500
PLACES_OF_MANY = 180  # of more than two lines
LABELLED = 8  # parts whose ends the chart names
DIGITS = 7


@dataclass(frozen=True)
class PathDocument:
    """What is drawn along one path. ``named``: the positions of the commits that it lists; None: all."""

    number: int
    path: Path
    step: int
    columns: list[LineColumns]
    named: list[int] | None
    gaps: dict[int, Gap]
    tags: list[dict[str, Any]]
    measured: dict[int, frozenset[int]]  #: by series, the positions of the commits with a value


def timeline_document(overlay: Overlay, gaps: Gaps, whole: bool = False, trials: bool = False) -> bytes:
    """The chart's data as JSON, in columns; ``at`` counts commits from the first of a path.

    ``gaps``: of the overlay. ``whole``: all points, even where a chart of their outline looks the same. ``trials``: the
    samples of each point.
    """
    changed = shown_changes(overlay)
    tags, annotations = notes_on(overlay)
    parts = path_documents(overlay, changed, gaps, tags, whole)
    points = sum(len(line.at) for part in parts for line in part.columns)
    samples, too_many = trials_of(overlay, points) if trials else ({}, [])
    kept = [None if part.named is None else f"{{{','.join(map(str, part.named))}}}" for part in parts]
    commits = overlay.fetch(COMMIT_COLUMNS, kept=kept)
    paths = [path_document(part, plain_json(text)) for part, (text,) in zip(parts, commits, strict=True)]
    releases = releases_of(overlay)
    drawn = [
        line_document(overlay, part, line, samples, releases[part.number, line.series_id])
        for part in parts
        for line in part.columns
    ]
    marks = [change_document(overlay, one) for one in changed]
    content = {
        **heading(overlay),
        "problems": overlay.problems,
        "notes": too_many,
        "shown": [shown_document(overlay, parts, number) for number in range(len(overlay.shown))],
        "breaks": break_documents(overlay, parts),
        "annotations": annotations,
    }
    encoded = {
        "changes": json.dumps(marks, separators=(",", ":")),  # no foreign texts
        "paths": f"[{','.join(paths)}]",
        "lines": f"[{','.join(drawn)}]",
    }
    return json_object(plain_values(content), **encoded).encode()


def heading(overlay: Overlay) -> dict[str, Any]:
    view = overlay.view
    metric = view.scope.metric
    return {
        "schema": "speedtrack.timeline/3",
        "project": view.scope.project.slug,
        "benchmark": view.benchmark,
        "branch": view.branch.name,
        "metric": {"name": metric.name, "title": metric.title, "unit": metric.unit, "better": metric.better.value},
        "axis": overlay.axis,
        "scale": overlay.scale,
        "base": overlay.base[:12] or None,
    }


def path_documents(
    overlay: Overlay, changed: Sequence[ShownChange], gaps: Gaps, tags: Tags, whole: bool
) -> list[PathDocument]:
    columns = overlay.columns()
    many = sum(map(len, columns)) > 2
    made = []
    for number, path in enumerate(overlay.paths):
        own = [one for one in changed if one.path == number]
        measured = {line.series_id: frozenset(line.at.tolist()) for line in columns[number]}
        part = PathDocument(number, path, 1, columns[number], None, gaps[number], tags[number], measured)
        made.append(part if whole or path.commits <= MOST_COMMITS else outlined_path(part, own, many))
    return made


def outlined_path(part: PathDocument, changed: Sequence[ShownChange], many: bool) -> PathDocument:
    """A copy with outlines instead of lines, and only the commits that the chart names.

    Points at places that the chart tells about are kept: changes, tags, and of the gaps of one place one of each state.
    """
    path = part.path
    step, mesh = -(-path.commits // (PLACES_OF_MANY if many else PLACES)), -(-path.commits // PLACES)
    gaps = {at: part.gaps[at] for at in {(at // mesh, gap.state): at for at, gap in part.gaps.items()}.values()}
    told = [at - path.first for at in gaps]
    told += [at - path.first for one in changed for at in (one.place - one.width, one.place - 1, one.place)]
    told += [tag["at"] for tag in part.tags]
    columns = [outline(line, step, told) for line in part.columns]
    labels = range(0, path.commits, -(-path.commits // LABELLED))
    named = {*told, *labels, path.commits - 1}.union(*(line.at.tolist() for line in columns))
    known = sorted(path.first + at for at in named if 0 <= at < path.commits)
    return PathDocument(part.number, path, step, columns, known, gaps, part.tags, part.measured)


def path_document(part: PathDocument, commits: str) -> str:
    path = part.path
    without_gap = {at for line in part.columns for at in line.at.tolist()}
    found = sorted((number - path.first, gap) for number, gap in part.gaps.items())
    content = {
        "project": path.slug,
        "branch": path.branch.name,
        "first": path.first,
        "count": path.commits,
        "step": part.step,
        # Of the other commits without a point, it is merely known that they are not measured.
        "gaps": [{"at": at, "state": g.state, "reason": g.reason} for at, g in found if at not in without_gap],
        "tags": part.tags,
    }
    return json_object(plain_values(content), commits=commits)


def shown_document(overlay: Overlay, parts: Sequence[PathDocument], number: int) -> dict[str, Any]:
    """An entry of the legend. ``measured``: the number of commits with a value."""
    line = overlay.shown[number]
    metric, base = line.metric, line.base
    path = overlay.path_of(line)
    return {
        "line": str(line.name),
        "title": overlay.titles[number],
        "project": line.name.project,
        "benchmark": line.name.benchmark,
        "machine": line.name.machine,
        "branch": line.name.branch,
        "metric": {"name": metric.name, "title": metric.title, "unit": metric.unit, "better": metric.better.value},
        "path": path,
        "right": line.right,
        "measured": len(frozenset[int]().union(*(parts[path].measured.get(one.pk, ()) for one in line.series))),
        "base": base and {"sha": base.sha[:12], "value": base_value(line, parts[path])},
    }


def base_value(line: ShownLine, part: PathDocument) -> float:
    """The line's value at its base: that of its point, if it is drawn."""
    assert line.base
    for columns in part.columns:
        if columns.series_id == line.base.series_id:
            drawn = np.flatnonzero(columns.at == line.base.number - part.path.first)
            if len(drawn):
                return float(columns.value[drawn[0]])
    return line.base.value


def break_documents(overlay: Overlay, parts: Sequence[PathDocument]) -> list[dict[str, Any]]:
    """The breaks. One that several lines of a machine share is listed once."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    places = (
        (*overlay.along[part.number][line.series_id], (part.path.first + line.at).tolist())
        for part in parts
        for line in part.columns
    )
    for one in find_breaks(places):
        line = overlay.shown[one.line]
        path = overlay.path_of(line)
        place = {"path": path, "at": one.position - overlay.paths[path].first, "machine": line.name.machine}
        facts = [changed._asdict() for changed in one.changed]
        found.setdefault((*place.values(), one.what), {**place, "what": one.what, "facts": facts})
    return list(found.values())


def line_document(
    overlay: Overlay, part: PathDocument, line: LineColumns, samples: Trials, releases: list[dict[str, Any]]
) -> str:
    number, series = overlay.along[part.number][line.series_id]
    names = {
        "shown": number,
        "environment": short_digest(series.environment.digest),
        "definition": short_digest(series.benchmark.digest),
        "at": line.at.tolist(),
        "n": line.n.tolist(),
        "flags": line.flags,
        "releases": releases,
    }
    if samples:
        places = {at: samples.get((part.number, line.series_id, part.path.first + at)) for at in line.at.tolist()}
        names["runs"] = {at: found.run for at, found in places.items() if found}
        names["trials"] = {at: found.values for at, found in places.items() if found and found.values}
        names["void"] = {at: found.void for at, found in places.items() if found and found.void}
    return json_object(names, value=numbers(line.value), low=numbers(line.low), high=numbers(line.high))


def numbers(values: Array) -> str:
    """Numbers as a JSON list, with as many digits as a chart can show; null for one that is not finite."""
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


def change_document(overlay: Overlay, one: ShownChange) -> dict[str, Any]:
    return {
        "shown": overlay.along[one.path][one.series][0],
        "at": one.place - overlay.paths[one.path].first,
        "status": one.status,
        "width": one.width,
        "worse": one.is_slowdown,
        "ratio": one.ratio,
        "low": one.low,
        "high": one.high,
        "alert": one.alert_id,
        "alert_state": one.alert_state,
    }
