"""Accept a runner's measurement: check it against its run, then store it once."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Commit
from speedtrack.runs import jobs, queue
from speedtrack.runs.documents import EnvironmentDocument, ProfileDocument, Result, TrialDocument
from speedtrack.runs.models import Attempt, Environment, Machine, Measurement, Run, Sample, Series, Trial
from speedtrack.stats.summary import summarize


class ResultError(Exception):
    """The document does not fit its run; the message says where."""


@dataclass(frozen=True)
class Source:
    """Whose trials these are."""

    attempt: Attempt
    commit: Commit
    result: Result


@transaction.atomic
def accept(machine: Machine, run_id: int, result: Result) -> None:
    """Store one measurement of each metric, with every sample. The same document again changes nothing.

    Raises queue.LeaseLost for an old token and ResultError for a document that does not fit its run.
    """
    run = queue.held(machine, run_id, result.token)
    commit = queue.side_of(run, result.side, result.sha)
    check_frozen(run, result)
    benchmark = benchmark_of(run, result)
    environment = store_environment(machine, result.environment)
    attempt = queue.attempt_of(run)
    metrics = check_trials(result.trials)
    if Trial.objects.filter(attempt=attempt, benchmark=benchmark, side=result.side).exists():
        return
    source = Source(attempt, commit, result)
    store_trials(source, benchmark)
    samples = {metric: [(t.trial, t.metrics[metric], t.flags) for t in result.trials] for metric in metrics}
    samples |= {metric: [(0, value, [])] for metric, value in result.once.items()}
    for metric, found in samples.items():
        series, _ = Series.objects.get_or_create(
            project=run.project, benchmark=benchmark, metric=metric, machine=machine, environment=environment
        )
        store_measurement(source, series, found)


def check_frozen(run: Run, result: Result) -> None:
    """Raises ResultError if a canary's run measured anything but what was frozen."""
    if run.canary and run.canary.artifacts != result.artifacts:
        raise ResultError(f"artifacts: run {run.pk} is of a canary, frozen as {run.canary.artifacts}: drop the work")


def benchmark_of(run: Run, result: Result | ProfileDocument) -> Benchmark:
    """The benchmark that a document speaks of. Raises ResultError if its run has no such one."""
    for benchmark in jobs.benchmarks_of(run):
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


def store_trials(source: Source, benchmark: Benchmark) -> None:
    Trial.objects.bulk_create(
        Trial(
            attempt=source.attempt,
            benchmark=benchmark,
            commit=source.commit,
            side=source.result.side,
            number=t.trial,
            order=t.order,
            started_at=t.started_at,
            seconds=t.seconds,
            flags=t.flags,
            pairing=t.pairing,
            quiet=t.quiet,
            server=t.server,
            reproduce=t.reproduce and t.reproduce.model_dump(),
            driver=t.driver,
        )
        for t in source.result.trials
    )


def store_measurement(source: Source, series: Series, samples: list[tuple[int, float, list[str]]]) -> None:
    """One metric's samples (trial, value, flags) and their summary. Clean ones alone make it, if there are any."""
    stopping = source.result.stopping
    voids = METRICS[series.metric].voided_by
    clean = [value for _, value, flags in samples if not voids.intersection(flags)]
    flagged = sorted({flag for _, _, flags in samples for flag in flags if flag in voids}) if not clean else []
    estimate = summarize(clean or [value for _, value, _ in samples])
    measurement = Measurement.objects.create(
        attempt=source.attempt,
        series=series,
        commit=source.commit,
        side=source.result.side,
        value=estimate.value,
        low=estimate.low,
        high=estimate.high,
        n=estimate.n,
        flags=flagged,
        paired=source.attempt.run.paired,
        stopping=stopping.model_dump() if stopping else None,
    )
    Sample.objects.bulk_create(
        Sample(measurement=measurement, trial=trial, value=value, flagged=bool(voids.intersection(flags)))
        for trial, value, flags in samples
    )
