"""When a benchmark has been measured often enough: the bootstrap interval of its median against a target."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from runners.documents import Benchmark, Job
from runners.measuring.trials import Trial

CONFIDENCE = 0.95
# What a per-commit series is read by; a driver that does not tell it is read by the next.
HEADLINES = ("server_cpu_ns_per_request", "throughput_rps", "latency_us_p50")
TARGET, CAP, FIXED = "target", "cap", "fixed"


@dataclass(frozen=True)
class Decision:
    """Why the trials of one side ended. Both widths are shares of the median; None: one trial, or none has a headline.

    `trials` were kept, `thrown_out` were measured as well and repeated because of their flags.
    """

    reason: str
    half_width: float | None
    target: float
    trials: int
    thrown_out: int

    def document(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        width = "unknown" if self.half_width is None else f"±{self.half_width:.2%}"
        said = {TARGET: "close enough", CAP: "no more are allowed", FIXED: "as many as were asked for"}[self.reason]
        dropped = f", {self.thrown_out} thrown out" if self.thrown_out else ""
        return f"{self.trials} trials{dropped}, median {width} (target ±{self.target:.2%}): {said}"


def reason_to_stop(job: Job, benchmark: Benchmark, trials: Sequence[Trial]) -> str | None:
    """Why no further trial is needed; None: go on. Pairs are always as many as were asked for."""
    if len(trials) < job.trials:
        return None
    if job.most_trials == job.trials:
        return FIXED
    width = half_width(headline(trials))
    if width is not None and width <= benchmark.target:
        return TARGET
    return CAP if len(trials) >= job.most_trials else None


def decide(reason: str, benchmark: Benchmark, trials: Sequence[Trial], thrown_out: int) -> Decision:
    return Decision(reason, half_width(headline(trials)), benchmark.target, len(trials), thrown_out)


def expected(job: Job, benchmark: Benchmark, trials: Sequence[Trial]) -> int:
    """How many trials it will probably take: the interval narrows with the square root of their number."""
    if len(trials) < job.trials:
        return job.trials
    width = half_width(headline(trials)) or 0.0
    needed = math.ceil(len(trials) * (width / benchmark.target) ** 2)
    return min(job.most_trials, max(needed, len(trials) + 1))


def headline(trials: Sequence[Trial]) -> list[float]:
    """The samples of the steadiest metric that every trial has; none without such a metric."""
    for metric in HEADLINES:
        if all(metric in trial.metrics for trial in trials):
            return [trial.metrics[metric] for trial in trials]
    return []


def half_width(samples: Sequence[float]) -> float | None:
    """Half the width of the median's 95% bootstrap interval, as a share of the median. None below two samples."""
    if len(samples) < 2:
        return None
    low, high = median_interval(samples)
    return (high - low) / 2 / abs(median(samples))


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The percentile bootstrap interval of the median (Efron 1979), from the exact distribution: nothing is drawn.

    The median of a resample is one of the samples, or the middle of two, and how probable each is follows from the
    binomial distribution (Maritz & Jarrett 1978). Below six samples the interval is their range.
    """
    tail = (1 - confidence) / 2
    chances = sorted(resampled_medians(sorted(samples)))
    return _quantile(chances, tail), -_quantile(sorted((-value, chance) for value, chance in chances), tail)


def resampled_medians(ordered: Sequence[float]) -> list[tuple[float, float]]:
    """(median, probability) of a resample of as many samples, for every pair of samples it may be the middle of.

    The lower middle is sample i or below and the upper one sample k or above (i < k) exactly when half of the
    resample falls on either side; differences of that in i and k give the probability of each pair.
    """
    n, half = len(ordered), len(ordered) // 2
    if n % 2:
        below = [_at_least(half + 1, n, i / n) for i in range(n + 1)]
        return [(ordered[i], below[i + 1] - below[i]) for i in range(n)]
    up = [((i + 1) / n) ** half - (i / n) ** half for i in range(n)]
    apart = [
        ((ordered[i] + ordered[k]) / 2, math.comb(n, half) * up[i] * up[n - 1 - k])
        for i in range(n)
        for k in range(i + 1, n)
    ]
    lower = [_at_least(half, n, i / n) for i in range(n + 1)]
    left = [lower[i + 1] - lower[i] for i in range(n)]
    for i in range(n):
        left[i] -= math.comb(n, half) * up[i] * sum(up[n - 1 - k] for k in range(i + 1, n))
    return apart + list(zip(ordered, left, strict=True))


def _at_least(count: int, n: int, chance: float) -> float:
    """The probability of `count` or more successes in n trials."""
    return math.fsum(math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(count, n + 1))


def _quantile(chances: Sequence[tuple[float, float]], share: float) -> float:
    """The first value at which the probabilities, in the order of the values, have come to `share`."""
    total = 0.0
    for value, chance in chances:
        total += chance
        if total >= share:
            return value
    return chances[-1][0]
