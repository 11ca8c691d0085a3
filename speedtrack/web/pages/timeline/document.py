"""A timeline as the document that the charts of browser and server are drawn from (``speedtrack.timeline/4``)."""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array, LineColumns
from speedtrack.ground.texts.text import plain_json, plain_values
from speedtrack.judging.verdicts import look_of_change, sign_of_change
from speedtrack.web.drawing.charts.gaps import Gap
from speedtrack.web.drawing.charts.outlines import outline
from speedtrack.web.pages.timeline.breaks import find_breaks
from speedtrack.web.pages.timeline.overlay import Overlay, Path, ShownLine
from speedtrack.web.pages.timeline.points import (
    Gaps,
    ShownChange,
    Tags,
    Trials,
    notes_on,
    releases_of,
    trials_of,
)

# PostgreSQL writes the columns as JSON: turning a row per commit into JSON in Python would take too long. First those
# of all commits, each once, then of each path where its commits are among them.
COMMIT_COLUMNS = """
      WITH wanted AS MATERIALIZED (
        SELECT asked.place, p.number - asked.first AS at, p.commit_id
          FROM unnest(%(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[], %(kept)s::text[])
               WITH ORDINALITY AS asked (branch_id, first, last, kept, place)
    CROSS JOIN LATERAL (
            SELECT number, commit_id FROM projects_position
             WHERE branch_id = asked.branch_id AND number BETWEEN asked.first AND asked.last AND asked.kept IS NULL
             UNION ALL
            SELECT one.* FROM unnest(asked.kept::int[]) AS k (number)
        CROSS JOIN LATERAL (SELECT number, commit_id FROM projects_position
                             WHERE branch_id = asked.branch_id AND number = k.number OFFSET 0) one) p),
           listed AS MATERIALIZED (
        SELECT commit_id, row_number() OVER (ORDER BY min(place), min(at)) - 1 AS index FROM wanted GROUP BY commit_id)
    SELECT 0 AS place,
           json_build_object(
             'sha', coalesce(json_agg(left(c.sha, 12) ORDER BY l.index), '[]'),
             'subject', coalesce(json_agg(left(c.subject, %(subject)s) ORDER BY l.index), '[]'),
             'author', coalesce(json_agg(c.author_name ORDER BY l.index), '[]'),
             'time', coalesce(json_agg(extract(epoch FROM c.committed_at)::bigint ORDER BY l.index), '[]'),
             'unreachable', coalesce(json_agg(l.index) FILTER (WHERE c.unreachable_since IS NOT NULL), '[]'))::text
      FROM listed l JOIN projects_commit c ON c.id = l.commit_id
 UNION ALL
    SELECT asked.place, (
        SELECT json_build_object('at', coalesce(json_agg(w.at ORDER BY w.at), '[]'),
                                 'index', coalesce(json_agg(l.index ORDER BY w.at), '[]'))::text
          FROM wanted w JOIN listed l ON l.commit_id = w.commit_id WHERE w.place = asked.place)
      FROM unnest(%(branches)s::bigint[]) WITH ORDINALITY AS asked (branch_id, place)
  ORDER BY place
"""
# Above MOST_COMMITS commits, those that share one of PLACES places of the chart are drawn as their outline.
MOST_COMMITS = 2000
PLACES = 500
PLACES_OF_MANY = 180  # of more than two lines
LABELLED = 8  # parts whose ends the chart names
COLUMNS = ("value", "low", "high")
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


def timeline_document(
    overlay: Overlay, gaps: Gaps, changes: Sequence[ShownChange], all_points: bool = False, trials: bool = False
) -> dict[str, Any]:
    """The chart's data, in columns; ``at`` counts commits from the first of a path.

    Commits are JSON as text, and COLUMNS of a line are arrays: ``timeline_json`` writes them as they are.
    ``gaps``, ``changes``: of the overlay. ``all_points``: even where a chart of their outline looks the same.
    ``trials``: the samples of each point.
    """
    changes = [change for change in changes if change.is_visible]
    tags, annotations = notes_on(overlay)
    documents = path_documents(overlay, changes, gaps, tags, all_points)
    points = sum(len(line.at) for document in documents for line in document.columns)
    samples, too_many = trials_of(overlay, points) if trials else ({}, [])
    commit_arrays = [
        None if document.named is None else f"{{{','.join(map(str, document.named))}}}" for document in documents
    ]
    (_, commits), *commits_of_paths = overlay.fetch(COMMIT_COLUMNS, kept=commit_arrays)
    releases = releases_of(overlay)
    foreign = {
        **heading(overlay),
        "problems": overlay.problems,
        "notes": too_many,
        "shown": [shown_document(overlay, documents, number) for number in range(len(overlay.shown))],
        "breaks": break_documents(overlay, documents),
        "annotations": annotations,
        "paths": list(map(path_document, documents)),
    }
    content: dict[str, Any] = plain_values(foreign)
    content["commits"] = plain_json(commits)
    for path, (_, text) in zip(content["paths"], commits_of_paths, strict=True):
        path["commits"] = text
    content["changes"] = [change_document(overlay, change) for change in changes]
    content["lines"] = [
        line_document(overlay, document, line, samples, releases[document.number, line.series_id])
        for document in documents
        for line in document.columns
    ]
    return content


def timeline_json(document: dict[str, Any]) -> bytes:
    """A ``timeline_document`` as JSON."""
    paths = [json_object(path, commits=path["commits"]) for path in document["paths"]]
    lines = [json_object(line, **{name: numbers(line[name]) for name in COLUMNS}) for line in document["lines"]]
    texts = {"commits": document["commits"], "paths": f"[{','.join(paths)}]", "lines": f"[{','.join(lines)}]"}
    return json_object(document, **texts).encode()


def chart_values(document: dict[str, Any]) -> dict[str, Any]:
    """A ``timeline_document`` of plain values, in which each path has its own commits, and each gap an entry."""
    commits = json.loads(document["commits"])
    lines = [
        line | {name: [value if math.isfinite(value) else None for value in line[name].tolist()] for name in COLUMNS}
        for line in document["lines"]
    ]
    paths = [chart_path(path | {"commits": json.loads(path["commits"])}, commits) for path in document["paths"]]
    return document | {"paths": paths, "lines": lines}


def chart_path(path: dict[str, Any], commits: dict[str, list[Any]]) -> dict[str, Any]:
    """A path with the columns of its own commits instead of their places among all ``commits``."""
    own_commits = path["commits"]
    own = {
        name: [commits[name][index] for index in own_commits["index"]] for name in ("sha", "subject", "author", "time")
    }
    gaps = [{**gap, "at": at} for gap in path["gaps"] for at in gap["at"]]
    return path | {"commits": {"at": own_commits["at"], **own}, "gaps": gaps}


def heading(overlay: Overlay) -> dict[str, Any]:
    view = overlay.view
    metric = view.scope.metric
    return {
        "schema": "speedtrack.timeline/4",
        "project": view.scope.project.slug,
        "benchmark": view.benchmark,
        "branch": view.branch.name,
        "metric": {"name": metric.name, "title": metric.title, "unit": metric.unit, "better": metric.better.value},
        "axis": overlay.axis,
        "scale": overlay.scale,
        "base": overlay.base[:12] or None,
    }


def path_documents(
    overlay: Overlay, changes: Sequence[ShownChange], gaps: Gaps, tags: Tags, all_points: bool
) -> list[PathDocument]:
    columns = overlay.columns()
    many = sum(map(len, columns)) > 2
    documents = []
    for number, path in enumerate(overlay.paths):
        own = [change for change in changes if change.path == number]
        positions = {line.series_id: frozenset(line.at.tolist()) for line in columns[number]}
        document = PathDocument(number, path, 1, columns[number], None, gaps[number], tags[number], positions)
        documents.append(document if all_points or path.commits <= MOST_COMMITS else outlined_path(document, own, many))
    return documents


def outlined_path(document: PathDocument, changes: Sequence[ShownChange], many: bool) -> PathDocument:
    """A copy with outlines instead of lines, and only the commits that the chart names.

    Points at places that the chart tells about are kept: changes, tags, and of the gaps of one place one of each state.
    """
    path = document.path
    step, mesh = -(-path.commits // (PLACES_OF_MANY if many else PLACES)), -(-path.commits // PLACES)
    gaps = {at: document.gaps[at] for at in {(at // mesh, gap.state): at for at, gap in document.gaps.items()}.values()}
    mentions = [at - path.first for at in gaps]
    mentions += [
        at - path.first for change in changes for at in (change.place - change.width, change.place - 1, change.place)
    ]
    mentions += [tag["at"] for tag in document.tags]
    columns = [outline(line, step, mentions) for line in document.columns]
    labels = range(0, path.commits, -(-path.commits // LABELLED))
    offsets = {*mentions, *labels, path.commits - 1}.union(*(line.at.tolist() for line in columns))
    commit_numbers = sorted(path.first + at for at in offsets if 0 <= at < path.commits)
    return PathDocument(document.number, path, step, columns, commit_numbers, gaps, document.tags, document.measured)


def path_document(document: PathDocument) -> dict[str, Any]:
    path = document.path
    with_point = {at for line in document.columns for at in line.at.tolist()}
    return {
        "project": path.slug,
        "branch": path.branch.name,
        "first": path.first,
        "count": path.commits,
        "step": document.step,
        # Of the other commits without a point, it is merely known that they are not measured.
        "gaps": gap_documents({number - path.first: gap for number, gap in document.gaps.items()}, with_point),
        "tags": document.tags,
    }


def gap_documents(gaps: Mapping[int, Gap], with_point: Collection[int]) -> list[dict[str, Any]]:
    """The gaps by position, those of one reason together: most commits of a long branch were left out for one."""
    positions: dict[tuple[str, str], list[int]] = defaultdict(list)
    for at in sorted(gaps.keys() - with_point):
        positions[gaps[at].state, gaps[at].reason].append(at)
    return [{"state": state, "reason": reason, "at": own} for (state, reason), own in positions.items()]


def shown_document(overlay: Overlay, documents: Sequence[PathDocument], number: int) -> dict[str, Any]:
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
        "measured": len(
            frozenset[int]().union(*(documents[path].measured.get(series.pk, ()) for series in line.series))
        ),
        "base": base and {"sha": base.sha[:12], "value": base_value(line, documents[path])},
    }


def base_value(line: ShownLine, document: PathDocument) -> float:
    """The line's value at its base: that of its point, if it is drawn."""
    assert line.base
    for columns in document.columns:
        if columns.series_id == line.base.series_id:
            indices = np.flatnonzero(columns.at == line.base.number - document.path.first)
            if len(indices):
                return float(columns.value[indices[0]])
    return line.base.value


def break_documents(overlay: Overlay, documents: Sequence[PathDocument]) -> list[dict[str, Any]]:
    """The breaks. One that several lines of a machine share is listed once."""
    breaks: dict[tuple[Any, ...], dict[str, Any]] = {}
    entries = (
        (*overlay.along[document.number][line.series_id], (document.path.first + line.at).tolist())
        for document in documents
        for line in document.columns
    )
    for boundary in find_breaks(entries):
        line = overlay.shown[boundary.line]
        path = overlay.path_of(line)
        position = {"path": path, "at": boundary.position - overlay.paths[path].first, "machine": line.name.machine}
        facts = [fact._asdict() for fact in boundary.changed]
        breaks.setdefault((*position.values(), boundary.what), {**position, "what": boundary.what, "facts": facts})
    return list(breaks.values())


def line_document(
    overlay: Overlay, document: PathDocument, line: LineColumns, samples: Trials, releases: list[dict[str, Any]]
) -> dict[str, Any]:
    number, series = overlay.along[document.number][line.series_id]
    content = {
        "shown": number,
        "environment": short_digest(series.environment.digest),
        "definition": short_digest(series.benchmark.digest),
        "at": line.at.tolist(),
        "n": line.n.tolist(),
        "flags": {str(at): flags for at, flags in line.flags.items()},
        "releases": releases,
        **{name: getattr(line, name) for name in COLUMNS},
    }
    if samples:
        trials_at = {
            str(at): samples.get((document.number, line.series_id, document.path.first + at)) for at in line.at.tolist()
        }
        content["runs"] = {at: sample.run for at, sample in trials_at.items() if sample}
        content["trials"] = {at: sample.values for at, sample in trials_at.items() if sample and sample.values}
        content["void"] = {at: sample.void for at, sample in trials_at.items() if sample and sample.void}
    return content


def numbers(values: Array) -> str:
    """Numbers as a JSON list, with as many digits as a chart can show; null for one that is not finite."""
    texts = [f"{value:.{DIGITS}g}" for value in values.tolist()]
    if not np.isfinite(values).all():
        texts = ["null" if "n" in text else text for text in texts]  # nan, inf
    return f"[{','.join(texts)}]"


def json_object(values: dict[str, Any], **encoded: str) -> str:
    """One JSON object of values, some of which are ``encoded`` already."""
    unencoded = {name: value for name, value in values.items() if name not in encoded}
    extras = "".join(f',"{name}":{text}' for name, text in encoded.items())
    return f"{json.dumps(unencoded, separators=(',', ':'))[:-1]}{extras}}}"


def short_digest(digest: str) -> str:
    return digest.removeprefix("sha256:")[:12]


def change_document(overlay: Overlay, change: ShownChange) -> dict[str, Any]:
    return {
        "shown": overlay.along[change.path][change.series][0],
        "at": change.place - overlay.paths[change.path].first,
        "status": change.status,
        "width": change.width,
        "worse": change.is_slowdown,
        "ratio": change.ratio,
        "words": change.change_in_words,
        "low": change.low,
        "high": change.high,
        "alert": change.alert_id,
        "alert_state": change.alert_state,
        "look": look_of_change(change),
        "sign": sign_of_change(change.is_slowdown),
    }
