"""Decides when a benchmark has been measured often enough: when the 95% interval of its median meets a target.

A benchmark whose interval will probably miss it even with the most trials ends at once: suspicions are settled by
pairs, so trials that cannot meet the target would only keep the next commit waiting.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from runners.documents import Benchmark, Job
from runners.measuring.trials import Trial

CONFIDENCE = 0.95
# The range of five normal samples is itself known to ±40%, so an interval may become narrower than expected. With this
# factor few benchmarks end that would have met their target (`python -m research.machine_time stopping`).
DOUBT = 1.5
# The metric that decides: the first one that every trial has.
HEADLINES = ("server_cpu_ns_per_request", "throughput_rps", "latency_us_p50")
TARGET, FUTILE, CAP, FIXED, FAILED = "target", "futile", "cap", "fixed", "failed"
SENTENCES = {
    TARGET: "close enough",
    FUTILE: "{most_trials} would give about ±{half_width_at_most:.2%}",
    CAP: "no more are allowed",
    FIXED: "as many as were asked for",
    FAILED: "the next one failed",
}


@dataclass(frozen=True)
class StopDecision:
    """Why the trials of one side ended. Widths are shares of the median; None for one trial, or without a headline.

    `trials` were kept; `thrown_out` were repeated because of their flags. Of a futile benchmark `half_width_at_most` is
    the width to expect of `most_trials`; both are None else.
    """

    reason: str
    half_width: float | None
    target: float
    trials: int
    thrown_out: int
    most_trials: int | None = None
    half_width_at_most: float | None = None

    def document(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        width = "unknown" if self.half_width is None else f"±{self.half_width:.2%}"
        why = SENTENCES[self.reason].format_map(asdict(self))
        dropped = f", {self.thrown_out} thrown out" if self.thrown_out else ""
        return f"{self.trials} trials{dropped}, median {width} (target ±{self.target:.2%}): {why}"


def reason_to_stop(job: Job, benchmark: Benchmark, trials: Sequence[Trial]) -> str | None:
    """Why no further trial is needed; None if one is. A run of pairs has a fixed number of trials."""
    if len(trials) < job.trials:
        return None
    if job.most_trials == job.trials:
        return FIXED
    width = half_width(headline_samples(trials))
    if width is not None and width <= benchmark.target:
        return TARGET
    if len(trials) >= job.most_trials:
        return CAP
    is_futile = width is not None and narrowed(width, len(trials), job.most_trials) > DOUBT * benchmark.target
    return FUTILE if is_futile else None


def narrowed(width: float, count: int, most: int) -> float:
    """The width to expect of the interval of `most` trials, by the `width` of that of `count`.

    It narrows with the square root of their number, as the deviation of a median does (Serfling 1980, section 2.3.3).
    """
    return width * math.sqrt(count / most)


def stop_decision(
    job: Job, reason: str, benchmark: Benchmark, trials: Sequence[Trial], thrown_out: int
) -> StopDecision:
    count, width = len(trials), half_width(headline_samples(trials))
    if reason != FUTILE or width is None:
        return StopDecision(reason, width, benchmark.target, count, thrown_out)
    at_most = narrowed(width, count, job.most_trials)
    return StopDecision(reason, width, benchmark.target, count, thrown_out, job.most_trials, at_most)


def expected_trials(job: Job, benchmark: Benchmark, trials: Sequence[Trial]) -> int:
    """The probable number of trials of a benchmark that goes on: more than it has."""
    if len(trials) < job.trials:
        return job.trials
    width = half_width(headline_samples(trials)) or 0.0
    needed = math.ceil(len(trials) * (width / benchmark.target) ** 2)
    return min(job.most_trials, max(needed, len(trials) + 1))


def headline_samples(trials: Sequence[Trial]) -> list[float]:
    """The samples of the first headline metric that every trial has; empty without such a metric."""
    for metric in HEADLINES:
        if all(metric in trial.metrics for trial in trials):
            return [trial.metrics[metric] for trial in trials]
    return []


def half_width(samples: Sequence[float]) -> float | None:
    """Half the width of the median's 95% interval, as a share of the median. None below two samples."""
    if len(samples) < 2:
        return None
    low, high = median_interval(samples)
    return (high - low) / 2 / abs(median(samples))


def median_interval(samples: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The distribution-free interval of the median between two order statistics (Conover 1999, section 3.2).

    The SpeedTrack server shows the same interval (`speedtrack/stats/summary.py`); a golden file checks both. Below six
    samples there is none at 95%, so their range is returned.
    """
    ordered = sorted(samples)
    rank = _outer_rank(len(ordered), confidence)
    return ordered[rank], ordered[-1 - rank]


def _outer_rank(n: int, confidence: float) -> int:
    """The largest k for which samples k and n-1-k (from 0) enclose the median with `confidence`; 0 if there is none."""
    tail, below = (1 - confidence) / 2, 0.0
    for k in range(n // 2 + 1):
        below += math.comb(n, k) / 2**n
        if below > tail:
            return max(0, k - 1)
    return 0
