"""Pairs of two commits, measured interleaved on one machine: what change points ask of them, and their samples."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

from django.db.models import DateTimeField, ExpressionWrapper, F, Max, Min, QuerySet

from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.metrics import Metric
from speedtrack.benchmarks.models import Suite
from speedtrack.benchmarks.storing import store_set
from speedtrack.projects.models import Commit
from speedtrack.runs.models import (
    MEASURED,
    Build,
    Machine,
    Measurement,
    Reason,
    Result,
    Run,
    Samples,
    Series,
    Side,
    Trial,
)
from speedtrack.runs.planning.questions import Question
from speedtrack.stats.comparing import compare
from speedtrack.stats.comparing.compare import Comparison

Pair = tuple[float, float]  #: the clean samples of a metric: base, head


def question_of(group: Sequence[ChangePoint], base_id: int, head_id: int, why: Reason, pairs: int) -> Question:
    """The question that change points of one machine have about two commits, by the benchmarks of all of them."""
    benchmarks = {cp.series.benchmark_id: cp.series.benchmark for cp in group}
    metrics = sorted({cp.series.metric for cp in group})
    machine, suite = group[0].series.machine, suite_of(group[0])
    own_set = store_set(suite, list(benchmarks.values()))
    return Question(base_id, head_id, machine, suite, own_set, why, pairs, metrics)


def measured_runs(cp: ChangePoint, base_id: int | None, commit_id: int) -> QuerySet[Run]:
    """The change point's ended paired runs of these two commits, oldest first.

    Failed runs are among them: they have measured some pairs.
    """
    return cp.runs.filter(base=base_id, commit=commit_id, status__in=MEASURED).order_by("id")


def measured_pairs(cp: ChangePoint, base_id: int | None, commit_id: int) -> list[Pair]:
    """The (base, head) samples of the change point's series in its paired runs of these two commits."""
    return sample_pairs(measured_runs(cp, base_id, commit_id), cp.series)


def measuring_s(runs: Iterable[Run]) -> float:
    """Seconds that these paired runs took from their first trial to their last, without the builds before."""
    ends = ExpressionWrapper(F("started_at") + F("seconds") * timedelta(seconds=1), DateTimeField())
    results = Result.objects.filter(attempt__run__in=[run.pk for run in runs], attempt__outcome__in=MEASURED)
    spans = (
        Trial.objects.filter(result__in=results)
        .values("result__attempt")
        .annotate(begin=Min("started_at"), end=Max(ends))
    )
    return float(sum((span["end"] - span["begin"]).total_seconds() for span in spans))


def sample_pairs(runs: Iterable[Run], series: Series) -> list[Pair]:
    """The pairs of a series' benchmark and metric in paired runs.

    The environment may be a newer one than the series': both sides of a pair share it.
    """
    of_series = {"series__benchmark": series.benchmark_id, "series__metric": series.metric}
    return [pair for pairs in pairs_by_run([run.pk for run in runs], **of_series).values() for pair in pairs]


def pairs_by_run(runs: Iterable[int], **filters: object) -> dict[tuple[int, int, str], list[Pair]]:
    """By (run, benchmark, metric), in the order of the runs: the pairs, in the order they were measured.

    ``filters``: conditions on their measurements. Trial i of one side was measured back to back with trial i of the
    other. A pair with a flagged side is left out.
    """
    conditions = {f"measurement__{name}": value for name, value in filters.items()}
    accepted_samples = Samples.objects.filter(
        measurement__attempt__run__in=runs if isinstance(runs, QuerySet) else list(runs),
        measurement__accepted=True,
        **conditions,
    )
    columns = ("attempt__run_id", "series__benchmark_id", "series__metric", "side")
    annotated = accepted_samples.annotate(**{f"of_{name}": F(f"measurement__{name}") for name in columns})
    sides: dict[tuple[int, int, str], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for samples in annotated.order_by("measurement"):
        run, benchmark, metric, side = (getattr(samples, f"of_{name}") for name in columns)
        sides[run, benchmark, metric][side] |= samples.clean_by_trial
    return {key: pairs_of_trials(both[Side.BASE], both[Side.HEAD]) for key, both in sorted(sides.items())}


def pairs_of_trials(base: Mapping[int, float], head: Mapping[int, float]) -> list[Pair]:
    return [(base[trial], head[trial]) for trial in sorted(base.keys() & head.keys())]


def compared(
    metric: Metric, pairs: Sequence[Pair], smallest: float, *, level: float, seed: int, suspected: float = 1.0
) -> Comparison | None:
    """What pairs show about a metric; None without any, or with fewer counts of a side than can be compared.

    ``suspected``: the ratio that was suspected before, 1.0 if none was.
    """
    if len(pairs) < (compare.FEWEST_COUNTS if metric.counted else 1):
        return None
    if metric.counted:
        return compare.settle_counts(pairs, smallest_effect=smallest, level=level, suspected=suspected)
    return compare.settle_pairs(pairs, smallest_effect=smallest, level=level, seed=seed, suspected=suspected)


def suite_of(cp: ChangePoint) -> Suite:
    """A suite with which the series was measured, so that pairs measure the same workload."""
    measurements = Measurement.objects.filter(series=cp.series, accepted=True)
    return measurements.select_related("attempt__run__suite").latest("id").attempt.run.suite


def same_binary(cp: ChangePoint) -> bool:
    """Return whether the machine built bit-identical artifacts of both commits, so that no measurement can differ."""
    before, after = (artifacts(cp.series.machine, commit) for commit in (cp.before, cp.commit))
    return before is not None and before == after


def artifacts(machine: Machine, commit: Commit) -> dict[str, str] | None:
    """The artifacts (name -> digest) that the machine last built of a commit; None if it built none."""
    builds = Build.objects.filter(attempt__run__machine=machine, commit=commit, succeeded=True)
    build = builds.order_by("-id").first()
    return {name: str(artifact["digest"]) for name, artifact in build.artifacts.items()} if build else None
