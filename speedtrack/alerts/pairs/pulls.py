"""Compare the head of a pull request with its merge base, by the pairs of each benchmark and metric."""

from collections.abc import Sequence
from typing import NamedTuple

from speedtrack.alerts.lines.effects import SmallestEffects
from speedtrack.alerts.models import look_of
from speedtrack.alerts.pairs import between, pairing
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.runs.models import Run
from speedtrack.stats.compare import ComparisonAnswer

ORDER = {ComparisonAnswer.DIFFERENT: 0, ComparisonAnswer.UNKNOWN: 1, ComparisonAnswer.SAME: 2}


class PairedAnswer(NamedTuple):
    """One benchmark and metric on one machine. ``ratio`` is head / base."""

    machine: str
    benchmark: str
    metric: Metric
    ratio: float
    low: float
    high: float
    answer: str
    pairs: int

    @property
    def change(self) -> str:
        """The ratio in words: a percentage or a factor."""
        return numbers.change(self.ratio)

    @property
    def look(self) -> str:
        return look_of(self.answer, self.ratio, self.metric.name)

    @property
    def words(self) -> str:
        unsettled = between.UNSETTLED.get(ComparisonAnswer(self.answer))
        return unsettled or numbers.effect(self.metric, self.look == "worse")


def answers_of(project_id: int, runs: Sequence[Run]) -> list[PairedAnswer]:
    """The answers of paired runs of the same two commits; those that differ come first.

    The runs must have their machines loaded.
    """
    pairs_by_benchmark = pairing.pairs_that_answer(runs)
    machines = {run.machine_id: run.machine.name for run in runs}
    names = Benchmark.objects.in_bulk({benchmark for _, benchmark, _ in pairs_by_benchmark})
    effects = SmallestEffects(project_id)
    answers = []
    for (machine, benchmark, metric), pairs in pairs_by_benchmark.items():
        comparison = between.comparison_of_pairs(METRICS[metric], pairs, effects.of(metric), benchmark, 1.0)
        if comparison:
            labels = (machines[machine], names[benchmark].name, METRICS[metric])
            interval = (comparison.ratio, comparison.low, comparison.high)
            answers.append(PairedAnswer(*labels, *interval, comparison.answer, len(pairs)))
    return sorted(
        answers,
        key=lambda answer: (
            ORDER[ComparisonAnswer(answer.answer)],
            answer.machine,
            answer.benchmark,
            answer.metric.name,
        ),
    )
