"""Numbers in numpy arrays. Code without arrays imports neither this module nor numpy, so that idle processes need not
load it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from speedtrack.stats.scale import Scale

Array = NDArray[np.float64]


def place_all(scale: Scale, values: Iterable[float]) -> Array:
    """The position of each value on a scale."""
    numbers = values if isinstance(values, np.ndarray) else np.fromiter(values, dtype=np.float64)
    return np.log(numbers) if scale.unit is None else numbers / scale.unit


def scale_of(values: Array) -> Scale:
    """The answer of `Scale.of`, without a loop over positive values."""
    return Scale() if len(values) and (np.isfinite(values) & (values > 0)).all() else Scale.of(values.tolist())


def steps_of(scale: Scale, pairs: Sequence[tuple[float, float]]) -> Array:
    """The step of each (base, head) pair on a scale."""
    return place_all(scale, [head for _, head in pairs]) - place_all(scale, [base for base, _ in pairs])
