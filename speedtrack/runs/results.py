"""Accept a runner's measurement: check it against its run, then store it once."""

from collections.abc import Sequence

from django.db import transaction

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Commit
from speedtrack.runs import queue
from speedtrack.runs.documents import EnvironmentDocument, Result, TrialDocument
from speedtrack.runs.models import Attempt, Environment, Machine, Measurement, Run, Sample, Series, Trial
from speedtrack.stats.summary import summarize


class ResultError(Exception):
    """The document does not fit its run; the message says where."""


@transaction.atomic
def accept(machine: Machine, run_id: int, result: Result) -> None:
    """Store one measurement of each metric, with every sample. The same document again changes nothing.

    Raises queue.LeaseLost for an old token and ResultError for a document that does not fit its run.
    """
    run = queue.held(machine, run_id, result.token)
    commit = queue.side_of(run, result.side, result.sha)
    benchmark = benchmark_of(run, result)
    environment = store_environment(machine, result.environment)
    attempt = queue.attempt_of(run)
    metrics = check_trials(result.trials)
    if Trial.objects.filter(attempt=attempt, benchmark=benchmark, commit=commit).exists():
        return
    store_trials(attempt, benchmark, commit, result.trials)
    for metric in metrics:
        series, _ = Series.objects.get_or_create(
            project=run.project, benchmark=benchmark, metric=metric, machine=machine, environment=environment
        )
        store_measurement(attempt, series, commit, result.trials)


def benchmark_of(run: Run, result: Result) -> Benchmark:
    for benchmark in queue.benchmarks_of(run):
        if (benchmark.name, benchmark.digest) == (result.benchmark.name, result.benchmark.digest):
            return benchmark
    raise ResultError(f"run {run.pk} does not measure {result.benchmark.name} with digest {result.benchmark.digest}")


def check_trials(trials: Sequence[TrialDocument]) -> list[str]:
    """The metrics that all trials have. Raises ResultError."""
    numbers = [t.trial for t in trials]
    if len(set(numbers)) != len(numbers):
        raise ResultError(f"trials: a trial number stands twice in {numbers}")
    metrics = set.intersection(*(set(t.metrics) for t in trials))
    if not metrics:
        raise ResultError("trials: no metric is in all of them")
    return sorted(metrics)


def store_environment(machine: Machine, document: EnvironmentDocument) -> Environment:
    """The environment's row. Raises ResultError if its digest is not that of its facts."""
    digest = definitions.digest_of(document.series)
    if digest != document.digest:
        raise ResultError(f"environment.digest is {document.digest}, but the facts under series have {digest}")
    environment, _ = Environment.objects.get_or_create(
        machine=machine, digest=digest, defaults={"facts": {"series": document.series, "recorded": document.recorded}}
    )
    return environment


def store_trials(attempt: Attempt, benchmark: Benchmark, commit: Commit, trials: list[TrialDocument]) -> None:
    Trial.objects.bulk_create(
        Trial(
            attempt=attempt,
            benchmark=benchmark,
            commit=commit,
            number=t.trial,
            order=t.order,
            started_at=t.started_at,
            seconds=t.seconds,
            flags=t.flags,
            driver=t.driver,
        )
        for t in trials
    )


def store_measurement(attempt: Attempt, series: Series, commit: Commit, trials: list[TrialDocument]) -> None:
    """One metric's samples and their summary. Clean trials alone make the summary, if there are any."""
    voids = METRICS[series.metric].voided_by
    clean = [t for t in trials if not voids.intersection(t.flags)]
    flags = sorted({f for t in trials for f in t.flags if f in voids}) if not clean else []
    estimate = summarize([t.metrics[series.metric] for t in clean or trials])
    measurement = Measurement.objects.create(
        attempt=attempt,
        series=series,
        commit=commit,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        flags=flags,
        paired=attempt.run.paired,
    )
    Sample.objects.bulk_create(
        Sample(
            measurement=measurement,
            trial=t.trial,
            value=t.metrics[series.metric],
            flagged=bool(voids.intersection(t.flags)),
        )
        for t in trials
    )
