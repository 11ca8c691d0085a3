"""Did the level of a series change, judged by its history alone? For series that cannot be measured again, and for
changes that no shift of the newest points shows.

Verdicts are conservative and final: a verdict uses only the points up to its own time, so no later point withdraws or
moves it. The test is a kernel change point test (Harchaoui & Cappe 2007; Arlot, Celisse & Harchaoui 2019) of the best
single split since the last change. The Gaussian kernel is as wide as the noise between neighbours, so modes and
outliers have no more weight than other points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from speedtrack.stats.arrays import Array, place_all
from speedtrack.stats.changes.changepoint import NEAR, Point
from speedtrack.stats.scale import Scale
from speedtrack.stats.summary import MAD_TO_SIGMA


@dataclass(frozen=True)
class Strictness:
    """The limits that a split must exceed; set by replaying many kinds of noise, synthetic and real."""

    window: int = 200  # points since the last change that are examined
    memory: int = 300  # points before a change that are searched for earlier visits of its level
    before: int = 6  # fewest points before a split
    after: int = 5  # fewest points after a split
    bandwidth: float = 1.5  # of the kernel, in units of the noise between neighbours
    gain: float = 2.0  # limit of a split's gain, in units of the logarithm of the number of points
    fewest: int = 80  # points; shorter segments have the limit of this length
    steady: float = 4.3  # the same limit for the gain over the usual scatter of the kernel
    steady_sides: tuple[int, int] = (20, 12)  # points before and after that such a split needs
    clear: float = 1.6  # size of a step in units of the noise, unless its split has the sides of a steady one
    serial: tuple[float, float] = (0.2, 1.5)  # lag-1 correlation that is free; factor for what exceeds it
    blocks: tuple[float, float] = (1.5, 0.3)  # the same for the variance of means of BLOCK points
    slow: float = 1.5  # power of that variance in the limit of a steady split
    agree: float = 0.65  # share of pairs before/after that must agree
    place: float = 0.7  # indices whose gain is lower by at most this may be the true one
    wide: int = 9  # points on each side within which these indices must be
    outlast: tuple[float, int] = (2.0, 100)  # how long a level visited before must last: times its longest visit; cap


BLOCK = 8  # points whose mean shows slow movements
OLD = 60  # points before a split that define its old level
BASE = 40  # points before a split that define the level from which visits start
CLIP = 3.0  # standard deviations to which outliers are clipped
QUICK = 20  # points after a split, from which on its index must be certain
DEFAULT = Strictness()


@dataclass(frozen=True)
class HistoryVerdict:
    """A change of level that the history shows.

    ``index`` is the first point of the new level, between ``first`` and ``last``; ``seen`` the point that showed it on
    its arrival. ``ratio`` is new level / old level, [low, high] roughly its 95% interval; ``score`` the gain of the
    split over its limit.
    """

    index: int
    first: int
    last: int
    ratio: float
    low: float
    high: float
    score: float
    seen: int

    def may_be_at(self, index: int) -> bool:
        return self.first - NEAR <= index <= self.last + NEAR


class _Split(NamedTuple):
    """The best split of a segment: its index, its gain, and the range of nearly equal indices."""

    at: int
    gain: float
    first: int
    last: int
    scatter: float  # kernel distance between points of one side, 0 to 1


class _Noise(NamedTuple):
    """The points' deviations from their two levels: standard deviation, lag-1 correlation, relative block variance."""

    sigma: float
    serial: float
    blocks: float


def history_verdicts(
    points: Sequence[Point], *, smallest_effect: float, settled: Iterable[int] = (), since: int = 0
) -> list[HistoryVerdict]:
    """The changes shown by the arrival of the points from ``since`` on, in the order in which they were seen.

    ``settled``: indices of known changes; each is a fixed boundary, and points before the newest one are not judged
    again. Fewer than eleven points have no verdict.
    """
    if not points:
        return []
    scale = Scale.of(value for point in points for value in point.values)
    medians = [median(point.values) for point in points]
    return verdicts_on(scale, medians, smallest_effect=smallest_effect, settled=settled, since=since)


def verdicts_on(
    scale: Scale, medians: Sequence[float], *, smallest_effect: float, settled: Iterable[int] = (), since: int = 0
) -> list[HistoryVerdict]:
    """The answer of ``history_verdicts`` for points whose medians and scale are known."""
    level = place_all(scale, medians)
    boundaries, verdicts = sorted(settled), list[HistoryVerdict]()
    for arrival in range(since, len(level)):
        start = max([verdicts[-1].index if verdicts else 0, *[index for index in boundaries if index <= arrival]])
        verdict = newest_verdict(level[: arrival + 1], start, scale, smallest_effect)
        if verdict is not None:
            verdicts.append(verdict)
    return verdicts


def newest_verdict(level: Array, start: int, scale: Scale, smallest_effect: float) -> HistoryVerdict | None:
    """The change since ``start`` that the newest point shows, if any. ``level``: the points so far on the scale.

    Only the last `Strictness.window` points are examined, so the cost of a point does not grow with the series.
    """
    begin = max(start, len(level) - DEFAULT.window)
    recent = level[begin:]
    effect = scale.effect(smallest_effect)
    if len(recent) < DEFAULT.before + DEFAULT.after:
        return None
    split = best_split(recent, effect)
    if split.gain < _least(len(recent), split.scatter):
        return None
    old, new = recent[max(0, split.at - OLD) : split.at], recent[split.at :]
    delta = float(np.median(new) - np.median(old))
    noise = noise_about(recent, split.at)
    score = _score(split, noise, delta, len(recent))
    certain = split.at - split.first <= DEFAULT.wide and split.last - split.at <= DEFAULT.wide
    quick = len(new) < QUICK and score.quick >= 1
    if abs(delta) < effect or max(score) < 1 or not (quick or certain) or _agreement(old, new, delta) < DEFAULT.agree:
        return None
    if _is_visit(level, begin + split.at):
        return None
    error = noise.sigma * math.sqrt(math.pi / 2 * (1 / len(old) + 1 / len(new)))
    low, ratio, high = (scale.ratio(delta + side * 1.96 * error) for side in (-1, 0, 1))
    indices = (begin + split.at, begin + split.first, begin + split.last)
    return HistoryVerdict(*indices, ratio, low, high, max(score), len(level) - 1)


def best_split(recent: Array, effect: float) -> _Split:
    """The split with the largest gain: by the kernel, how much more points resemble their side than all points."""
    n = len(recent)
    lag = MAD_TO_SIGMA * float(np.median(np.abs(np.diff(recent)))) / math.sqrt(2)
    width = max(DEFAULT.bandwidth * lag, effect / 4, 1e-12)
    alike = np.exp(-(((recent[:, None] - recent[None, :]) / width) ** 2) / 2)
    rows = np.concatenate([[0.0], np.cumsum(alike.sum(axis=1))])
    head = np.concatenate([[0.0], np.cumsum(1 + 2 * np.tril(alike, -1).sum(axis=1))])  # sum of alike[:t, :t]
    splits = np.arange(DEFAULT.before, n - DEFAULT.after + 1)
    tail = rows[n] - 2 * rows[splits] + head[splits]
    within = head[splits] / splits + tail / (n - splits)
    gains = within - rows[n] / n
    best = int(np.argmax(gains))
    near = splits[gains > gains[best] - DEFAULT.place]
    return _Split(
        int(splits[best]), float(gains[best]), int(near[0]), int(near[-1]), max(0.0, 1 - float(within[best]) / n)
    )


def noise_about(recent: Array, at: int) -> _Noise:
    residuals = np.concatenate([recent[:at] - np.median(recent[:at]), recent[at:] - np.median(recent[at:])])
    sigma = MAD_TO_SIGMA * float(np.median(np.abs(residuals)))
    residuals = np.clip(residuals, -CLIP * sigma, CLIP * sigma)
    square = max(float((residuals * residuals).sum()), 1e-30)
    count = len(residuals) // BLOCK
    means = residuals[len(residuals) - count * BLOCK :].reshape(count, BLOCK).mean(axis=1)
    blocks = float((means**2).mean()) * BLOCK * len(residuals) / square
    return _Noise(sigma, float((residuals[1:] * residuals[:-1]).sum()) / square, blocks)


class _Score(NamedTuple):
    """The gain in units of its limit: for a clear step shortly after it, and for a small one that lasts."""

    quick: float
    steady: float


def _least(n: int, scatter: float) -> float:
    """The limit that the gain of every split must exceed, whatever its noise."""
    return min(DEFAULT.gain, DEFAULT.steady * scatter) * math.log(max(n, DEFAULT.fewest))


def _score(split: _Split, noise: _Noise, delta: float, n: int) -> _Score:
    points = math.log(max(n, DEFAULT.fewest))
    serial = 1 + DEFAULT.serial[1] * max(0.0, noise.serial - DEFAULT.serial[0])
    blocks = 1 + DEFAULT.blocks[1] * max(0.0, noise.blocks - DEFAULT.blocks[0])
    quick = split.gain / (DEFAULT.gain * points * serial * blocks)
    slowly = max(1.0, noise.blocks) ** DEFAULT.slow
    steady = split.gain / max(DEFAULT.steady * points * split.scatter * slowly * serial, 1e-12)
    long_enough = split.at >= DEFAULT.steady_sides[0] and n - split.at >= DEFAULT.steady_sides[1]
    return _Score(quick if abs(delta) >= DEFAULT.clear * noise.sigma else 0.0, steady if long_enough else 0.0)


def _agreement(old: Array, new: Array, delta: float) -> float:
    """The share of pairs (one point before, one after) that agree with the direction of the change."""
    return float(((new[:, None] - old[None, :]) * delta > 0).mean())


def _is_visit(level: Array, at: int) -> bool:
    """Return whether the new level is a mode: visited at least twice before, for about as long as it has lasted."""
    past = level[max(0, at - DEFAULT.memory) : at]
    new, base = float(np.median(level[at:])), float(np.median(past[-BASE:]))
    beyond = ((past - (new + base) / 2) * (new - base) > 0).astype(int)
    steady = np.concatenate([beyond[:1], beyond[:-2] + beyond[1:-1] + beyond[2:] >= 2, beyond[-1:]]).astype(int)
    turns = np.flatnonzero(np.diff(np.concatenate([[0], steady, [0]])))
    visits = turns[1::2] - turns[::2]
    visits = visits[visits > 1]
    times, cap = DEFAULT.outlast
    return len(visits) > 1 and len(level) - at <= min(cap, times * int(visits.max()))


class SeriesReplay:
    """The verdicts of a series as its points arrive: ``start()`` gives a fresh one, ``push`` all verdicts so far."""

    def __init__(self, smallest_effect: float = 0.01) -> None:
        self.smallest_effect = smallest_effect
        self.points: list[Point] = []
        self.found: list[tuple[int, int]] = []

    def start(self) -> SeriesReplay:
        return SeriesReplay(self.smallest_effect)

    def push(self, index: int, values: Sequence[float]) -> list[tuple[int, int]]:
        """(first point of the new level, direction) of every verdict so far; the window limits the cost."""
        self.points.append(Point(tuple(values)))
        skipped = max(0, len(self.points) - DEFAULT.window - DEFAULT.memory)
        recent = self.points[skipped:]
        boundaries = [start - skipped for start, _ in self.found if start >= skipped]
        for verdict in history_verdicts(
            recent, smallest_effect=self.smallest_effect, settled=boundaries, since=len(recent) - 1
        ):
            self.found.append((skipped + verdict.index, 1 if verdict.ratio > 1 else -1))
        return self.found
