"""The effect of an alert's commits on the whole suite: the geometric mean over its benchmarks."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from django.db.models import Q

from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric

BESIDE = 5  # measured commits to each side, at most, that give the level of a benchmark without a confirmed change


@dataclass(frozen=True)
class SuiteEffect:
    """The change of the headline metric over the suite on one machine.

    ``ratio``: after / before, as a geometric mean over the benchmarks.
    """

    ratio: float
    benchmarks: int
    moved: int
    machine: str

    @property
    def metric(self) -> Metric:
        return METRICS[HEADLINE]


def headline_series(alert: Alert, worst: ChangePoint) -> Q:
    """The condition for the series of the headline metric on the machine that saw the largest slowdown."""
    return Q(project=alert.project_id, machine=worst.series.machine_id, metric=HEADLINE)


def suite_effect(
    alert: Alert, points: Sequence[ChangePoint], benchmarks: dict[int, int], line: Iterable[LinePoint]
) -> SuiteEffect | None:
    """Over the benchmarks measured on both sides of the alert's range, on the machine that saw the worst of it.

    ``points``: the alert's change points, the worst first. ``benchmarks``: those of its ``headline_series``, by id of
    the series, and ``line`` their points from BESIDE commits before the range to as many after it.

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
    steps = steps_by_benchmark(alert.ends, benchmarks, line) | paired
    if not steps:
        return None
    mean = math.exp(sum(steps.values()) / len(steps))
    return SuiteEffect(mean, len(steps), len(paired), worst.series.machine.name)


def steps_by_benchmark(ends: Sequence[int], benchmarks: dict[int, int], line: Iterable[LinePoint]) -> dict[int, float]:
    """Benchmark id -> logarithm of after / before, by clean points of one series on both sides."""
    first, last = ends
    before: dict[int, list[float]] = defaultdict(list)
    after: dict[int, list[float]] = defaultdict(list)
    for point in line:
        outside = first - BESIDE < point.position <= first or last <= point.position < last + BESIDE
        if point.series_id in benchmarks and not point.flags and point.value > 0 and outside:
            (before if point.position <= first else after)[point.series_id].append(math.log(point.value))
    return {benchmarks[pk]: median(after[pk]) - median(before[pk]) for pk in before if after[pk]}
