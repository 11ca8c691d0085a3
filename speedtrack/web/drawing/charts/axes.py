"""Axes of charts: their ends, and round values for their ticks. ``frontend/src/axis.ts`` follows the same rules."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from speedtrack.benchmarks import numbers

Ticks = list[tuple[float, str]]  # a value and its label

NARROWEST = 0.02  # half of an axis, as a share of its middle: noise does not look like a step
ABOVE, BELOW = 1.3, 1.1  # room around the values: above, that of the marks of changes
MOST_TICKS = 8  # about; a step may be twice as wide as wanted, so at least four
DAY, HOUR = 86400, 3600
HOURS = (1, 2, 3, 6, 12)
MONTHS = (1, 2, 3, 6, 12, 24, 60, 120)
DAYS = (1, 2, 4, 7, 14)


@dataclass(frozen=True)
class Axis:
    """``ticks``: round values with their labels."""

    low: float
    high: float
    logarithmic: bool
    ticks: Ticks

    def scale(self, begin: float, end: float) -> Callable[[float], float]:
        """A function from a value to pixels between ``begin`` and ``end``."""
        warp = math.log if self.logarithmic else float
        low, high = warp(self.low), warp(self.high)
        return lambda value: begin + (end - begin) * (warp(value) - low) / (high - low)


def value_axis(values: Sequence[float], scale: str, unit: str | None) -> Axis:
    """An axis for these values.

    ``scale``: fitted, zero or log. ``unit``: None for ratios, which are shown as changes.
    """
    positive = [value for value in values if value > 0]
    logarithmic = scale == "log" and bool(positive)
    low, high = value_range(positive if logarithmic else values, scale if logarithmic or scale == "zero" else "fitted")
    powers = log_ticks(low, high) if logarithmic else []
    if powers and unit is not None:  # of so different sizes that each needs its own unit and decimals
        return Axis(low, high, logarithmic, [(value, tick_label(unit, value, value, value)) for value in powers])
    at = powers or linear_ticks(low, high, MOST_TICKS)
    step = at[1] - at[0] if len(at) > 1 else high - low
    return Axis(low, high, logarithmic, [(value, tick_label(unit, value, high, step)) for value in at])


def value_range(values: Sequence[float], scale: str) -> tuple[float, float]:
    """The ends of an axis that holds all values."""
    if not values:
        return (1.0, 10.0) if scale == "log" else (0.0, 1.0)
    low, high = min(values), max(values)
    if scale == "log":
        middle = (math.log(low) + math.log(high)) / 2
        half = max((math.log(high) - math.log(low)) / 2, NARROWEST)
        return math.exp(middle - BELOW * half), math.exp(middle + ABOVE * half)
    middle = (low + high) / 2
    half = max((high - low) / 2, NARROWEST * abs(middle), 1e-300)
    top = middle + ABOVE * half
    return (min(0.0, low), max(top, 1e-300)) if scale == "zero" else (middle - BELOW * half, top)


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """Round numbers between two ends, about ``most`` of them."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((nice * power for nice in (1, 2, 2.5, 5, 10) if nice * power >= rough), 10 * power)
    return [step * i for i in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, 20 ... between two ends, or powers of ten; none if the axis is too short for them."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1,) if len(powers) > 5 else (1, 2, 5)
    candidates = [digit * 10.0**power for power in powers for digit in digits]
    inside = [value for value in candidates if low <= value <= high]
    return inside if len(inside) > 2 else []


def tick_label(unit: str | None, value: float, end: float, step: float) -> str:
    """The label of a value. The end of the axis determines the unit, the step the number of decimals."""
    if unit is None:
        return change_label(value, end, step)
    scale = numbers.unit_scale(unit, end)
    decimals = (d for d in range(4) if abs(step / scale.factor * 10**d - round(step / scale.factor * 10**d)) < 1e-6)
    return numbers.UnitScale(scale.factor, scale.unit, next(decimals, 4)).text(value)


def change_label(ratio: float, end: float, step: float) -> str:
    """A ratio as a change, with enough decimals to tell it from the next tick; as a factor if the axis is long."""
    if end >= numbers.FACTOR:
        return f"×{ratio:.6f}".rstrip("0").rstrip(".")
    decimals = max(0, min(4, -math.floor(math.log10(100 * step) + 1e-9)))
    label = f"{100 * (ratio - 1):+.{decimals}f}%".replace("-", numbers.MINUS)
    return label.lstrip(f"+{numbers.MINUS}") if not label.strip("+0.%" + numbers.MINUS) else label


def time_ticks(first: float, last: float, most: int) -> Ticks:
    """About ``most`` ticks of a time axis, in UTC: full hours, or the beginnings of days, months or years."""
    for hours in HOURS:
        if (last - first) / HOUR / hours <= most:
            return [(at, hour_text(at)) for at in every(hours * HOUR, first, last)]
    days = (last - first) / DAY
    for step in DAYS:
        if days / step <= most:
            return [(at, day_text(at)) for at in every(step * DAY, first, last)]
    months = next((step for step in MONTHS if days / 30.4 / step <= most), 240)
    begin, end = month_number(first), month_number(last)
    starts = [
        datetime(n // 12, n % 12 + 1, 1, tzinfo=UTC) for n in range(-(-begin // months) * months, end + 1, months)
    ]
    pattern = "%Y" if months >= 12 else "%b %Y"
    return [(start.timestamp(), f"{start:{pattern}}") for start in starts if first <= start.timestamp() <= last]


def every(step: int, first: float, last: float) -> Iterator[int]:
    return (n * step for n in range(math.ceil(first / step), math.floor(last / step) + 1))


def day_text(moment: float) -> str:
    return f"{datetime.fromtimestamp(moment, UTC):%-d %b %y}"


def hour_text(moment: float) -> str:
    """The label of an hour; at midnight, the day."""
    return f"{datetime.fromtimestamp(moment, UTC):%H:%M}" if moment % DAY else day_text(moment)


def month_number(moment: float) -> int:
    """Months since the year 0."""
    date = datetime.fromtimestamp(moment, UTC)
    return date.year * 12 + date.month - 1
