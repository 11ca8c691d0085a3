"""Accept a runner's measurement: check it against its run, then store it once."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import models, transaction
from psycopg.types.json import Jsonb

from speedtrack.benchmarks.digests import json_digest
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.ground.observing import failpoints
from speedtrack.ground.postgres.pgvalues import array_text, row_of
from speedtrack.ground.postgres.words import joined
from speedtrack.projects.models import Commit
from speedtrack.runs import packing
from speedtrack.runs.documents import ProfileReport, ReportedEnvironment, ReportedTrial, ResultDocument
from speedtrack.runs.models import Environment, Machine, Result, Run, Samples, Series
from speedtrack.runs.queue import fence
from speedtrack.runs.queue.jobs import Member, members_of
from speedtrack.stats.summary import Estimate, summarize

MetricSamples = list[tuple[int, float, list[str]]]  # trial, value, flags
CLOCK_AHEAD = timedelta(days=1)  # a machine whose clock is further ahead of the database's is wrong


class ResultError(Exception):
    """The document does not fit its run; the message says which part of it."""


class Contradiction(Exception):
    """The attempt has already sent a different document for the same thing; the first one stays."""


@dataclass(frozen=True)
class DocumentRows:
    """The rows that a document belongs to.

    ``series``: ids of the series that exist, by metric. ``latest``: the trials must have begun before this time.
    """

    run: Run
    benchmark: Member
    commit: Commit
    attempt_id: int
    latest: datetime
    environment_id: int | None
    sent_id: int | None
    series: dict[str, int]


# All of that at once, because a run sends as many documents as it has benchmarks.
PLACE = """
SELECT a.id, statement_timestamp() + %(ahead)s, e.id, r.id, (
           SELECT coalesce(jsonb_object_agg(s.metric, s.id), '{}') FROM runs_series s
            WHERE s.project_id = %(project)s AND s.benchmark_id = %(benchmark)s AND s.machine_id = %(machine)s
              AND s.environment_id = e.id)::text
  FROM runs_attempt a
  LEFT JOIN runs_environment e ON e.machine_id = %(machine)s AND e.digest = %(digest)s
  LEFT JOIN runs_result r ON r.attempt_id = a.id AND r.benchmark_id = %(benchmark)s AND r.side = %(side)s
 WHERE a.run_id = %(run)s AND a.token = %(token)s
"""
# The document with its trials, measurements and samples. Arrays of arrays would need equal lengths, so they are texts.
STORED = """
WITH result AS (
    INSERT INTO runs_result (attempt_id, benchmark_id, side, stopping, repeatable, documents, layouts, no_layouts)
    VALUES (%(attempt)s, %(benchmark)s, %(side)s, %(stopping)s, %(repeatable)s, %(documents)s, %(layouts)s,
            %(no_layouts)s)
    RETURNING id
), trials AS (
    INSERT INTO runs_trial (result_id, number, "order", started_at, seconds, flags)
    SELECT result.id, t.number, t.place, t.started_at, t.seconds, t.flags::varchar[]
      FROM result
     CROSS JOIN unnest(%(numbers)s::smallint[], %(orders)s::int[], %(starts)s::timestamptz[], %(lengths)s::float8[],
                       %(trial_flags)s::text[]) AS t (number, place, started_at, seconds, flags)
), measured AS (
    INSERT INTO runs_measurement (attempt_id, series_id, commit_id, side, value, low, high, n, flags, paired, accepted)
    SELECT %(attempt)s, m.series, %(commit)s, %(side)s, m.value, m.low, m.high, m.n, m.flags, %(paired)s, false
      FROM unnest(%(series)s::int[], %(values)s::float8[], %(lows)s::float8[], %(highs)s::float8[],
                  %(counts)s::smallint[], %(flags)s::text[]) AS m (series, value, low, high, n, flags)
    RETURNING id, series_id
)
INSERT INTO runs_samples (measurement_id, values, flagged)
SELECT measured.id, s.values::float8[], s.flagged::smallint[]
  FROM measured
  JOIN unnest(%(series)s::int[], %(samples)s::text[], %(flagged)s::text[]) AS s (series, values, flagged)
    ON s.series = measured.series_id
RETURNING true
"""


@transaction.atomic
def accept_result(machine: Machine, run_id: int, result: ResultDocument) -> None:
    """Store one measurement per metric, with all samples. The same document again changes nothing.

    Raises fence.LeaseLost for an old token, ResultError for a document that does not fit its run, and Contradiction
    for a second document of the same benchmark and side with different contents.
    """
    run = fence.held_run(machine, run_id, result.token)
    commit = fence.side_of(run, result.side, result.sha)
    check_frozen(run, result)
    benchmark = benchmark_in_run(run, result)
    check_digest(result.environment)
    rows = rows_of(run, benchmark, commit, result)
    check_clock(rows.latest, result.trials)
    samples = samples_by_metric(result, check_trials(result.trials))
    if rows.sent_id is None:
        store(rows, result, samples)
    else:
        check_repetition(Result.objects.get(pk=rows.sent_id), result, samples)
    failpoints.reach("measurement.before_commit")


def rows_of(run: Run, benchmark: Member, commit: Commit, result: ResultDocument) -> DocumentRows:
    parameters: dict[str, Any] = {
        "ahead": CLOCK_AHEAD,
        "project": run.project_id,
        "machine": run.machine_id,
        "benchmark": benchmark.id,
        "digest": result.environment.digest,
        "side": result.side,
        "run": run.pk,
        "token": run.lease_token,
    }
    attempt_id, latest, environment_id, sent_id, series = row_of(PLACE, parameters)
    return DocumentRows(run, benchmark, commit, attempt_id, latest, environment_id, sent_id, json.loads(series))


def check_frozen(run: Run, result: ResultDocument) -> None:
    """Raise ResultError if a canary's run measured other artifacts than the frozen ones."""
    if run.canary and run.canary.artifacts != result.artifacts:
        raise ResultError(f"artifacts: run {run.pk} is of a canary, frozen as {run.canary.artifacts}: drop the work")


def benchmark_in_run(run: Run, result: ResultDocument | ProfileReport) -> Member:
    """The benchmark that a document names. Raises ResultError if its run does not measure it."""
    name, digest = result.benchmark.name, result.benchmark.digest
    for member in members_of(run.benchmark_set_id):
        if (member.name, member.digest) == (name, digest):
            return member
    raise ResultError(f"run {run.pk} does not measure {name} with digest {digest}")


def check_trials(trials: Sequence[ReportedTrial]) -> list[str]:
    """The metrics that all trials have. Raises ResultError if there is none, or if a trial number occurs twice."""
    numbers = [t.trial for t in trials]
    if len(set(numbers)) != len(numbers):
        raise ResultError(f"trials: a trial number occurs twice in {numbers}")
    metrics = set.intersection(*(set(t.metrics) for t in trials))
    if not metrics:
        raise ResultError("trials: no metric is in all of them")
    return sorted(metrics)


def check_clock(latest: datetime, trials: Sequence[ReportedTrial]) -> None:
    """Raise ResultError if a trial began in the future by the database's clock."""
    for t in trials:
        if t.started_at > latest:
            raise ResultError(
                f"trials: trial {t.trial} began at {t.started_at}, in the future: set the machine's clock"
            )


def samples_by_metric(result: ResultDocument, metrics: list[str]) -> dict[str, MetricSamples]:
    """For each metric its samples, as (trial number, value, flags)."""
    samples = {metric: [(t.trial, t.metrics[metric], t.flags) for t in result.trials] for metric in metrics}
    return samples | {metric: [(0, value, [])] for metric, value in result.once.items()}


def check_same(subject: str, stored_rows: Sequence[models.Model], again: Sequence[models.Model]) -> None:
    """Raise Contradiction if stored rows differ from those of the document that came now (``again``)."""
    if [stored_content(row) for row in stored_rows] != [stored_content(row) for row in again]:
        raise Contradiction(f"this attempt has sent another {subject}, which stays: measure again in another run")


def stored_content(row: models.Model) -> dict[str, Any]:
    """The columns of a row that come from the runner: all except those that the database fills."""
    fields = [field for field in row._meta.concrete_fields if field.name not in ("id", "created")]
    return {field.attname: getattr(row, field.attname) for field in fields}


def check_repetition(earlier: Result, result: ResultDocument, samples: Mapping[str, MetricSamples]) -> None:
    """Raise Contradiction if a document differs from the stored one of the same benchmark and side."""
    stored_samples = Samples.objects.filter(
        measurement__attempt=earlier.attempt_id,
        measurement__series__benchmark=earlier.benchmark_id,
        measurement__series__environment__digest=result.environment.digest,
        measurement__side=earlier.side,
    ).select_related("measurement__series")
    again = {metric: {trial: value for trial, value, _ in metric_samples} for metric, metric_samples in samples.items()}
    trials = by_number(result.trials)
    is_same = (
        list(earlier.trials.order_by("number").values_list(*TRIAL_COLUMNS)) == [trial_columns(t) for t in trials]
        and {row.measurement.series.metric: row.by_trial for row in stored_samples} == again
        and packing.canonical(earlier.unpacked()) == packing.canonical(map(trial_document, trials))
    )
    if not is_same:
        subject = f"measurement of {result.benchmark.name}, side {earlier.side}"
        raise Contradiction(f"this attempt has sent another {subject}, which stays: measure again in another run")


def check_digest(document: ReportedEnvironment) -> None:
    """Raise ResultError if an environment's digest is not that of its facts."""
    digest = json_digest(document.series)
    if digest != document.digest:
        raise ResultError(f"environment.digest is {document.digest}, but the facts under series have {digest}")


def store_environment(machine_id: int, document: ReportedEnvironment) -> Environment:
    """The environment's row, created if it is missing. Raises ResultError if the digest does not fit the facts."""
    check_digest(document)
    facts = {"series": document.series, "recorded": document.recorded}
    rows = Environment.objects.defer("facts")
    return rows.get_or_create(machine_id=machine_id, digest=document.digest, defaults={"facts": facts})[0]


TRIAL_COLUMNS = ("number", "order", "started_at", "seconds", "flags")


def trial_columns(t: ReportedTrial) -> tuple[int, int, datetime, float, list[str]]:
    """The values of a trial's row, in the order of TRIAL_COLUMNS."""
    return t.trial, t.order, t.started_at, t.seconds, t.flags


def trial_document(t: ReportedTrial) -> dict[str, Any]:
    """The part of a trial that is stored in the packed document instead of its row."""
    document = {"trial": t.trial, "pairing": t.pairing, "quiet": t.quiet, "server": t.server, "driver": t.driver}
    document["layout"] = t.layout
    if t.reproduce:
        document["reproduce"] = t.reproduce.model_dump(exclude_none=True)
    return {key: value for key, value in document.items() if value or key == "trial"}


def by_number(trials: Iterable[ReportedTrial]) -> list[ReportedTrial]:
    return sorted(trials, key=lambda t: t.trial)


def store(rows: DocumentRows, result: ResultDocument, samples: Mapping[str, MetricSamples]) -> None:
    """Store a document with its trials, and for each metric a measurement with its samples and their summary."""
    trials = by_number(result.trials)
    documents = [trial_document(t) for t in trials]
    series = rows.series if samples.keys() <= rows.series.keys() else stored_series(rows, result, samples)
    summaries = [summary_of(metric, metric_samples) for metric, metric_samples in samples.items()]
    numbers, orders, starts, lengths, flags = zip(*map(trial_columns, trials), strict=True)
    row: dict[str, Any] = {
        "attempt": rows.attempt_id,
        "benchmark": rows.benchmark.id,
        "commit": rows.commit.pk,
        "side": result.side,
        "stopping": Jsonb(stopping) if (stopping := result.how_it_ended()) else None,
        "repeatable": trials[0].trial == 0 and trials[0].reproduce is not None,
        "documents": packing.pack(documents),
        "layouts": len({t.layout for t in trials if t.layout}),
        "no_layouts": result.layouts.refusal if result.layouts else "",
        "numbers": array_text(numbers),
        "orders": array_text(orders),
        "starts": list(starts),
        "lengths": array_text(lengths),
        "trial_flags": [array_text(trial_flags) for trial_flags in flags],
        "series": array_text(series[metric] for metric in samples),
        "values": array_text(summary.estimate.value for summary in summaries),
        "lows": array_text(summary.estimate.low for summary in summaries),
        "highs": array_text(summary.estimate.high for summary in summaries),
        "counts": array_text(summary.estimate.n for summary in summaries),
        "flags": [joined(summary.flags) for summary in summaries],
        "samples": [array_text(values_by_trial(metric_samples)) for metric_samples in samples.values()],
        "flagged": [array_text(summary.flagged) if summary.flagged else None for summary in summaries],
        "paired": rows.run.paired,
    }
    row_of(STORED, row)


def stored_series(rows: DocumentRows, result: ResultDocument, metrics: Iterable[str]) -> dict[str, int]:
    """By metric: the id of its series. Missing series and a missing environment are created."""
    environment = store_environment(rows.run.machine_id, result.environment)
    where = {
        "project": rows.run.project_id,
        "benchmark": rows.benchmark.id,
        "machine": rows.run.machine_id,
        "environment": environment.pk,
    }
    missing = [
        Series(metric=metric, **{f"{name}_id": pk for name, pk in where.items()})
        for metric in metrics
        if metric not in rows.series
    ]
    Series.objects.bulk_create(missing, ignore_conflicts=True)
    return dict(Series.objects.filter(**where).values_list("metric", "pk"))


def values_by_trial(samples: MetricSamples) -> list[float | None]:
    """The values at the indexes of their trials; None for a trial without a value."""
    values: list[float | None] = [None] * (1 + max(trial for trial, _, _ in samples))
    for trial, value, _ in samples:
        values[trial] = value
    return values


@dataclass(frozen=True)
class SampleSummary:
    """The estimate from the clean samples of a series. If no sample is clean, all are used and ``flags`` says so.

    ``flagged``: numbers of the trials with a flag that voids the metric.
    """

    estimate: Estimate
    flags: list[str]
    flagged: list[int]


def summary_of(metric: str, samples: MetricSamples) -> SampleSummary:
    voids = METRICS[metric].voided_by
    flagged = [trial for trial, _, flags in samples if not voids.isdisjoint(flags)]
    clean = [value for _, value, flags in samples if voids.isdisjoint(flags)]
    if clean:
        return SampleSummary(summarize(clean), [], flagged)
    flags = sorted({flag for _, _, flags in samples for flag in flags if flag in voids})
    return SampleSummary(summarize([value for _, value, _ in samples]), flags, flagged)
