"""The cells of a row of a grid: which two sides each compares, and its colour and words."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from speedtrack.alerts.lines.linecolumns import LineColumns
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.benchmarks.numbers import UnitScale
from speedtrack.judging.evidence import TwoSides
from speedtrack.judging.verdicts import DIFFERING, SETTLED, SIGNS, Judgement, Ruling, direction_of, words_of
from speedtrack.web.drawing.charts.gaps import UNMEASURED, Gap
from speedtrack.web.pages.project.columns import GridColumn, Mark
from speedtrack.web.pages.project.state import GridState, RowSides

STRONG = 2  # times the smallest detectable difference, from which on a cell has the strong colour


class Cell(NamedTuple):
    """One benchmark at one commit.

    ``look``: the CSS classes of its colour and shape; ``words``: makes its title, which documents do not have.
    """

    look: str
    mark: str
    words: Callable[[], str]

    @property
    def title(self) -> str:
        """Its meaning in words."""
        return self.words()


@dataclass(frozen=True)
class RowContext:
    """What the cells of one row share.

    ``lines``: its own; ``detectable``: the smallest change that matters and that these show; ``marks``: of its commits;
    ``scale``: the unit of its values.
    """

    state: GridState
    lines: list[LineColumns]
    sides: RowSides
    detectable: float
    marks: Mapping[int, Mark]
    scale: UnitScale

    @property
    def metric(self) -> Metric:
        return self.state.scope.metric

    def judgement(self, side: TwoSides | None) -> Judgement | None:
        return self.state.judgements.get(side) if side else None


def release_cells(context: RowContext) -> list[Cell]:
    """The cells of the releases, the oldest first; the first is compared with the release before it."""
    cells = []
    for at, release in enumerate(context.state.shown_releases):
        series = max((line.series_id for line in context.lines if line.series_id in release.values), default=None)
        if series is None:
            cells.append(Cell("unmeasured", "", f"{release.tag}: no reliable value".__str__))
        else:
            point = CellPoint(release.tag, release.values[series], [])
            side = context.sides.chain.get((at, series))
            cells.append(measured_cell(context, point, context.judgement(side), None))
    return cells[::-1]


def commit_cells(context: RowContext) -> list[Cell]:
    """The cells of the commits; where several lines have a point, that of the newest line."""
    commits = context.state.commits
    points, first = {}, len(context.state.path) - len(commits)
    for line in sorted(context.lines, key=lambda line: line.series_id):
        visible = slice(int(line.at.searchsorted(first)), None)
        for at, value in zip(line.at[visible].tolist(), line.value[visible].tolist(), strict=True):
            points[at] = line.series_id, value, line.flags.get(at, [])
    cells = []
    for at, placed in enumerate(commits, start=first):
        if at in points:
            series, value, flags = points[at]
            judgement = context.judgement(context.sides.of_commits.get((series, at)))
            point = CellPoint(placed.short, value, flags)
            cells.append(measured_cell(context, point, judgement, context.marks.get(placed.pk)))
        else:
            cells.append(gap_cell(placed, context.state.gaps.get(placed.pk, UNMEASURED)))
    return cells


class CellPoint(NamedTuple):
    """The point of a cell, and the name of its commit or release."""

    name: str
    value: float
    flags: list[str]


def measured_cell(context: RowContext, point: CellPoint, judgement: Judgement | None, mark: Mark | None) -> Cell:
    title = partial(title_of, context, point, judgement, mark)
    if point.flags:
        return Cell("flagged", "", title)
    if mark is None:
        return Cell(shade_of(judgement, context.detectable), "", title)
    verdict = direction_of(context.metric, mark.ratio)
    state = state_of(mark)
    strength = "same" if state in SETTLED else f"{verdict}-{2 if state == ChangePoint.Status.CONFIRMED else 1}"
    return Cell(f"{strength} change-{state}", SIGNS[verdict].strip(), title)


def state_of(mark: Mark) -> str:
    """That of its alert once this is no work any more."""
    return str(mark.alert_status) if mark.alert_status in SETTLED else mark.status


def shade_of(judgement: Judgement | None, detectable: float) -> str:
    """The CSS class of a judgement: its direction, and how large it is."""
    if judgement is None or judgement.verdict not in DIFFERING:
        return "same"
    return f"{judgement.look}-{2 if units_of(judgement.ratio, detectable) >= STRONG else 1}"


def title_of(context: RowContext, point: CellPoint, judgement: Judgement | None, mark: Mark | None) -> str:
    """A measured cell in words."""
    title = f"{point.name}: {context.scale.text(point.value)}"
    if judgement:
        title += f", {numbers.change(judgement.ratio)} to the one before"
        if judgement.verdict in DIFFERING:
            title += f" ({units_of(judgement.ratio, context.detectable):.1f} × detectable)"
        elif judgement.verdict != Ruling.SAME:
            title += f" ({judgement.words})"
    if point.flags:
        return f"{title}; unreliable: {', '.join(point.flags)}"
    return f"{title}; {words_of_mark(mark, context.metric)}" if mark else title


def words_of_mark(mark: Mark, metric: Metric) -> str:
    sentence = f"{state_of(mark)}: {words_of(direction_of(metric, mark.ratio), metric)} {mark.change_in_words(metric)}"
    is_range = mark.width and mark.width > 1
    return f"{sentence}, by one of {mark.width} commits up to this one" if is_range else sentence


def units_of(ratio: float, detectable: float) -> float:
    """The size of a difference as a multiple of the smallest that is detectable."""
    return abs(math.log(ratio)) / math.log1p(detectable) if ratio > 0 and detectable > 0 else math.inf


def gap_cell(placed: GridColumn, gap: Gap) -> Cell:
    mark = {"failed": "×", "waiting": "·", "running": "…", "cancelled": "–", "linked": "="}.get(gap.state, "")
    return Cell(gap.state, mark, f"{placed.short}: {gap.reason}".__str__)
