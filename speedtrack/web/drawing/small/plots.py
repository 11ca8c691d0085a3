"""Small plots as shapes for SVG. The templates place them by attributes: inline styles are not allowed."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.benchmarks import numbers

LABEL_WIDTH = 38  # of "+100%" and some space
FOREST_WIDTH = 200.0
USUAL = 6.0  # times what nine of ten ratios need: what lies further off is cut
STEPS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Tick:
    x: float
    label: str


@dataclass(frozen=True)
class Whisker:
    """One estimate with its interval, in pixels from the left. ``beyond``: it lies so far off the axis, -1 or 1."""

    low: float
    middle: float
    high: float
    beyond: int = 0


@dataclass(frozen=True)
class Forest:
    """Ratios on one logarithmic axis that includes 1, "no change"."""

    ticks: list[Tick]
    one: float
    rows: list[Whisker]
    width: float = FOREST_WIDTH

    @classmethod
    def of(
        cls, ratios: Sequence[tuple[float, float, float]], clipped: bool = False, scale: Array | None = None
    ) -> "Forest":
        """``ratios``: each with the ends of its interval. ``clipped``: a few that lie far off do not set the scale.

        ``scale``: rows of all ratios that set it, if they are more than these.
        """
        low, high = ends_of(np.array(ratios, float).reshape(-1, 3) if scale is None else scale, clipped)

        def x(ratio: float) -> float:
            position = (math.log(ratio) - low) / (high - low) if ratio > 0 else 0.0
            return round(6 + max(0.0, min(1.0, position)) * (FOREST_WIDTH - 12), 1)

        def beyond(ratio: float) -> int:
            size = math.log(ratio) if ratio > 0 else -math.inf
            return (size > high) - (size < low)

        step = step_of(math.exp(high) - math.exp(low), 4.5)
        first, last = math.ceil((math.exp(low) - 1) / step), math.floor((math.exp(high) - 1) / step)
        label = factor_label if math.exp(high) >= numbers.FACTOR else tick_label
        ticks = [Tick(x(1 + i * step), label(i * step)) for i in range(first, last + 1)]
        rows = [Whisker(x(lo), x(mid), x(hi), beyond(mid)) for mid, lo, hi in ratios]
        return cls(spaced_ticks(ticks, x(1)), x(1), rows)


def ends_of(ratios: Array, clipped: bool) -> tuple[float, float]:
    """The ends of an axis for these ratios, as logarithms. ``ratios``: rows of (ratio, low, high)."""
    logarithms = np.log(ratios[ratios > 0])
    low, high = float(logarithms.min(initial=0.0)), float(logarithms.max(initial=0.0))
    if clipped and (far := usual_reach(ratios)):
        low, high = max(low, -far), min(high, far)
    pad = 0.08 * (high - low) or 0.01
    return low - pad, high + pad


def usual_reach(ratios: Array) -> float:
    """How far from 1, as a logarithm, an axis must reach for all ratios but the few that lie far off."""
    sizes = np.sort(np.abs(np.log(ratios[(ratios > 0).all(axis=1)])).max(axis=1))
    return USUAL * float(sizes[(len(sizes) - 1) * 9 // 10]) if len(sizes) else 0.0


def spaced_ticks(ticks: Sequence[Tick], origin: float) -> list[Tick]:
    """The ticks whose labels do not overlap, beginning at "no change".

    A logarithmic axis is dense at its upper end.
    """
    visible_ticks: list[Tick] = []
    for tick in sorted(ticks, key=lambda tick: abs(tick.x - origin)):
        if all(abs(tick.x - neighbour.x) >= LABEL_WIDTH for neighbour in visible_ticks):
            visible_ticks.append(tick)
    return sorted(visible_ticks, key=lambda tick: tick.x)


def step_of(span: float, most: float) -> float:
    """A round distance between ticks, such that at most ``most`` fit into the span."""
    return next((step for step in STEPS if span / step <= most), 10.0 ** math.ceil(math.log10(span / most)))


def tick_label(change: float) -> str:
    text = f"{100 * change:+.4f}".rstrip("0").rstrip(".")
    return "0" if text in ("+0", "-0") else f"{text}%".replace("-", numbers.MINUS)


def factor_label(change: float) -> str:
    """A label on an axis that reaches to factors of ten: all of its labels are factors."""
    return f"×{1 + change:.2f}".rstrip("0").rstrip(".")


CANARY_WIDTH, CANARY_HEIGHT = 960.0, 190.0
CANARY_AXIS, CANARY_TOP, CANARY_BOTTOM = 56.0, 22.0, 12.0
NARROWEST = 0.03  # the axis spans at least this much either way, so that noise does not look like a step


@dataclass(frozen=True)
class CanaryDot:
    """One check of the canary. ``ratio``: its value / the usual level; ``changed``: what had changed before it."""

    ratio: float | None
    limit: float | None
    answer: str
    title: str
    changed: str = ""
    x: float = 0.0
    y: float = 0.0

    @property
    def left(self) -> float:
        return round(self.x - 4, 1)

    @property
    def top(self) -> float:
        return round(self.y - 4, 1)


@dataclass(frozen=True)
class CanaryPlot:
    """Checks of a canary, oldest first, against the usual level; the newest limits as a band."""

    dots: list[CanaryDot]
    breaks: list[CanaryDot]
    ticks: list[tuple[float, str]]
    band: tuple[float, float] | None
    width: float = CANARY_WIDTH
    height: float = CANARY_HEIGHT
    right: float = CANARY_WIDTH - CANARY_AXIS

    @classmethod
    def of(cls, dots: Sequence[CanaryDot]) -> "CanaryPlot":
        limits = [dot.limit for dot in dots if dot.limit]
        far = max([NARROWEST, *(abs(dot.ratio - 1) for dot in dots if dot.ratio), *limits[-1:]]) * 1.1

        def y(change: float) -> float:
            room = CANARY_HEIGHT - CANARY_TOP - CANARY_BOTTOM
            return round(CANARY_TOP + room * (1 - change / far) / 2, 1)

        last = CANARY_WIDTH - CANARY_AXIS - 12
        step = (last - 12) / max(len(dots) - 1, 12)
        placed = [
            replace(dot, x=round(last - (len(dots) - 1 - i) * step, 1), y=y(dot.ratio - 1 if dot.ratio else -far))
            for i, dot in enumerate(dots)
        ]
        mesh = step_of(far, 2.5)
        ticks = [(y(i * mesh), tick_label(i * mesh)) for i in range(-int(far / mesh), int(far / mesh) + 1)]
        band = (y(limits[-1]), round(y(-limits[-1]) - y(limits[-1]), 1)) if limits else None
        breaks = [replace(dot, x=round(dot.x - step / 2, 1)) for dot in placed if dot.changed]
        return cls(placed, breaks, ticks, band)
