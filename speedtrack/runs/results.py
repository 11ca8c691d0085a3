"""Accept a runner's measurement: check it against its run, then store it once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import models, transaction
from django.db.models.functions import Now

from speedtrack.benchmarks.digests import json_digest
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.projects.models import Commit
from speedtrack.runs import packing, queue
from speedtrack.runs.documents import EnvironmentDocument, ProfileDocument, ResultDocument, TrialDocument
from speedtrack.runs.models import (
    TRIAL_PARTS,
    Attempt,
    Environment,
    Machine,
    Measurement,
    Result,
    Run,
    Samples,
    Series,
    Trial,
)
from speedtrack.runs.rates import Member, members_of
from speedtrack.stats.summary import summarize

MetricSamples = list[tuple[int, float, list[str]]]  # trial, value, flags
CLOCK_AHEAD = timedelta(days=1)  # a machine whose clock is further ahead of the database's is wrong


class ResultError(Exception):
    """The document does not fit its run; the message says which part of it."""


class Contradiction(Exception):
    """The attempt has already sent a different document for the same thing; the first one stays."""


@dataclass(frozen=True)
class Source:
    """Where trials come from."""

    attempt: Attempt
    commit: Commit
    result: ResultDocument


@transaction.atomic
def accept_result(machine: Machine, run_id: int, result: ResultDocument) -> None:
    """Store one measurement per metric, with all samples. The same document again changes nothing.

    Raises queue.LeaseLost for an old token, ResultError for a document that does not fit its run, and Contradiction
    for a second document of the same benchmark and side with different contents.
    """
    run = queue.held_run(machine, run_id, result.token)
    commit = queue.side_of(run, result.side, result.sha)
    check_frozen(run, result)
    benchmark = benchmark_in_run(run, result)
    environment = store_environment(machine, result.environment)
    attempt = check_clock(run, result.trials)
    samples = samples_by_metric(result, check_trials(result.trials))
    source = Source(attempt, commit, result)
    if sent := Result.objects.filter(attempt=attempt, benchmark=benchmark.id, side=result.side).first():
        check_repetition(source, sent, samples)
        return
    Trial.objects.bulk_create(trial_rows(store_document(source, benchmark), result.trials))
    place = {"project_id": run.project_id, "benchmark_id": benchmark.id, "machine": machine, "environment": environment}
    wanted = [Series(metric=metric, **place) for metric in samples]
    store_measurements(source, [(series, samples[series.metric]) for series in stored_series(wanted)])


def check_frozen(run: Run, result: ResultDocument) -> None:
    """Raise ResultError if a canary's run measured other artifacts than the frozen ones."""
    if run.canary and run.canary.artifacts != result.artifacts:
        raise ResultError(f"artifacts: run {run.pk} is of a canary, frozen as {run.canary.artifacts}: drop the work")


def benchmark_in_run(run: Run, result: ResultDocument | ProfileDocument) -> Member:
    """The benchmark that a document names. Raises ResultError if its run does not measure it."""
    name, digest = result.benchmark.name, result.benchmark.digest
    for one in members_of(run.benchmark_set_id):
        if (one.name, one.digest) == (name, digest):
            return one
    raise ResultError(f"run {run.pk} does not measure {name} with digest {digest}")


def check_trials(trials: Sequence[TrialDocument]) -> list[str]:
    """The metrics that all trials have. Raises ResultError if there is none, or if a trial number occurs twice."""
    numbers = [t.trial for t in trials]
    if len(set(numbers)) != len(numbers):
        raise ResultError(f"trials: a trial number occurs twice in {numbers}")
    metrics = set.intersection(*(set(t.metrics) for t in trials))
    if not metrics:
        raise ResultError("trials: no metric is in all of them")
    return sorted(metrics)


def check_clock(run: Run, trials: Sequence[TrialDocument]) -> Attempt:
    """The run's attempt. Raises ResultError if a trial began in the future by the database's clock."""
    attempt = run.attempts.annotate(latest=Now() + CLOCK_AHEAD).get(token=run.lease_token)
    for t in trials:
        if t.started_at > attempt.latest:
            raise ResultError(
                f"trials: trial {t.trial} began at {t.started_at}, in the future: set the machine's clock"
            )
    return attempt


def samples_by_metric(result: ResultDocument, metrics: list[str]) -> dict[str, MetricSamples]:
    """The samples (trial, value, flags) of each metric."""
    samples = {metric: [(t.trial, t.metrics[metric], t.flags) for t in result.trials] for metric in metrics}
    return samples | {metric: [(0, value, [])] for metric, value in result.once.items()}


def check_same(what: str, sent: Sequence[models.Model], again: Sequence[models.Model]) -> None:
    """Raise Contradiction if the stored rows differ from those of the document that came now."""
    if [stored_content(row) for row in sent] != [stored_content(row) for row in again]:
        raise Contradiction(f"this attempt has sent another {what}, which stays: measure again in another run")


def stored_content(row: models.Model) -> dict[str, Any]:
    """The columns of a row that come from the runner: all except those that the database fills."""
    fields = [field for field in row._meta.concrete_fields if field.name not in ("id", "created")]
    return {field.attname: getattr(row, field.attname) for field in fields}


def check_repetition(source: Source, sent: Result, samples: Mapping[str, MetricSamples]) -> None:
    """Raise Contradiction if the document differs from the one that is stored."""
    what = f"measurement of {source.result.benchmark.name}, side {sent.side}"
    check_same(what, list(sent.trials.order_by("number")), trial_rows(sent, source.result.trials))
    stored = Samples.objects.filter(
        measurement__attempt=sent.attempt_id,
        measurement__series__benchmark=sent.benchmark_id,
        measurement__series__environment__digest=source.result.environment.digest,
        measurement__side=sent.side,
    ).select_related("measurement__series")
    again = {metric: {trial: value for trial, value, _ in found} for metric, found in samples.items()}
    is_same = {one.measurement.series.metric: one.by_trial for one in stored} == again
    if not is_same or list(sent.unpacked()) != trial_documents(source.result.trials):
        raise Contradiction(f"this attempt has sent another {what}, which stays: measure again in another run")


def store_environment(machine: Machine, document: EnvironmentDocument) -> Environment:
    """The environment's row, made if it is missing. Raises ResultError if the digest is not that of the facts."""
    digest = json_digest(document.series)
    if digest != document.digest:
        raise ResultError(f"environment.digest is {document.digest}, but the facts under series have {digest}")
    environment, _ = Environment.objects.defer("facts").get_or_create(
        machine=machine, digest=digest, defaults={"facts": {"series": document.series, "recorded": document.recorded}}
    )
    return environment


def store_document(source: Source, benchmark: Member) -> Result:
    """The row of a document, with what its trials report about themselves."""
    result = source.result
    documents = trial_documents(result.trials)
    return Result.objects.create(
        attempt=source.attempt,
        benchmark_id=benchmark.id,
        side=result.side,
        stopping=result.stopping and result.stopping.model_dump(),
        repeatable=documents[0]["trial"] == 0 and "reproduce" in documents[0],
        documents=packing.pack(documents),
    )


def trial_documents(trials: Iterable[TrialDocument]) -> list[dict[str, Any]]:
    """What is stored of each trial's document beside its row, by number."""
    return [
        {"trial": t.trial} | {part: value for part, value in t.model_dump(include=set(TRIAL_PARTS)).items() if value}
        for t in by_number(trials)
    ]


def trial_rows(result: Result, trials: Iterable[TrialDocument]) -> list[Trial]:
    """The rows of a document's trials, by number."""
    return [
        Trial(result=result, number=t.trial, order=t.order, started_at=t.started_at, seconds=t.seconds, flags=t.flags)
        for t in by_number(trials)
    ]


def by_number(trials: Iterable[TrialDocument]) -> list[TrialDocument]:
    return sorted(trials, key=lambda t: t.trial)


def stored_series(wanted: Sequence[Series]) -> list[Series]:
    """The rows of these series of one benchmark in one environment, made where they are missing."""
    one = wanted[0]
    same = Series.objects.filter(
        project=one.project_id, benchmark=one.benchmark_id, machine=one.machine_id, environment=one.environment_id
    )
    known = {series.metric: series for series in same.filter(metric__in=[series.metric for series in wanted])}
    if missing := [series for series in wanted if series.metric not in known]:
        Series.objects.bulk_create(missing, ignore_conflicts=True)
        known |= {series.metric: series for series in same.filter(metric__in=[series.metric for series in missing])}
    return [known[series.metric] for series in wanted]


def store_measurements(source: Source, found: Sequence[tuple[Series, MetricSamples]]) -> None:
    """Store the samples of each series, and their summary."""
    measurements = Measurement.objects.bulk_create(measurement_row(source, *one) for one in found)
    Samples.objects.bulk_create(
        samples_row(measurement, samples) for measurement, (_, samples) in zip(measurements, found, strict=True)
    )


def samples_row(measurement: Measurement, samples: MetricSamples) -> Samples:
    """The samples of a measurement in the places of their trials."""
    values: list[float | None] = [None] * (1 + max(trial for trial, _, _ in samples))
    for trial, value, _ in samples:
        values[trial] = value
    voids = METRICS[measurement.series.metric].voided_by
    flagged = [trial for trial, _, flags in samples if not voids.isdisjoint(flags)]
    return Samples(measurement=measurement, values=values, flagged=flagged or None)


def measurement_row(source: Source, series: Series, samples: MetricSamples) -> Measurement:
    """The summary of a series' samples: of the clean ones, or of all if none is."""
    voids = METRICS[series.metric].voided_by
    clean = [value for _, value, flags in samples if not voids.intersection(flags)]
    flagged = sorted({flag for _, _, flags in samples for flag in flags if flag in voids}) if not clean else []
    estimate = summarize(clean or [value for _, value, _ in samples])
    return Measurement(
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
    )
