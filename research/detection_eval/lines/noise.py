"""Lines with exact truth: noise of the kinds that real histories show, and steps of 1 to 20%."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from research.detection_eval.lines.lines import Array, Change, Line

LEVEL = 100.0
APART = 25  # commits between two steps
MARGIN = 30  # commits without a step at the ends


@dataclass(frozen=True)
class Modes:
    """Two levels ``gap`` apart (of the logarithm); ``share``: of the time in the upper one; ``stay``: of commits."""

    gap: float
    share: float
    stay: float = 0.0


@dataclass(frozen=True)
class NoiseKind:
    """One kind of noise. ``spread``: its relative standard deviation; the other fields: how it departs from normal."""

    spread: float = 0.015
    shape: str = "normal"
    persistence: float = 0.0  # AR(1)
    outliers: float = 0.0  # share of commits that are 5 to 20 deviations off
    modes: Modes | None = None
    later: float = 1.0  # factor of the spread from some commit on
    drift: float = 0.0  # of the machine over the whole line, relative


KINDS = {
    "Gaussian": NoiseKind(),
    "heavy tails": NoiseKind(shape="student"),
    "AR 0.35": NoiseKind(persistence=0.35),
    "AR 0.7": NoiseKind(persistence=0.7),
    "outliers": NoiseKind(outliers=0.05),
    "bimodal": NoiseKind(modes=Modes(0.08, 0.3)),
    "sticky bimodal": NoiseKind(modes=Modes(0.08, 0.3, stay=0.85)),
    "variance shift": NoiseKind(later=3.0),
    "drift": NoiseKind(drift=0.03),
}


def any_kind(rng: np.random.Generator) -> NoiseKind:
    """A kind as found among real histories: median spread 1.5%, a sixth of them bimodal, a tenth drifting."""
    spread = float(np.clip(0.015 * math.exp(0.8 * rng.normal()), 0.002, 0.10))
    modes = None
    if rng.random() < 0.15:
        modes = Modes(max(rng.uniform(0.03, 0.2), 4 * spread), rng.uniform(0.1, 0.5), float(rng.choice([0, 0.5, 0.8])))
    return NoiseKind(
        spread=spread,
        shape=str(rng.choice(["normal", "student", "skewed"])),
        persistence=float(rng.choice([0, 0, 0.1, 0.2, 0.35])),
        outliers=float(rng.choice([0, 0.01, 0.03, 0.10], p=[0.4, 0.3, 0.2, 0.1])),
        modes=modes,
        later=float(rng.choice([0.4, 2.5])) if rng.random() < 0.15 else 1.0,
        drift=float(rng.choice([-1, 1]) * rng.uniform(0.01, 0.04)) if rng.random() < 0.1 else 0.0,
    )


def draw(rng: np.random.Generator, n: int, kind: NoiseKind) -> Array:
    """The deviations of n commits from their level (of the logarithm)."""
    deviation = kind.spread * persistent(shaped(rng, n, kind.shape), kind.persistence)
    wild = rng.random(n) < kind.outliers
    up = np.where(rng.random(n) < 0.8, 1, -1)
    deviation += wild * up * kind.spread * rng.uniform(5, 20, n)
    if kind.modes:
        deviation += kind.modes.gap * visits(rng, n, kind.modes)
    if kind.later != 1:
        deviation[rng.integers(n // 4, 3 * n // 4) :] *= kind.later
    return deviation + np.linspace(0, kind.drift, n)


def shaped(rng: np.random.Generator, n: int, shape: str) -> Array:
    """Independent deviations with a variance of about 1."""
    if shape == "student":
        return rng.standard_t(4, n) / math.sqrt(2)
    return (rng.gamma(2, 1, n) - 2) / math.sqrt(2) if shape == "skewed" else rng.normal(size=n)


def persistent(steps: Array, persistence: float) -> Array:
    """An AR(1) process with the variance of its steps."""
    if persistence:
        fresh = math.sqrt(1 - persistence**2)
        for i in range(1, len(steps)):
            steps[i] = persistence * steps[i - 1] + fresh * steps[i]
    return steps


def visits(rng: np.random.Generator, n: int, modes: Modes) -> Array:
    """1 where a commit is in the upper mode, 0 elsewhere."""
    fresh, stays = rng.random(n) < modes.share, rng.random(n) < modes.stay
    stays[0] = False
    last_fresh = np.maximum.accumulate(np.where(stays, 0, np.arange(n)))
    upper: Array = fresh[last_fresh].astype(np.float64)
    return upper


def steps(rng: np.random.Generator, n: int, count: int) -> tuple[list[Change], list[float]]:
    """Up to so many changes of 1 to 20% (log-uniform), three of five of them upwards."""
    positions: list[int] = []
    for position in rng.integers(MARGIN, n - MARGIN, 200).tolist():
        if len(positions) < count and all(abs(position - earlier) >= APART for earlier in positions):
            positions.append(position)
    truth = [(position, 1 if rng.random() < 0.6 else -1) for position in sorted(positions)]
    return truth, [float(np.exp(rng.uniform(math.log(0.01), math.log(0.2)))) for _ in truth]


def mixed(count: int, seed: int, *, n: int, with_steps: bool) -> list[Line]:
    """Lines of any kind of noise."""
    return [one(f"mixed {i}", np.random.default_rng([seed, i]), None, n, with_steps) for i in range(count)]


def of_kind(name: str, count: int, seed: int, *, n: int) -> list[Line]:
    """Lines of one kind of noise, without a change."""
    return [one(f"{name} {i}", np.random.default_rng([seed, i]), KINDS[name], n, False) for i in range(count)]


def one(name: str, rng: np.random.Generator, kind: NoiseKind | None, n: int, with_steps: bool) -> Line:
    deviation = draw(rng, n, kind or any_kind(rng))
    truth, size = steps(rng, n, max(1, int(rng.poisson(1.3 * n / 300)))) if with_steps else ([], [])
    line = Line(name, [], truth, size)
    level = np.full(n, LEVEL)
    for (index, direction), amount in zip(truth, size, strict=True):
        level[index:] *= 1 + direction * amount
    return Line(name, [[float(v)] for v in level * np.exp(deviation)], line.truth, line.size, level.tolist())


def drifting(count: int, seed: int, *, n: int = 400, first: int = 200, step: float = 0.003) -> list[Line]:
    """Lines whose level rises by ``step`` with each commit from the ``first`` on: the code drifts, not the machine."""
    lines = []
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        level = LEVEL * (1 + step) ** np.maximum(0, np.arange(n) - first + 1)
        values = level * np.exp(draw(rng, n, KINDS["Gaussian"]))
        lines.append(Line(f"drift of the code {i}", [[float(v)] for v in values], [(first, 1)], (), level.tolist()))
    return lines


def young(count: int, seed: int, *, between: float, n: int = 12, trials: int = 5, within: float = 0.005) -> list[Line]:
    """Short lines of several trials, whose runs differ by more than the trials of a run do."""
    rng = np.random.default_rng(seed)
    points = LEVEL * np.exp(between * rng.normal(size=(count, n, 1)) + within * rng.normal(size=(count, n, trials)))
    return [Line(f"young {i}", line.tolist(), [], (), [LEVEL] * n) for i, line in enumerate(points)]
