"""Charts of lines with bands, over numbers or names, as shapes of SVG. The templates place them by attributes."""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple, Protocol

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric

WIDTH, HEIGHT = 960.0, 380.0
LEFT, RIGHT, TOP, BOTTOM = 74.0, 18.0, 14.0, 44.0
MOST_LINES = 8  # four colours, each solid and dashed
LOGARITHMIC_FROM = 8.0  # ratio of the ends of an axis from which its scale is logarithmic
SPACE_X, SPACE_Y = 52.0, 24.0  # between the labels of ticks
ON_PHONES = 2.4  # times as much space there
LONGEST_LABEL = 12

TRAILING_ZEROS = re.compile(r"\.0+(?!\d)")

Scale = Callable[[float], float]


class LineValue(NamedTuple):
    """A value with its interval at a place of the axis. ``title``: the same in words; ``doubtful``: drawn hollow."""

    place: float
    value: float
    low: float
    high: float
    title: str
    doubtful: bool = False


class Summarized(Protocol):
    """The columns of a measurement that a chart shows."""

    @property
    def value(self) -> float: ...
    @property
    def low(self) -> float: ...
    @property
    def high(self) -> float: ...
    @property
    def flags(self) -> list[str]: ...


#: The name of a line and its values from left to right; None is a gap: not measured.
NamedLine = tuple[str, Sequence[LineValue | None]]


class Dot(NamedTuple):
    x: float
    y: float
    title: str
    doubtful: bool


@dataclass(frozen=True)
class DrawnLine:
    """``number`` counts from 1; ``path`` and ``band``: the line and the area of its intervals, each with gaps."""

    number: int
    name: str
    path: str
    band: str
    dots: list[Dot]

    @property
    def look(self) -> str:
        """The CSS classes of its colour and stroke."""
        return f"line-{(self.number - 1) % 4 + 1}" + (" dashed" if self.number > 4 else "")


@dataclass(frozen=True)
class AxisTick:
    """``spare``: it is left out on phones, where the letters are larger."""

    at: float
    label: str
    spare: bool = False


@dataclass(frozen=True)
class LineChart:
    """``missing``: places where nothing can be drawn, with the reasons."""

    lines: list[DrawnLine]
    x_ticks: list[AxisTick]
    y_ticks: list[AxisTick]
    missing: list[Dot]
    x_title: str
    y_title: str
    width: float = WIDTH
    height: float = HEIGHT
    left: float = LEFT
    right: float = WIDTH - RIGHT
    top: float = TOP
    bottom: float = HEIGHT - BOTTOM
    middle: float = (WIDTH + LEFT - RIGHT) / 2


def measured_value(metric: Metric, name: str, position: float, summary: Summarized) -> LineValue:
    """A measurement as a point of a line. ``name``: of what, for its title."""
    title = f"{name}: {numbers.quantity(metric, summary.value)} ({numbers.interval(metric, summary.low, summary.high)})"
    if summary.flags:
        title += f"; unreliable: {', '.join(summary.flags)}"
    return LineValue(position, summary.value, summary.low, summary.high, title, bool(summary.flags))


def chart_over_numbers(
    lines: Sequence[NamedLine], metric: Metric, axis_title: str, y_scale: str = ""
) -> LineChart | None:
    """Lines over an axis of numbers. ``y_scale``: log, linear, or empty for what suits. None without values."""
    positions = sorted({point.place for _, points in lines for point in points if point})
    if not positions:
        return None
    x, _ = scale_of(positions, (LEFT + 8, WIDTH - RIGHT - 8), "")
    ends_first = [positions[0], positions[-1], *positions[1:-1]]
    ticks = spaced_ticks([AxisTick(round(x(position), 1), axis_label(position)) for position in ends_first], SPACE_X)
    return line_chart(lines, metric, (x, ticks, axis_title), y_scale)


def chart_over_names(
    lines: Sequence[NamedLine],
    metric: Metric,
    names: Sequence[str],
    missing: Sequence[tuple[int, str]],
) -> LineChart | None:
    """Lines over names, whose numbers from 0 are the places. ``missing``: places without values, and why."""
    if not any(point for _, points in lines for point in points):
        return None
    first, last = LEFT + 24, WIDTH - RIGHT - 24

    def x(position: float) -> float:
        return first + (last - first) * position / max(len(names) - 1, 1)

    ticks = spaced_ticks([AxisTick(round(x(i), 1), shortened(name)) for i, name in enumerate(names)], SPACE_X)
    crosses = [Dot(round(x(at), 1), HEIGHT - BOTTOM, why, True) for at, why in missing]
    return line_chart(lines, metric, (x, ticks, ""), "", crosses)


def line_chart(
    lines: Sequence[NamedLine],
    metric: Metric,
    axis: tuple[Scale, list[AxisTick], str],
    y_scale: str,
    missing: Sequence[Dot] = (),
    height: float = HEIGHT,
) -> LineChart:
    x, x_ticks, x_title = axis
    points = [point for _, points in lines for point in points if point]
    y, steps = scale_of([end for p in points for end in (p.low, p.value, p.high)], (height - BOTTOM, TOP), y_scale)
    labels = [TRAILING_ZEROS.sub("", numbers.quantity(metric, step)) for step in steps]
    y_ticks = [AxisTick(round(y(step), 1), label) for step, label in zip(steps, labels, strict=True)]
    shapes = [draw_line(i, name, points, x, y) for i, (name, points) in enumerate(lines[:MOST_LINES], start=1)]
    title = f"{metric.title}, {metric.better} is better"
    return LineChart(
        shapes,
        x_ticks,
        spaced_ticks(y_ticks, SPACE_Y),
        list(missing),
        x_title,
        title,
        height=height,
        bottom=height - BOTTOM,
    )


def draw_line(number: int, name: str, points: Sequence[LineValue | None], x: Scale, y: Scale) -> DrawnLine:
    path, band, dots = "", "", []
    for is_measured, segment in groupby(points, key=bool):
        if is_measured:
            measured = [p for p in segment if p]
            across = [x(p.place) for p in measured]
            middle = [(at, y(p.value)) for at, p in zip(across, measured, strict=True)]
            upper = [(at, y(p.high)) for at, p in zip(across, measured, strict=True)]
            lower = [(at, y(p.low)) for at, p in zip(across, measured, strict=True)]
            path += stroke(middle)
            band += stroke(upper + lower[::-1]) + "Z"
            dots += [
                Dot(round(at, 1), round(up, 1), p.title, p.doubtful)
                for (at, up), p in zip(middle, measured, strict=True)
            ]
    return DrawnLine(number, name, path, band, dots)


def stroke(corners: Sequence[tuple[float, float]]) -> str:
    """A path through these points."""
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)


def scale_of(values: Sequence[float], ends: tuple[float, float], kind: str) -> tuple[Scale, list[float]]:
    """A function from values to pixels, and round values for ticks.

    It is logarithmic if the values are far apart, otherwise linear from 0.
    """
    low, high = min(values), max(values)
    far = low > 0 and high / low >= LOGARITHMIC_FROM
    logarithmic = low > 0 and (kind == "log" or (kind != "linear" and far))
    if not logarithmic:
        low = min(low, 0.0)
    if high == low:
        high = low + (abs(low) or 1.0)
    warp = math.log if logarithmic else float
    first, last = warp(low), warp(high)

    def scale(value: float) -> float:
        return ends[0] + (ends[1] - ends[0]) * (warp(value) - first) / (last - first)

    return scale, log_steps(low, high) if logarithmic else linear_steps(low, high)


def log_steps(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20 ... between the ends; the powers of ten first, so that they are kept where labels are tight."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [digit * 10.0**power for digit in (1, 5, 2) for power in powers]
    inside = [step for step in steps if low * 0.999 <= step <= high * 1.001]
    return inside if len(inside) > 1 else [low, high]


def linear_steps(low: float, high: float) -> list[float]:
    rough = (high - low) / 6
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= rough)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def spaced_ticks(ticks: Sequence[AxisTick], space: float) -> list[AxisTick]:
    """The ticks whose labels do not overlap. Of two that would, the earlier one is kept."""
    apart: list[AxisTick] = []
    for tick in ticks:
        if is_apart(tick, apart, space):
            apart.append(replace(tick, spare=not is_apart(tick, [t for t in apart if not t.spare], space * ON_PHONES)))
    return sorted(apart, key=lambda tick: tick.at)


def is_apart(tick: AxisTick, neighbours: Sequence[AxisTick], space: float) -> bool:
    return all(abs(tick.at - neighbour.at) >= space for neighbour in neighbours)


def shortened(name: str) -> str:
    return name if len(name) <= LONGEST_LABEL else f"{name[: LONGEST_LABEL - 1]}…"


def axis_label(value: float) -> str:
    """A place of an axis, exactly: 500, 20k, 1M, 16Ki."""
    for unit, suffix, least in ((10**6, "M", 10**6), (10**3, "k", 10**4), (2**20, "Mi", 2**20), (2**10, "Ki", 2**12)):
        if value >= least and value % unit == 0:
            return f"{value / unit:.0f}{suffix}"
    return f"{value:.0f}" if value == int(value) else str(value)
