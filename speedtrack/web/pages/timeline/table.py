"""A timeline as rows: the table of its page, and CSV."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.series import Drawn
from speedtrack.runs.models import Series
from speedtrack.text import cell
from speedtrack.web.gaps import UNMEASURED, Gap
from speedtrack.web.pages.timeline.document import short
from speedtrack.web.pages.timeline.points import Rows, Step
from speedtrack.web.pages.timeline.summary import NamedBreak

TABLE_ROWS = 200


@dataclass(frozen=True)
class TableRow:
    step: Step
    point: Drawn | None
    series: Series | None
    gap: Gap
    change: ChangePoint | None
    begins: str = ""  #: what changed on the machine just before this commit


def table(timeline: Rows, breaks: Sequence[NamedBreak] = ()) -> Iterator[TableRow]:
    """The commits, newest first, each with its points, or with why it has none."""
    begins = {(b.at.position, b.at.machine): b.at.what for b in breaks}
    points: dict[int, list[Drawn]] = defaultdict(list)
    for point in timeline.points:
        points[point.commit_id].append(point)
    marks = {(cp.commit_id, cp.series_id): cp for cp in timeline.change_points}
    series = {s.pk: s for s in timeline.view.series}
    for step in reversed(timeline.path):
        for p in points.get(step.id, []):
            one = series[p.series_id]
            what = begins.get((step.number, one.machine.name), "")
            yield TableRow(step, p, one, UNMEASURED, marks.get((step.id, p.series_id)), what)
        if step.id not in points:
            yield TableRow(step, None, None, timeline.gaps.get(step.number, UNMEASURED), None)


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


def csv_rows(timeline: Rows) -> Iterator[list[str]]:
    """A header and one row per point or gap, oldest first."""
    yield HEADER
    unit = timeline.view.scope.metric.unit
    for row in reversed(list(table(timeline))):
        step = row.step
        head = [str(step.number), step.sha, step.time.isoformat(), cell(step.author), cell(step.subject)]
        if row.point and row.series:
            p, environment = row.point, short(row.series.environment.digest)
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
