"""The scale for judging changes: logarithms if every value is positive, otherwise relative differences."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

EXPONENT = 700.0  # ratios saturate at e^700 instead of overflowing


@dataclass(frozen=True)
class Scale:
    """Maps values to a line where a shift of ``delta`` means ``ratio(delta)``. ``arrays.place_all`` maps many at once.

    ``unit`` is None for logarithms. Metrics with values of zero or below are divided by ``unit`` instead, so that
    their "ratio" is 1 + difference / unit: 1.0 is no change and 1.05 five hundredths of the usual size upwards.
    """

    unit: float | None = None

    @classmethod
    def of(cls, values: Iterable[float], *, linear: bool = False) -> Scale:
        """The common scale of these values; the unit is the median size of those that are not 0.

        So a metric that was always 0 until now has moved by one unit, however long it was 0. ``linear``: linear
        even if all values are positive.
        """
        numbers = list(values)
        if not all(map(math.isfinite, numbers)):
            raise ValueError("a sample is not a finite number: leave out what was not measured")
        if not linear and min(numbers, default=1) > 0:
            return cls()
        sizes = [abs(value) for value in numbers if value]
        return cls(float(median(sizes)) if sizes else 1.0)

    def place(self, value: float) -> float:
        return math.log(value) if self.unit is None else value / self.unit

    def value(self, position: float) -> float:
        """The value at a place on this scale."""
        return self.ratio(position) if self.unit is None else position * self.unit

    def ratio(self, delta: float) -> float:
        return math.exp(max(-EXPONENT, min(EXPONENT, delta))) if self.unit is None else 1.0 + delta

    def effect(self, relative: float) -> float:
        """The distance on this scale of a relative change such as 0.02; the same upwards and downwards."""
        return math.log1p(relative) if self.unit is None else relative
