"""Strips of dots as shapes for SVG: the changes of an alert, the two sides of its pairs, the trials of a run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Direction, Metric

CHANGE_WIDTH, CHANGE_HEIGHT, CHANGE_MARGIN = 168.0, 22.0, 7.0
FINE, FAR = 0.02, math.log(10)  # changes below FINE are spread evenly, those above ever less; FAR is the edge


@dataclass(frozen=True)
class ChangeDot:
    x: float
    worse: bool


@dataclass(frozen=True)
class ChangeStrip:
    """The changes of an alert on one axis, worse to the right, with the interval of the worst one."""

    dots: list[ChangeDot]
    low: float
    high: float
    width: float = CHANGE_WIDTH
    height: float = CHANGE_HEIGHT
    middle: float = CHANGE_WIDTH / 2

    @classmethod
    def of(cls, changes: Sequence[tuple[Metric, float, float, float]]) -> "ChangeStrip":
        """``changes``: each with its ratio and the ends of its interval, the worst first."""
        metric, _, low, high = changes[0]
        ends = sorted((change_place(metric, low), change_place(metric, high)))
        dots = [ChangeDot(change_place(metric, ratio), worsening(metric, ratio) > 0) for metric, ratio, *_ in changes]
        return cls(dots, *ends)


def worsening(metric: Metric, ratio: float) -> float:
    """How much worse, as a logarithm; below zero: better.

    A ratio without a logarithm gets the edge of the strip.
    """
    if not ratio > 0:
        return -FAR
    logarithm = math.log(ratio)
    return logarithm if metric.better == Direction.LOWER else -logarithm


def change_place(metric: Metric, ratio: float) -> float:
    shift = max(-FAR, min(FAR, worsening(metric, ratio)))
    reach = CHANGE_WIDTH / 2 - CHANGE_MARGIN
    return round(CHANGE_WIDTH / 2 + reach * math.asinh(shift / FINE) / math.asinh(FAR / FINE), 1)


SIDE_WIDTH, SIDE_LEFT, SIDE_RIGHT = 480.0, 56.0, 14.0
ROW_HEIGHT, SPREAD = 62.0, 16.0  # of one side; how far its dots lie above and below its middle


@dataclass(frozen=True)
class StripDot:
    x: float
    y: float
    title: str

    @property
    def left(self) -> float:
        """The left edge of a square mark."""
        return round(self.x - 3.5, 1)

    @property
    def top(self) -> float:
        return round(self.y - 3.5, 1)


@dataclass(frozen=True)
class SideStrips:
    """The samples of both sides of pairs on one axis, a strip for each, with their medians."""

    before: list[StripDot]
    after: list[StripDot]
    middle_before: float
    middle_after: float
    median_before: str
    median_after: str
    ticks: list[tuple[float, str]]
    width: float = SIDE_WIDTH
    height: float = 2 * ROW_HEIGHT + 20
    row: float = ROW_HEIGHT

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], metric: Metric) -> "SideStrips":
        low, high = min(min(pair) for pair in pairs), max(max(pair) for pair in pairs)
        span = (high - low) or abs(high) or 1.0

        def x(value: float) -> float:
            return round(SIDE_LEFT + (value - low) / span * (SIDE_WIDTH - SIDE_LEFT - SIDE_RIGHT), 1)

        def dots(side: int) -> list[StripDot]:
            middle = (side + 0.5) * ROW_HEIGHT
            return [
                StripDot(x(pair[side]), middle + spread(i), f"pair {i + 1}: {numbers.quantity(metric, pair[side])}")
                for i, pair in enumerate(pairs)
            ]

        before, after = (median(pair[side] for pair in pairs) for side in (0, 1))
        ends = [(x(low), numbers.quantity(metric, low)), (x(high), numbers.quantity(metric, high))]
        return cls(
            dots(0),
            dots(1),
            x(before),
            x(after),
            numbers.quantity(metric, before),
            numbers.quantity(metric, after),
            ends if high > low else ends[:1],
        )


def spread(position: int) -> float:
    """A fixed, even offset by place in the order, so that dots of equal values lie beside each other."""
    return round(SPREAD * (((position * 0.618034) % 1.0) * 2 - 1), 1)


TRIAL_WIDTH, TRIAL_HEIGHT, TRIAL_MARGIN = 460.0, 34.0, 6.0


class TrialMark(NamedTuple):
    """One trial: its place in the order of the run, and its value. ``flags``: why the value is not reliable."""

    order: int
    value: float | None
    flags: list[str]


class TrialDot(NamedTuple):
    x: float
    y: float
    title: str
    flagged: bool


@dataclass(frozen=True)
class TrialStrip:
    """The trials of one benchmark and side in the order in which the run measured them; y is the value."""

    dots: list[TrialDot]
    middle: float | None
    width: float = TRIAL_WIDTH
    height: float = TRIAL_HEIGHT

    @classmethod
    def of(cls, marks: Sequence[TrialMark], metric: Metric, first: int, last: int) -> "TrialStrip":
        """``first`` and ``last``: the orders at the ends of the axis, which the strips of a run share."""
        values = [mark.value for mark in marks if mark.value is not None]
        low, high = (min(values), max(values)) if values else (0.0, 0.0)
        centre = (high + low) / 2
        half = max((high - low) / 2, 0.01 * abs(centre)) or 1.0  # noise below 1% is not stretched

        def y(value: float | None) -> float:
            share = 0.0 if value is None else (value - centre) / half
            return round(TRIAL_HEIGHT / 2 - share * (TRIAL_HEIGHT / 2 - TRIAL_MARGIN), 1)

        dots = [
            TrialDot(order_place(mark.order, first, last), y(mark.value), trial_title(mark, metric), bool(mark.flags))
            for mark in marks
        ]
        return cls(dots, y(median(values)) if values else None)


def order_place(order: int, first: int, last: int) -> float:
    share = (order - first) / (last - first) if last > first else 0.5
    return round(TRIAL_MARGIN + share * (TRIAL_WIDTH - 2 * TRIAL_MARGIN), 1)


def trial_title(mark: TrialMark, metric: Metric) -> str:
    value = "no value" if mark.value is None else numbers.quantity(metric, mark.value)
    flags = f", {', '.join(mark.flags)}" if mark.flags else ""
    return f"{mark.order + 1}. of the run: {value}{flags}"
