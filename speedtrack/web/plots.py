"""Small plots drawn by the server as SVG shapes; the templates place them with attributes, never with styles."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric

FOREST_WIDTH = 200.0
PAIRS_WIDTH, PAIRS_HEIGHT, PAIRS_MARGIN = 640.0, 150.0, 10.0
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True)
class Whisker:
    """One estimate with its interval, in pixels from the left."""

    low: float
    middle: float
    high: float


@dataclass(frozen=True)
class Forest:
    """Ratios side by side on one logarithmic axis that holds "no change"."""

    ticks: list[Tick]
    one: float
    rows: list[Whisker]
    width: float = FOREST_WIDTH

    @classmethod
    def of(cls, ratios: Sequence[tuple[float, float, float]]) -> "Forest":
        known = [math.log(v) for row in ratios for v in row if v > 0]
        low, high = min([0.0, *known]), max([0.0, *known])
        pad = 0.08 * (high - low) or 0.01
        low, high = low - pad, high + pad

        def x(ratio: float) -> float:
            place = (math.log(ratio) - low) / (high - low) if ratio > 0 else 0.0
            return round(6 + place * (FOREST_WIDTH - 12), 1)

        step = next((s for s in STEPS if (math.exp(high) - math.exp(low)) / s <= 4.5), 10.0)
        first, last = math.ceil((math.exp(low) - 1) / step), math.floor((math.exp(high) - 1) / step)
        ticks = [Tick(x(1 + i * step), tick_label(i * step)) for i in range(first, last + 1)]
        return cls(ticks, x(1), [Whisker(x(lo), x(mid), x(hi)) for mid, lo, hi in ratios])


def tick_label(change: float) -> str:
    percent = 100 * change
    return "0" if abs(percent) < 1e-9 else f"{percent:+.3g}%".replace("-", numbers.MINUS)


@dataclass(frozen=True)
class PairShape:
    """The dots of one pair: x, the heights of before and after, and what they stand for."""

    x: float
    before: float
    after: float
    title: str

    @property
    def left(self) -> float:
        """The left edge of the square that stands for after."""
        return self.x - 3.5

    @property
    def top(self) -> float:
        return self.after - 3.5


@dataclass(frozen=True)
class Pairs:
    """All pairs side by side: a line from what the one commit showed to what the other did."""

    shapes: list[PairShape]
    top: str
    bottom: str
    width: float = PAIRS_WIDTH
    height: float = PAIRS_HEIGHT

    @classmethod
    def of(cls, pairs: Sequence[tuple[float, float]], metric: Metric) -> "Pairs":
        values = [v for pair in pairs for v in pair]
        low, high = min(values), max(values)
        span = (high - low) or abs(high) or 1.0

        def y(value: float) -> float:
            return round(PAIRS_HEIGHT - PAIRS_MARGIN - (value - low) / span * (PAIRS_HEIGHT - 2 * PAIRS_MARGIN), 1)

        step = (PAIRS_WIDTH - 90) / len(pairs)
        shapes = [
            PairShape(round(80 + (i + 0.5) * step, 1), y(a), y(b),
                      f"pair {i + 1}: {numbers.quantity(metric, a)} before, {numbers.quantity(metric, b)} after")
            for i, (a, b) in enumerate(pairs)
        ]  # fmt: skip
        return cls(shapes, numbers.quantity(metric, high), numbers.quantity(metric, low))
