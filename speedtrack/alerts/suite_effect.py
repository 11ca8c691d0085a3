"""The effect of an alert's commits on the whole suite: the geometric mean over its benchmarks."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from speedtrack.alerts import lines
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.runs.models import Series

BESIDE = 5  # measured commits to each side, at most, that give the level of a benchmark without a confirmed change


@dataclass(frozen=True)
class SuiteEffect:
    """``ratio``: after / before of the headline metric, as a geometric mean over so many benchmarks on one machine."""

    ratio: float
    benchmarks: int
    moved: int
    machine: str

    @property
    def metric(self) -> Metric:
        return METRICS[HEADLINE]


def suite_effect(alert: Alert, points: Sequence[ChangePoint]) -> SuiteEffect | None:
    """Over the benchmarks measured on both sides of the alert's range, on the machine that saw the worst of it.

    ``points``: the alert's change points, the worst first.

    A benchmark with a confirmed change counts by its pairs, any other by its line: the medians of a few commits before
    and after. None if none was measured on both sides.
    """
    worst = points[0]
    if len(alert.ends) < 2:
        return None
    paired = {
        cp.series.benchmark_id: math.log(cp.ratio)
        for cp in points
        if cp.series.metric == HEADLINE and cp.series.machine_id == worst.series.machine_id and cp.ratio > 0
    }
    steps = steps_by_benchmark(alert, worst) | paired
    if not steps:
        return None
    mean = math.exp(sum(steps.values()) / len(steps))
    return SuiteEffect(mean, len(steps), len(paired), worst.series.machine.name)


def steps_by_benchmark(alert: Alert, worst: ChangePoint) -> dict[int, float]:
    """Benchmark id -> logarithm of after / before, by clean points of one series on both sides."""
    series = Series.objects.filter(project=alert.project_id, machine=worst.series.machine_id, metric=HEADLINE)
    benchmarks = dict(series.values_list("pk", "benchmark"))
    first, last = alert.ends
    points = lines.points(benchmarks, alert.branch, max(0, first - BESIDE + 1), last + BESIDE - 1)
    before: dict[int, list[float]] = defaultdict(list)
    after: dict[int, list[float]] = defaultdict(list)
    for point in points:
        if not point.flags and point.value > 0 and not first < point.position < last:
            (before if point.position <= first else after)[point.series_id].append(math.log(point.value))
    return {benchmarks[pk]: median(after[pk]) - median(before[pk]) for pk in before if after[pk]}
