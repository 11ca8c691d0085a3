"""Accept a runner's measurement: check it against its run, then store it once."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import models, transaction
from django.db.models.functions import Now

from speedtrack.benchmarks.digests import json_digest
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Commit
from speedtrack.runs import queue
from speedtrack.runs.documents import EnvironmentDocument, ProfileDocument, ResultDocument, TrialDocument
from speedtrack.runs.models import Attempt, Environment, Machine, Measurement, Run, Sample, Series, Trial
from speedtrack.stats.summary import summarize

Samples = dict[str, list[tuple[int, float, list[str]]]]  # by metric: trial, value, flags
CLOCK_AHEAD = timedelta(days=1)  # of the database's; beyond, the machine's clock is wrong


class ResultError(Exception):
    """The document does not fit its run; the message says where."""


class Contradiction(Exception):
    """The same attempt has already sent another document of the same thing; the first one stays."""


@dataclass(frozen=True)
class Source:
    """Whose trials these are."""

    attempt: Attempt
    commit: Commit
    result: ResultDocument


@transaction.atomic
def accept_result(machine: Machine, run_id: int, result: ResultDocument) -> None:
    """Store one measurement of each metric, with every sample. The same document again changes nothing.

    Raises queue.LeaseLost for an old token, ResultError for a document that does not fit its run, and Contradiction
    for a second one of the same benchmark and side with other contents.
    """
    run = queue.held_run(machine, run_id, result.token)
    commit = queue.side_of(run, result.side, result.sha)
    check_frozen(run, result)
    benchmark = benchmark_in_run(run, result)
    environment = store_environment(machine, result.environment)
    attempt = queue.attempt_of(run)
    check_clock(attempt, result.trials)
    samples = samples_by_metric(result, check_trials(result.trials))
    source = Source(attempt, commit, result)
    trials = trial_rows(source, benchmark)
    if sent := list(Trial.objects.filter(attempt=attempt, benchmark=benchmark, side=result.side).order_by("number")):
        check_same(f"measurement of {benchmark.name}, side {result.side}", sent, trials)
        check_same_samples(source, benchmark, samples)
        return
    Trial.objects.bulk_create(trials)
    for metric, found in samples.items():
        series, _ = Series.objects.get_or_create(
            project=run.project, benchmark=benchmark, metric=metric, machine=machine, environment=environment
        )
        store_measurement(source, series, found)


def check_frozen(run: Run, result: ResultDocument) -> None:
    """Raises ResultError if a canary's run measured anything but what was frozen."""
    if run.canary and run.canary.artifacts != result.artifacts:
        raise ResultError(f"artifacts: run {run.pk} is of a canary, frozen as {run.canary.artifacts}: drop the work")


def benchmark_in_run(run: Run, result: ResultDocument | ProfileDocument) -> Benchmark:
    """The benchmark that a document speaks of. Raises ResultError if its run has no such one."""
    name, digest = result.benchmark.name, result.benchmark.digest
    benchmark = Benchmark.objects.filter(sets=run.benchmark_set_id, name=name, digest=digest).first()
    if benchmark is None:
        raise ResultError(f"run {run.pk} does not measure {name} with digest {digest}")
    return benchmark


def check_trials(trials: Sequence[TrialDocument]) -> list[str]:
    """The metrics that all trials have. Raises ResultError."""
    numbers = [t.trial for t in trials]
    if len(set(numbers)) != len(numbers):
        raise ResultError(f"trials: a trial number stands twice in {numbers}")
    metrics = set.intersection(*(set(t.metrics) for t in trials))
    if not metrics:
        raise ResultError("trials: no metric is in all of them")
    return sorted(metrics)


def check_clock(attempt: Attempt, trials: Sequence[TrialDocument]) -> None:
    """Raises ResultError if a trial is said to have begun in the future, by the database's clock."""
    latest = Attempt.objects.filter(pk=attempt.pk).values_list(Now() + CLOCK_AHEAD, flat=True).get()
    for t in trials:
        if t.started_at > latest:
            raise ResultError(
                f"trials: trial {t.trial} began at {t.started_at}, which is to come: set the machine's clock"
            )


def samples_by_metric(result: ResultDocument, metrics: list[str]) -> Samples:
    """Of each metric the samples (trial, value, flags)."""
    samples = {metric: [(t.trial, t.metrics[metric], t.flags) for t in result.trials] for metric in metrics}
    return samples | {metric: [(0, value, [])] for metric, value in result.once.items()}


def check_same(what: str, sent: Sequence[models.Model], again: Sequence[models.Model]) -> None:
    """Raises Contradiction if rows that are stored differ from those that the same thing would make now."""
    if [stored_content(row) for row in sent] != [stored_content(row) for row in again]:
        raise Contradiction(f"this attempt has sent another {what}, which stays: measure again in another run")


def stored_content(row: models.Model) -> dict[str, Any]:
    """What a runner said of a row: all columns but those that the database fills."""
    fields = [field for field in row._meta.concrete_fields if field.name not in ("id", "created")]
    return {field.attname: getattr(row, field.attname) for field in fields}


def check_same_samples(source: Source, benchmark: Benchmark, samples: Samples) -> None:
    """Raises Contradiction if other values, or another environment, are stored of a measurement."""
    stored = Sample.objects.filter(
        measurement__attempt=source.attempt,
        measurement__series__benchmark=benchmark,
        measurement__series__environment__digest=source.result.environment.digest,
        measurement__side=source.result.side,
    ).values_list("measurement__series__metric", "trial", "value")
    if set(stored) != {(metric, trial, value) for metric, found in samples.items() for trial, value, _ in found}:
        raise Contradiction(f"this attempt has sent another measurement of {benchmark.name}, which stays")


def store_environment(machine: Machine, document: EnvironmentDocument) -> Environment:
    """The environment's row. Raises ResultError if its digest is not that of its facts."""
    digest = json_digest(document.series)
    if digest != document.digest:
        raise ResultError(f"environment.digest is {document.digest}, but the facts under series have {digest}")
    environment, _ = Environment.objects.get_or_create(
        machine=machine, digest=digest, defaults={"facts": {"series": document.series, "recorded": document.recorded}}
    )
    return environment


def trial_rows(source: Source, benchmark: Benchmark) -> list[Trial]:
    """The rows of a document's trials, by number."""
    return [
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
        for t in sorted(source.result.trials, key=lambda t: t.trial)
    ]


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
