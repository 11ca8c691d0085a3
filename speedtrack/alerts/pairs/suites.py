"""What pairs show of a whole suite: all of its benchmarks for two commits, compared together."""

from collections import defaultdict
from dataclasses import replace
from typing import NamedTuple

from speedtrack.alerts.lines.effects import smallest_effects
from speedtrack.alerts.pairs.pairing import Pair, compared, pairs_by_run
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.runs.models import MEASURED, Reason, Run, RunQuerySet, Series
from speedtrack.stats.comparing.compare import Comparison, ComparisonAnswer, benjamini_hochberg

#: The share of benchmarks listed as moved that may have stood still. A commit is already known to have moved some, so
#: this is the one question left, and benchmarks share it: the order of Benjamini and Hochberg applied to reciprocals of
#: evidence holds for any dependence among them (Wang & Ramdas 2022, False discovery rate control with e-values).
FALSE_SHARE = 0.05
OPEN = 0.5  # the largest p of a difference that further pairs may show; without one it is mostly 1


class ComparedSeries(NamedTuple):
    """A benchmark and metric, as its newest series, and what the pairs of two commits show about it."""

    series: Series
    comparison: Comparison

    @property
    def moved(self) -> bool:
        return self.comparison.answer == ComparisonAnswer.DIFFERENT


def is_open(comparison: Comparison) -> bool:
    """Return whether further pairs may show a difference that these do not."""
    return comparison.answer != ComparisonAnswer.SAME and comparison.p <= OPEN


def runs_of_ends(run: Run) -> RunQuerySet:
    """The ended paired runs of a run's two commits on its machine, for whatever reason, oldest first."""
    ends = {"base": run.base_id, "commit": run.commit_id, "machine": run.machine_id}
    runs: RunQuerySet = Run.objects.filter(**ends, status__in=MEASURED).exclude(reason=Reason.PROFILE)
    return runs.order_by("pk")


def rounds_of(run: Run) -> RunQuerySet:
    """The rounds of the whole effect that this run is one of."""
    ends = {"base": run.base_id, "commit": run.commit_id, "machine": run.machine_id}
    runs: RunQuerySet = Run.objects.filter(**ends, reason=Reason.EFFECT, metrics=run.metrics)
    return runs


def is_measured(run: Run) -> bool:
    """Return whether this round of the whole effect, or one before it, measured anything."""
    return rounds_of(run).filter(status__in=MEASURED).exists()


def pairs_of_suite(run: Run) -> dict[tuple[int, str], list[Pair]]:
    """By benchmark and metric: all pairs of a run's two commits, of the metrics that it is for.

    The pairs that named the commit are among them: their evidence holds after any number of pairs.
    """
    pairs: dict[tuple[int, str], list[Pair]] = defaultdict(list)
    ids = runs_of_ends(run).values_list("pk", flat=True)
    for (_, benchmark, metric), run_pairs in pairs_by_run(ids, series__metric__in=run.metrics).items():
        pairs[benchmark, metric] += run_pairs
    return pairs


def compare_suite(run: Run) -> list[ComparedSeries]:
    """What the pairs of a run's two commits show of each benchmark, at FALSE_SHARE over all of them.

    No direction is suspected. A difference that the correction does not accept is unknown.
    """
    pairs = {key: own_pairs for key, own_pairs in pairs_of_suite(run).items() if own_pairs}
    rows = Series.objects.filter(project=run.project_id, machine=run.machine_id, metric__in=run.metrics)
    related = rows.filter(benchmark__in={pk for pk, _ in pairs}).select_related("benchmark", "machine", "project")
    newest = {(row.benchmark_id, row.metric): row for row in related.order_by("pk")}
    smallest = smallest_effects([row.pk for row in newest.values()])
    comparisons = [
        ComparedSeries(row, comparison)
        for key, row in newest.items()
        if key in pairs and (comparison := compared_pairs(row, pairs[key], smallest[row.pk]))
    ]
    accepted = benjamini_hochberg([row.comparison.p for row in comparisons], FALSE_SHARE)
    return [
        row if is_shown or not row.moved else doubted(row) for row, is_shown in zip(comparisons, accepted, strict=True)
    ]


def compared_pairs(series: Series, pairs: list[Pair], smallest: float) -> Comparison | None:
    return compared(METRICS[series.metric], pairs, smallest, level=FALSE_SHARE, seed=series.benchmark_id)


def doubted(row: ComparedSeries) -> ComparedSeries:
    return row._replace(comparison=replace(row.comparison, answer=ComparisonAnswer.UNKNOWN))
