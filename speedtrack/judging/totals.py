"""Judgements in total: how many benchmarks have which verdict, and the geometric mean of their ratios."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.judging.verdicts import (
    COUNTED,
    DIFFERING,
    Judgement,
    Ruling,
    Shown,
    direction_of,
    interval_of,
    worst_of,
)
from speedtrack.stats.comparing.compare import LEVEL
from speedtrack.stats.comparing.totals import MeanRatio, mean_ratio


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
    """The total of judgements of one metric, one for each benchmark. ``of``: how many there could be.

    What is flagged or not comparable does not count. A benchmark of the same program counts as unchanged. The total
    differs if a benchmark certainly does, the same way, and if the mean does beyond the 1% level.
    """
    members = [judgement for judgement in judgements if judgement.verdict in COUNTED]
    mean = mean_ratio([ratio_to_count(member) for member in members])
    return Total(
        metric,
        ruling_of_total(metric, members, mean) or worst_of({one.verdict for one in judgements}) or Ruling.UNCERTAIN,
        mean,
        counts_of(judgements),
        max(of or 0, len(judgements)),
        sum(bool(judgement.doubts) for judgement in judgements),
    )


def counts_of(judgements: Iterable[Judgement]) -> Counter[str]:
    """By verdict, as plain text: how many judgements have it."""
    by_verdict = Counter([judgement.verdict for judgement in judgements])
    return Counter({str(verdict): count for verdict, count in by_verdict.items()})


def ratio_to_count(member: Judgement) -> tuple[float, float, float]:
    return (1.0, 1.0, 1.0) if member.verdict == Ruling.SAME_PROGRAM else (member.ratio, member.low, member.high)


def ruling_of_total(metric: Metric, members: Sequence[Judgement], mean: MeanRatio | None) -> Ruling | None:
    """The verdict on the members that count; None without any."""
    verdicts = {member.verdict for member in members}
    if len(verdicts) <= 1:
        return next(iter(verdicts), None)
    if mean and mean.is_apart(metric.smallest_effect, LEVEL) and (way := direction_of(metric, mean.ratio)) in verdicts:
        return way
    return Ruling.UNCERTAIN if is_open(verdicts) else Ruling.SAME


def is_open(verdicts: Collection[Ruling]) -> bool:
    """Return whether members differ without a common direction, or may differ."""
    return Ruling.UNCERTAIN in verdicts or not DIFFERING.isdisjoint(verdicts)
