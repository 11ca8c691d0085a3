"""A timeline as rows: the table of its page, and CSV."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import ChangePoint
from speedtrack.runs.models import Series
from speedtrack.text import csv_cell
from speedtrack.web.drawing.gaps import UNMEASURED, Gap
from speedtrack.web.pages.timeline.document import short_digest
from speedtrack.web.pages.timeline.points import Timeline, TimelineCommit
from speedtrack.web.pages.timeline.summary import PlacedBreak


@dataclass(frozen=True)
class TableRow:
    commit: TimelineCommit
    point: LinePoint | None
    series: Series | None
    gap: Gap
    change: ChangePoint | None
    new_environment: str = ""  #: what changed on the machine just before this commit


def table_rows(timeline: Timeline, breaks: Sequence[PlacedBreak] = ()) -> Iterator[TableRow]:
    """The commits, newest first: a row for each point, or one that says why there is none."""
    changed = {(b.at.position, b.at.machine): b.at.what for b in breaks}
    points: dict[int, list[LinePoint]] = defaultdict(list)
    for point in timeline.points:
        points[point.commit_id].append(point)
    marks = {(cp.commit_id, cp.series_id): cp for cp in timeline.change_points}
    series = {s.pk: s for s in timeline.view.series}
    for commit in reversed(timeline.commits):
        for p in points.get(commit.id, []):
            one = series[p.series_id]
            what = changed.get((commit.number, one.machine.name), "")
            yield TableRow(commit, p, one, UNMEASURED, marks.get((commit.id, p.series_id)), what)
        if commit.id not in points:
            yield TableRow(commit, None, None, timeline.gaps.get(commit.number, UNMEASURED), None)


HEADER = [
    "position",
    "sha",
    "committed_at",
    "author",
    "subject",
    "machine",
    "environment",
    "value",
    "low",
    "high",
    "n",
    "unit",
    "flags",
    "state",
    "change",
]


def csv_rows(timeline: Timeline) -> Iterator[list[str]]:
    """A header and one row per point or gap, oldest first."""
    yield HEADER
    unit = timeline.view.scope.metric.unit
    for row in reversed(list(table_rows(timeline))):
        commit = row.commit
        head = [
            str(commit.number),
            commit.sha,
            commit.time.isoformat(),
            csv_cell(commit.author),
            csv_cell(commit.subject),
        ]
        if row.point and row.series:
            p, environment = row.point, short_digest(row.series.environment.digest)
            change = row.change.status if row.change else ""
            yield [
                *head,
                row.series.machine.name,
                environment,
                *map(repr, (p.value, p.low, p.high)),
                str(p.n),
                unit,
                " ".join(p.flags),
                "measured",
                change,
            ]
        else:
            yield [*head, "", "", "", "", "", "", unit, "", row.gap.state, ""]
