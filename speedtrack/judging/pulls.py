"""Compare the head of a pull request with its merge base, by the pairs of each benchmark and metric."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from speedtrack.alerts.lines import effects
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.models import Benchmark
from speedtrack.judging.evidence import Ends, PairedSeries, evidence_of_ends
from speedtrack.judging.judge import judged_by_pairs
from speedtrack.judging.verdicts import ORDER, Judgement
from speedtrack.runs.models import Run, Series


class PairedJudgement(NamedTuple):
    """One benchmark and metric of two commits on one machine."""

    ends: Ends
    machine: str
    benchmark: str
    judgement: Judgement

    @property
    def change(self) -> str:
        """The ratio in words: a percentage or a factor."""
        return numbers.change(self.judgement.ratio)


def judge_pulls(runs: Sequence[Run]) -> list[PairedJudgement]:
    """The judgements by all pairs of the commits of these runs; those that differ come first.

    The runs must have their machines loaded. As many statements for runs of several projects.
    """
    machines = {run.machine_id: run.machine.name for run in runs}
    ends = {Ends(run.machine_id, run.base_id, run.commit_id) for run in runs if run.base_id}
    evidence = evidence_of_ends(ends)
    paired = [key for key in evidence.every_pair if key[0] in ends]
    names = Benchmark.objects.in_bulk({benchmark for _, benchmark, _ in paired})
    series = series_of(paired)
    smallest = effects.smallest_effects(series.values())
    judgements = []
    for end, benchmark, metric in paired:
        effect = smallest[series[end.machine_id, benchmark, metric]]
        if judgement := judged_by_pairs(evidence, (end, benchmark, metric), effect, end in evidence.same_program):
            judgements.append(PairedJudgement(end, machines[end.machine_id], names[benchmark].name, judgement))
    return sorted(
        judgements,
        key=lambda row: (ORDER.index(row.judgement.verdict), row.machine, row.benchmark, row.judgement.metric.name),
    )


def series_of(paired: Collection[PairedSeries]) -> dict[tuple[int, int, str], int]:
    """By machine, benchmark and metric: the newest series."""
    rows = Series.objects.filter(
        machine__in={end.machine_id for end, *_ in paired}, benchmark__in={pk for _, pk, _ in paired}
    )
    columns = rows.order_by("pk").values_list("pk", "machine", "benchmark", "metric")
    return {(machine, benchmark, metric): pk for pk, machine, benchmark, metric in columns}
