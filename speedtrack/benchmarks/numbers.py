"""Format numbers for people: 5.12 µs rather than 5123 ns. frontend/src/units.ts does the same for the charts."""

import math
from typing import NamedTuple

from speedtrack.benchmarks.metrics import Metric, is_outside

MINUS = "−"
SCALES: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1, "ns"), (1e3, "µs"), (1e6, "ms"), (1e9, "s")),
    "µs": ((1, "µs"), (1e3, "ms"), (1e6, "s")),
    "s": ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1, "s")),
    "requests/s": ((1, "/s"), (1e3, "k/s"), (1e6, "M/s"), (1e9, "G/s")),
    "bytes": ((1, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")),
}
SPEEDS = ("ns", "µs", "us", "ms", "s", "requests/s")  #: units that are certainly about speed, for metrics from outside
# Words for a worse and a better value of a metric, if they are not "slower" and "faster".
EFFECTS: dict[str, tuple[str, str]] = {
    "instructions_per_request": ("more instructions", "fewer instructions"),
    "callgrind_instructions_per_request": ("more instructions", "fewer instructions"),
    "counted_instructions_per_request": ("more instructions", "fewer instructions"),
    "cycles_per_request": ("more cycles", "fewer cycles"),
    "context_switches_per_request": ("more context switches", "fewer context switches"),
    "bytes_per_key": ("more memory", "less memory"),
    "peak_rss_bytes": ("more memory", "less memory"),
    "build_seconds": ("slower build", "faster build"),
    "binary_bytes": ("larger binary", "smaller binary"),
}
SMALL, MOST_DECIMALS = 0.0995, 15  # below SMALL a number has more than two decimals
FACTOR = 10  # ratios from here on are shown as factors: ×10
SMALLEST_RATIO, LARGEST_FACTOR = 0.001, 10_000  # beyond them the size does not matter: "under", "over"
UNKNOWN = "not known"
DAY = 86400
SPANS = ((365 * DAY, "year"), (30 * DAY, "month"), (DAY, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


class UnitScale(NamedTuple):
    """A unit for numbers of one size: divide by ``factor`` and show ``decimals``."""

    factor: float
    unit: str
    decimals: int

    def number(self, value: float) -> str:
        return f"{value / self.factor:.{self.decimals}f}".replace("-", MINUS)

    def text(self, value: float) -> str:
        return f"{self.number(value)} {self.unit}".rstrip()


def unit_scale(unit: str, size: float) -> UnitScale:
    """The scale that shows a number of this size with three digits."""
    steps, magnitude = SCALES.get(unit, ((1, unit),)), abs(size)
    factor, name = steps[0]
    for step, step_name in steps:
        if magnitude >= step * 0.9995 or (size == 0 and step == 1):
            factor, name = step, step_name
    return UnitScale(factor, name, decimals_of(magnitude / factor, factor == 1))


def decimals_of(number: float, is_unscaled: bool) -> int:
    """The number of decimals for three significant digits without superfluous zeros."""
    if number >= 99.95 or (number == int(number) and is_unscaled):
        return 0
    if number >= SMALL or number == 0:
        return 1 if number >= 9.995 else 2
    return min(MOST_DECIMALS, 2 - math.floor(math.log10(number)))


def signed(value: float) -> str:
    """A difference with its sign and one decimal: +61.3."""
    return f"{value:+.1f}".replace("-", MINUS)


def quantity(metric: Metric, value: float) -> str:
    return unit_scale(metric.unit, value).text(value)


def margin(metric: Metric, value: float, low: float, high: float) -> str:
    """Half the interval in the unit of the value, with one more digit than the value if it would round to zero."""
    scale = unit_scale(metric.unit, value)
    half = (high - low) / 2
    rounds_to_zero = half and round(half / scale.factor, scale.decimals) == 0
    return f"±{UnitScale(scale.factor, '', scale.decimals + bool(rounds_to_zero)).number(half).rstrip()}"


def interval(metric: Metric, low: float, high: float) -> str:
    """Both ends in the unit of the higher one, with one more digit if they would look equal."""
    scale = unit_scale(metric.unit, high)
    if low != high and scale.number(low) == scale.number(high):
        scale = UnitScale(scale.factor, scale.unit, scale.decimals + 1)
    return f"{scale.number(low)} to {scale.text(high)}"


def change(ratio: float) -> str:
    """A ratio as a signed percentage; from a factor of ten on as a factor.

    Metrics with values of zero or below can have large ratios: these are differences as a share of the usual value.
    """
    return as_factor(ratio) if ratio >= FACTOR else as_percentage(ratio)


def change_from(metric: Metric, ratio: float, from_zero: float | None) -> str:
    """A ratio as ``change`` shows it, or ``0 to 3`` with the unit where the old level is 0: it has no ratio.

    ``from_zero``: the new level, if the old one is 0.
    """
    return f"0 to {quantity(metric, from_zero)}" if from_zero else change(ratio)


def change_interval(ratio: float, low: float, high: float) -> str:
    """Both ends of the interval of a ratio, in the notation in which ``change`` shows the ratio."""
    notation = as_factor if ratio >= FACTOR else as_percentage
    return f"{notation(low)} to {notation(high)}"


def interval_from(ratio: float, low: float, high: float, from_zero: float | None) -> str:
    """The interval of a ratio in the notation of ``change_from``; empty where the old level is 0."""
    return "" if from_zero else change_interval(ratio, low, high)


def as_factor(ratio: float) -> str:
    if not math.isfinite(ratio):
        return UNKNOWN
    if ratio >= LARGEST_FACTOR:
        return f"over ×{LARGEST_FACTOR}"
    decimals = 2 if abs(ratio) < 9.995 else 1 if abs(ratio) < 99.95 else 0
    return f"×{ratio:.{decimals}f}".replace("-", MINUS)


def as_percentage(ratio: float) -> str:
    if not math.isfinite(ratio):
        return UNKNOWN
    if ratio >= LARGEST_FACTOR:
        return as_factor(ratio)
    if 0 < ratio < SMALLEST_RATIO:
        return f"under {MINUS}99.9%"
    percent = 100 * (ratio - 1)
    decimals = 2 if abs(percent) < 0.95 else 1 if abs(percent) < 99.95 else 0
    return f"{percent:+.{decimals}f}%".replace("-", MINUS)


def size(ratio: float, low: float, high: float) -> str:
    """A ratio with its interval, such as ``+5.2% (+4.7% to +5.7%)``."""
    return f"{change(ratio)} ({change_interval(ratio, low, high)})"


def change_seen(smallest: float) -> str:
    """The smallest change that can be seen, a share, in two digits, never below 0.1%."""
    percent = max(0.1, 100 * smallest)
    return f"{percent:.2g}%" if percent < 99.5 else f"{percent:.0f}%"


def duration(seconds: float) -> str:
    """A time span in the two largest fitting units."""
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    rounded = round(seconds)
    if rounded < 60:
        return f"{rounded} s"
    if rounded < 3600:
        return f"{rounded // 60} min {rounded % 60} s" if rounded < 600 else f"{rounded // 60} min"
    if rounded < 86400:
        return f"{rounded // 3600} h {rounded % 3600 // 60} min"
    return f"{rounded // 86400} d {rounded % 86400 // 3600} h"


def about(seconds: float) -> str:
    """A duration in one unit, rounded for an estimate."""
    if seconds < 90:
        return f"{max(10, 10 * round(seconds / 10))} s"
    if seconds < 1.5 * 3600:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3600)} h" if seconds < 2 * 86400 else f"{round(seconds / 86400)} d"


def ago(seconds: float) -> str:
    """The time since then in one unit, such as ``3 hours ago``; a negative number is in the future.

    Future times of 1 to 24 hours include the minutes, else all runs of a long queue would start "in 1 hour".
    """
    size = abs(seconds)
    if size < 10:
        return "just now" if seconds >= 0 else "now"
    if -DAY < seconds <= -3600:
        return f"in {int(size // 3600)} h {int(size % 3600 // 60)} min"
    unit, name = next((unit, name) for unit, name in SPANS if size >= unit)
    count = int(size // unit)
    span = f"{count} {name}{'' if count == 1 else 's'}"
    return f"{span} ago" if seconds >= 0 else f"in {span}"


def effect(metric: Metric, worse: bool) -> str:
    """The words for a worse or better value of a metric."""
    usual = ("worse", "better") if is_outside(metric.name) and metric.unit not in SPEEDS else ("slower", "faster")
    return EFFECTS.get(metric.name, usual)[0 if worse else 1]
