"""Judgements in total: how many benchmarks have which verdict, and the geometric mean of their ratios."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from speedtrack.alerts.lines.linecolumns import Array
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.judging.verdicts import (
    COUNTED,
    DIFFERING,
    ORDER,
    PLACES,
    Judgement,
    Ruling,
    Shown,
    direction_of,
    interval_of,
    worst_of,
)
from speedtrack.stats.comparing.compare import LEVEL
from speedtrack.stats.comparing.totals import MeanRatio, mean_ratio

IS_COUNTED = np.array([ruling in COUNTED for ruling in ORDER])
IS_SAME_PROGRAM = np.array([ruling == Ruling.SAME_PROGRAM for ruling in ORDER])


@dataclass(frozen=True)
class Total(Shown):
    """Judgements of one metric in total. ``mean``: over the benchmarks that count; None if none does.

    ``of``: how many benchmarks there are, also those that one side lacks.
    """

    metric: Metric
    verdict: Ruling
    mean: MeanRatio | None
    counts: Counter[str]
    of: int
    doubtful: int = 0

    @property
    def benchmarks(self) -> int:
        """How many benchmarks the mean rests on."""
        return self.mean.n if self.mean else 0

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of the mean; None for one value, which has none."""
        return interval_of(self.mean.low, self.mean.high) if self.mean else None

    @property
    def interval_in_words(self) -> str:
        """The interval in the notation of the mean; empty without one."""
        return numbers.change_interval(self.mean.ratio, *self.interval) if self.mean and self.interval else ""

    @property
    def rests_on(self) -> str:
        """What the mean rests on: ``1 of 3 benchmarks``."""
        count = f"{self.benchmarks} of {self.of}" if self.benchmarks < self.of else f"{self.of}"
        return f"{count} benchmark{'' if self.of == 1 else 's'}"


def total_of(metric: Metric, judgements: Sequence[Judgement], of: int | None = None) -> Total:
    """The total of judgements of one metric, one for each benchmark. ``of``: how many there could be."""
    ratios = np.array([judgement[2:5] for judgement in judgements], float).reshape(-1, 3)
    rulings = np.array([PLACES[judgement.verdict] for judgement in judgements], int)
    return total_of_columns(metric, rulings, ratios, of, sum(bool(judgement.doubts) for judgement in judgements))


def total_of_columns(metric: Metric, rulings: Array, ratios: Array, of: int | None = None, doubtful: int = 0) -> Total:
    """The total of judgements as columns: ``rulings`` are places in ORDER, ``ratios`` rows of (ratio, low, high).

    What is flagged or not comparable does not count. A benchmark of the same program counts as unchanged. The total
    differs if a benchmark certainly does, the same way, and if the mean does beyond the 1% level.
    """
    mean = mean_ratio(np.where(IS_SAME_PROGRAM[rulings, None], 1.0, ratios)[IS_COUNTED[rulings]])
    counts = counts_of(rulings)
    verdicts = counts.keys() & COUNTED
    return Total(
        metric,
        ruling_of_total(metric, verdicts, mean) or worst_of(counts) or Ruling.UNCERTAIN,
        mean,
        in_words(counts),
        max(of or 0, len(rulings)),
        doubtful,
    )


def counts_of(rulings: Array) -> dict[Ruling, int]:
    """How many judgements have which verdict, in the order in which these first occur. ``rulings``: places in ORDER."""
    counts = np.bincount(rulings, minlength=len(ORDER)).tolist()
    places = [place for place, count in enumerate(counts) if count]
    places.sort(key=lambda place: int(np.argmax(rulings == place)))
    return {ORDER[place]: counts[place] for place in places}


def in_words(counts: Mapping[Ruling, int]) -> Counter[str]:
    """The counts by verdict as plain text."""
    return Counter({str(verdict): count for verdict, count in counts.items()})


def ruling_of_total(metric: Metric, verdicts: Collection[Ruling], mean: MeanRatio | None) -> Ruling | None:
    """The verdict on members with these verdicts, which all count; None without any."""
    if len(verdicts) <= 1:
        return next(iter(verdicts), None)
    if mean and mean.is_apart(metric.smallest_effect, LEVEL) and (way := direction_of(metric, mean.ratio)) in verdicts:
        return way
    return Ruling.UNCERTAIN if is_open(verdicts) else Ruling.SAME


def is_open(verdicts: Collection[Ruling]) -> bool:
    """Return whether members differ without a common direction, or may differ."""
    return Ruling.UNCERTAIN in verdicts or not DIFFERING.isdisjoint(verdicts)
