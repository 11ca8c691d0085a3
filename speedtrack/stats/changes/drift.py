"""Has a level drifted away from a fixed reference? Compares two sets of points of one series that are far apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from speedtrack.stats.arrays import Array, place_all
from speedtrack.stats.scale import Scale
from speedtrack.stats.summary import MAD_TO_SIGMA

LEVEL = 8  # points that define a level
FEWEST = 5  # points of a level needed for an answer
CLEARLY = 4.0  # standard errors by which a drift must exceed the known steps
CLEARLY_FROM_BEST = 6.0  # the same if the reference is the best of many levels, which is better by chance
FRESH = 40  # points after a step within which detection should suspect the step itself
GROWN = 1.5  # times the drift of the last examination: then it is examined again
FURTHER = 0.05  # or this much more


@dataclass(frozen=True)
class Drift:
    """``ratio``: newest level / reference, without known steps; ``score``: the drift in units of its limit."""

    ratio: float
    low: float
    high: float
    score: float


def drift_since(
    reference: Sequence[float],
    newest: Sequence[float],
    *,
    smallest_effect: float,
    explained: float = 1.0,
    best: bool = False,
) -> Drift | None:
    """The drift, if the newest level is further from the reference than noise, smallest effect and known steps explain.

    ``reference``, ``newest``: values of measured commits in commit order, LEVEL of each. ``explained``: the product of
    the ratios of the known steps between them. The noise is measured between neighbouring commits, where a drift has
    hardly any effect. ``best``: the reference was chosen as the best of many levels. None: no drift, fewer than FEWEST
    points on a side, or positive values after a step to zero or below.
    """
    scale = Scale.of([*reference, *newest])
    if min(len(reference), len(newest)) < FEWEST or (scale.unit is None and explained <= 0):
        return None
    old, new = place_all(scale, reference), place_all(scale, newest)
    delta = _moved(old, new, scale, explained)
    error = neighbour_noise(old, new) * math.sqrt(math.pi / 2 * (1 / len(old) + 1 / len(new)))
    score = abs(delta) / max(scale.effect(smallest_effect), (CLEARLY_FROM_BEST if best else CLEARLY) * error, 1e-12)
    if score < 1:
        return None
    low, ratio, high = (scale.ratio(delta + side * 1.96 * error) for side in (-1, 0, 1))
    return Drift(ratio, low, high, score)


def shown_ratio(reference: Sequence[float], newest: Sequence[float], *, explained: float = 1.0) -> float:
    """The newest level / the reference, without known steps, even if it is uncertain."""
    scale = Scale.of([*reference, *newest])
    if scale.unit is None and explained <= 0:
        return 1.0
    return scale.ratio(_moved(place_all(scale, reference), place_all(scale, newest), scale, explained))


def _moved(old: Array, new: Array, scale: Scale, explained: float) -> float:
    step = math.log(explained) if scale.unit is None else explained - 1
    return float(np.median(new) - np.median(old)) - step


def neighbour_noise(*levels: Array) -> float:
    """Standard deviation of a point, from the differences between neighbours on the same level."""
    moves = np.concatenate([np.abs(np.diff(level)) for level in levels])
    usual = MAD_TO_SIGMA * float(np.median(moves)) / math.sqrt(2)
    return max(usual, math.sqrt(math.pi) / 2 * float(np.mean(moves)))


def fresh_step(values: Sequence[float]) -> float:
    """The ratio of the step that moved the newest points, if it is no ramp and at most FRESH points old; else 1.

    Detection is expected to suspect such a step at its own commit. ``values``: a line in commit order, with known steps
    removed. Compares the best step and the best ramp, over all indices, by the sum of squares that they explain.
    """
    scale = Scale.of(values)
    line = place_all(scale, values)[-2 * FRESH :]
    if len(line) < 2 * LEVEL:
        return 1.0
    smooth = np.median([line[:-2], line[1:-1], line[2:]], axis=0)  # without single outliers
    at = np.arange(len(smooth), dtype=np.float64)
    begins = at[1:, None]
    steps = explained_by(np.where(at >= begins, 1.0, 0.0), smooth)
    ramps = explained_by(np.maximum(0, at - begins + 1), smooth)[:-FEWEST]
    begin = 1 + int(steps.argmax())
    if steps.max() <= ramps.max() or len(smooth) - begin > FRESH:
        return 1.0
    return scale.ratio(float(np.median(smooth[begin:]) - np.median(smooth[:begin])))


def explained_by(shapes: Array, line: Array) -> Array:
    """The sum of squares of the line that each shape (a row) explains in its best fit."""
    centred = shapes - shapes.mean(axis=1, keepdims=True)
    explained: Array = (centred @ line) ** 2 / np.square(centred).sum(axis=1)
    return explained


def has_grown(ratio: float, before: float) -> bool:
    """Return whether a drift has grown so much since its last examination that it must be examined again."""
    if min(ratio, before) <= 0:
        return abs(ratio - 1) > GROWN * abs(before - 1)
    now, then = abs(math.log(ratio)), abs(math.log(before))
    return now >= GROWN * then or now >= then + math.log1p(FURTHER)
