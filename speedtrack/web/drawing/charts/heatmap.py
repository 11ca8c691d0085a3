"""A heat map of latencies: commits across, latencies upwards, the share of requests as shade."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from speedtrack.benchmarks import numbers
from speedtrack.stats.histogram import Histogram
from speedtrack.web.drawing.charts.curves import LATENCY
from speedtrack.web.drawing.charts.linecharts import TRAILING_ZEROS, AxisTick, Scale, log_steps, spaced_ticks, stroke

WIDTH, HEIGHT = 960.0, 380.0
LEFT, RIGHT, TOP, BOTTOM = 74.0, 14.0, 12.0, 34.0
WIDEST = 26.0  # of a column
PER_DECADE, FIRST, DECADES = 24, -1, 9  # cells from 0.1 µs to 100 s
SHADES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)  # the smallest share of the requests that a cell of each shade has
LINES = {"50%": 0.5, "99%": 0.99, "99.9%": 0.999}
SPACE_X, SPACE_Y = 84.0, 24.0
HALF_LABEL = 32.0


@dataclass(frozen=True)
class LatencyShape:
    """The latencies of a commit: the shade of each cell, 0 for none, and the percentiles of LINES in µs."""

    shades: bytes
    percentiles: tuple[float, ...]

    @classmethod
    def of(cls, together: Histogram) -> "LatencyShape":
        cells = np.clip(PER_DECADE * (np.log10(together.values / 1000) - FIRST), 0, PER_DECADE * DECADES - 1)
        shares = np.bincount(cells.astype(int), together.counts, PER_DECADE * DECADES) / together.total
        percentiles = together.quantiles(list(LINES.values())) / 1000
        return cls(np.searchsorted(SHADES, shares, side="right").astype(np.uint8).tobytes(), tuple(percentiles))


@dataclass(frozen=True)
class HeatColumn:
    """The column of a commit, and where it is drawn. ``key``: its name in addresses."""

    x: float
    width: float
    key: str
    title: str
    chosen: bool

    @property
    def middle(self) -> float:
        return round(self.x + self.width / 2, 1)


@dataclass(frozen=True)
class HeatMap:
    """``shades``: the cells of each shade as a path, the palest first; ``lines``: the percentiles, by name; ``breaks``:
    where a new environment begins, and what changed there."""

    shades: list[str]
    lines: list[tuple[str, str]]
    columns: list[HeatColumn]
    x_ticks: list[AxisTick]
    y_ticks: list[AxisTick]
    breaks: list[tuple[float, str]]
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM
    tall: float = HEIGHT - BOTTOM - TOP


@dataclass(frozen=True)
class NamedShape:
    """The shape of a commit with its name.

    ``new``: what changed besides the code since the commit before; empty if nothing did.
    """

    key: str
    label: str
    title: str
    shape: LatencyShape
    chosen: bool = False
    new: str = ""


def draw_heatmap(commits: Sequence[NamedShape]) -> HeatMap | None:
    """A column for each commit, from left to right. None without any."""
    if not commits:
        return None
    grid = np.array([np.frombuffer(commit.shape.shades, np.uint8) for commit in commits])
    cells = np.flatnonzero(grid.any(axis=0))
    first, last = max(int(cells[0]) - 1, 0), min(int(cells[-1]) + 2, grid.shape[1])
    step = min((WIDTH - RIGHT - LEFT) / len(commits), WIDEST)

    def y(cell: float) -> float:
        return float(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (cell - first) / (last - first))

    columns = [
        HeatColumn(round(LEFT + i * step, 1), round(step, 1), commit.key, commit.title, commit.chosen)
        for i, commit in enumerate(commits)
    ]
    paths = [""] * (len(SHADES) + 1)
    for column, shades in zip(columns, grid.tolist(), strict=True):
        for shade, begin, end in runs_of(shades):
            top = y(end)
            paths[shade] += f"M{column.x:g} {top:.1f}h{step:.1f}v{y(begin) - top:.1f}h-{step:.1f}z"
    return HeatMap(
        shades=paths[1:],
        lines=[(name, percentile_line(commits, columns, i, y)) for i, name in enumerate(LINES)],
        columns=columns,
        x_ticks=spaced_ticks(
            [tick_of(column, commit) for column, commit in zip(columns, commits, strict=True)][::-1], SPACE_X
        ),
        y_ticks=latency_ticks(first, last, y),
        breaks=[(column.x, commit.new) for column, commit in zip(columns, commits, strict=True) if commit.new],
    )


def tick_of(column: HeatColumn, commit: NamedShape) -> AxisTick:
    return AxisTick(min(column.middle, WIDTH - HALF_LABEL), commit.label)


def runs_of(shades: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """(shade, first cell, cell after the last) of each run of neighbouring cells with one shade."""
    begin = 0
    for shade, cells in groupby(shades):
        end = begin + sum(1 for _ in cells)
        if shade:
            yield shade, begin, end
        begin = end


def percentile_line(commits: Sequence[NamedShape], columns: Sequence[HeatColumn], which: int, y: Scale) -> str:
    """The line of one percentile, which ends where a new environment begins."""
    stretches: list[list[tuple[HeatColumn, float]]] = []
    for column, commit in zip(columns, commits, strict=True):
        if commit.new or not stretches:
            stretches.append([])
        stretches[-1].append((column, y(cell_of(commit.shape.percentiles[which]))))
    return "".join(map(stretch_path, stretches))


def stretch_path(stretch: Sequence[tuple[HeatColumn, float]]) -> str:
    corners = [(column.middle, at) for column, at in stretch]
    if len(corners) == 1:
        ((column, at),) = stretch
        corners = [(column.x, at), (column.x + column.width, at)]
    return stroke(corners)


def cell_of(latency_us: float) -> float:
    return PER_DECADE * (float(math.log10(latency_us)) - FIRST)


def latency_ticks(first: int, last: int, y: Scale) -> list[AxisTick]:
    low, high = (10 ** (cell / PER_DECADE + FIRST) for cell in (first, last))
    steps = [step for step in log_steps(low, high) if low <= step <= high]
    labels = [TRAILING_ZEROS.sub("", numbers.quantity(LATENCY, step)) for step in steps]
    ticks = [AxisTick(round(y(cell_of(step)), 1), label) for step, label in zip(steps, labels, strict=True)]
    return spaced_ticks(ticks, SPACE_Y)
