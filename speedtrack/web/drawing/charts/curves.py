"""Percentile curves of latencies: the percentiles across, stretched towards 100%, and the latencies upwards."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from speedtrack.benchmarks.metrics import Direction, Metric
from speedtrack.stats.histogram import Histogram
from speedtrack.web.drawing.charts.linecharts import (
    LEFT,
    RIGHT,
    WIDTH,
    AxisTick,
    LineChart,
    LineValue,
    NamedLine,
    Scale,
    line_chart,
)

LAST = 4.0  # nines of the last percentile, 99.99%
NINES = np.linspace(0.05, LAST, 80)
MARKED = {0.5: "50%", 0.9: "90%", 0.99: "99%", 0.999: "99.9%", 0.9999: "99.99%"}
FEWEST_BEYOND = 10  # requests that a percentile must leave above it, or it says little
DIFFERENCE_HEIGHT = 200.0
REACH, SMALLEST_REACH = 1.5, 5.0  # how far bands of differences go, times the largest difference in percent
NO_FLAGS: frozenset[str] = frozenset()
LATENCY = Metric("latency_us", "Latency", "µs", Direction.LOWER, 0.05, False, NO_FLAGS)
DIFFERENCE = Metric("latency_difference", "Difference of latency", "%", Direction.LOWER, 0.05, False, NO_FLAGS)


def share_of(nines: float) -> float:
    return 1.0 - math.pow(10.0, -nines)


def curve_chart(lines: Sequence[NamedLine]) -> LineChart:
    """The curves of ``curve_of``, on a logarithmic scale."""
    return without_dots(line_chart(lines, LATENCY, axis_of_percentiles(), "log"))


def difference_chart(base: Sequence[LineValue], head: Sequence[LineValue], name: str) -> LineChart | None:
    """Head / base at each percentile that both curves have, as a percentage."""
    below = {value.place: value for value in base}
    pairs = [(below[value.place], value) for value in head if value.place in below]
    if not pairs:
        return None
    values = within_reach([difference_of(old, new) for old, new in pairs])
    chart = line_chart([(name, values)], DIFFERENCE, axis_of_percentiles(), "linear", height=DIFFERENCE_HEIGHT)
    return without_dots(chart)


def without_dots(chart: LineChart) -> LineChart:
    """The curves without dots, since their values are not measured points."""
    return replace(chart, lines=[replace(line, dots=[]) for line in chart.lines])


def within_reach(values: Sequence[LineValue]) -> list[LineValue]:
    """The values, with bands cut where they would determine the scale: a tail of few requests varies by factors."""
    far = REACH * max(SMALLEST_REACH, *(abs(value.value) for value in values))
    return [value._replace(low=max(value.low, -far), high=min(value.high, far)) for value in values]


def difference_of(old: LineValue, new: LineValue) -> LineValue:
    ends = (new.value / old.value, new.low / old.high, new.high / old.low)
    middle, low, high = (100 * (ratio - 1) for ratio in ends)
    return LineValue(new.place, middle, low, high, "")


def curve_of(together: Histogram, trials: Sequence[Histogram]) -> list[LineValue]:
    """The latencies in µs of all trials together; the band spans the single trials."""
    levels = [nines for nines in NINES if together.total * 10.0**-nines >= FEWEST_BEYOND]
    if not levels:
        return []
    shares = [share_of(nines) for nines in levels]
    middle = together.quantiles(shares) / 1000
    each = np.array([histogram.quantiles(shares) for histogram in trials]) / 1000
    columns = zip(levels, middle, each.min(axis=0), each.max(axis=0), strict=True)
    return [LineValue(nines, value, min(low, value), max(high, value), "") for nines, value, low, high in columns]


def axis_of_percentiles() -> tuple[Scale, list[AxisTick], str]:
    """From the number of nines to pixels, with the marked percentiles."""

    def x(nines: float) -> float:
        return LEFT + 8 + (WIDTH - RIGHT - LEFT - 36) * nines / LAST

    ticks = [AxisTick(round(x(-math.log10(1 - share)), 1), label) for share, label in MARKED.items()]
    return x, ticks, "Share of requests that are at most so slow"
