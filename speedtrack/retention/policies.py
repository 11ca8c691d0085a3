"""The policies: the rows to delete, the number of days, and the setting that changes it.

Measurements with their summaries, runs, commits, change points and alerts are kept for ever, and so is the outbox: its
rows prevent a second mail about one event.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.db.models.expressions import RawSQL

from speedtrack.accounts.models import AuditEntry
from speedtrack.projects.models import Delivery, Refusal
from speedtrack.retention import kept
from speedtrack.retention.models import Pruning
from speedtrack.runs.models import (
    Alarm,
    Attempt,
    LogChunk,
    MachineEvent,
    Measurement,
    Profile,
    Reason,
    Result,
    Run,
    RunEvent,
    Samples,
    Status,
    Trial,
)

Rows = QuerySet[Any]
Ids = Sequence[int]

# The rows of attempts, without those of the (attempt, benchmark) that are kept. Lateral: an index finds them.
FREE = """
    SELECT own.id
      FROM unnest(%s::bigint[]) AS attempt (id)
CROSS JOIN LATERAL ({rows} OFFSET 0) own
      JOIN benchmarks_benchmark b ON b.id = own.benchmark_id
     WHERE (attempt.id, b.name) NOT IN (SELECT * FROM unnest(%s::bigint[], %s::text[]))
"""
FREE_RESULTS = FREE.format(rows="SELECT r.id, r.benchmark_id FROM runs_result r WHERE r.attempt_id = attempt.id")
FREE_MEASUREMENTS = FREE.format(
    rows="SELECT m.id, s.benchmark_id FROM runs_measurement m JOIN runs_series s ON s.id = m.series_id"
    " WHERE m.attempt_id = attempt.id"
)


@dataclass(frozen=True)
class PolicyPart:
    """The part of a policy whose rows become old together.

    ``dated``: the rows whose age is in ``time``; ``kept``: returns the ids to keep among given ones. ``going``: the
    rows to delete for given ids, in this order and in one transaction of at most ``at_once`` ids. ``every``: all rows
    of the last kind, to compare the number of deleted rows with. ``column``: it is set to null, and the rows stay.
    """

    dated: Callable[[], Rows]
    kept: Callable[[Ids], set[int]]
    time: str
    at_once: int
    every: Callable[[], Rows]
    going: Callable[[Ids], list[Rows]]
    column: str = ""


@dataclass(frozen=True)
class Policy:
    """``what``: the deleted rows in words; ``setting``: the environment variable with the number of days."""

    name: str
    what: str
    setting: str
    parts: tuple[PolicyPart, ...]

    @property
    def days(self) -> int:
        """The number of days after which it deletes; 0: never."""
        return int(settings.KEEP_DAYS[self.name])

    @property
    def deletion(self) -> str:
        """The sentence about deleted data on pages."""
        return f"deleted after {self.days} days by retention" if self.days else "deleted by retention"

    @property
    def rule(self) -> str:
        """The policy as a sentence."""
        subject = f"{self.what[0].upper()}{self.what[1:]}"
        return f"{subject} are {self.deletion}." if self.days else f"{subject} are kept for ever."


def of_attempts(every: Callable[[], Rows], going: Callable[[Ids], list[Rows]]) -> PolicyPart:
    """A part whose rows belong to attempts, and become old after the end of their attempt."""
    return PolicyPart(Attempt.objects.all, kept.held_attempts, "ended_at", 10, every, going)


def of_benchmarks(every: Callable[[], Rows], going: Callable[[Ids], list[Rows]], column: str = "") -> PolicyPart:
    """A part whose rows belong to benchmarks of attempts. ``going`` leaves out rows on which something depends."""
    return PolicyPart(Attempt.objects.all, kept.wholly_held_attempts, "ended_at", 10, every, going, column)


def of_rows(dated: Callable[[], Rows], stay: Callable[[Ids], set[int]], time: str, at_once: int = 2000) -> PolicyPart:
    """A part of rows on which no other rows depend. ``stay``: those to keep; ``time``: the column with their age."""
    every = dated().model._default_manager.all
    return PolicyPart(dated, stay, time, at_once, every, lambda ids: [dated().filter(pk__in=ids)])


def ended_canary_runs() -> Rows:
    return canary_runs().filter(ended_at__isnull=False)


def run_events() -> Rows:
    """Events of runs except cancellations.

    Cancellations determine which runs are queued again when their commits return to a branch.
    """
    return RunEvent.objects.exclude(after=Status.CANCELLED)


def told_machine_events() -> Rows:
    return MachineEvent.objects.filter(untold=False)


def told_alarms() -> Rows:
    return Alarm.objects.filter(untold=False, ended_at__isnull=False)


def finished_deliveries() -> Rows:
    return Delivery.objects.exclude(status=Delivery.Status.RECEIVED)


def documents() -> Rows:
    return Result.objects.filter(documents__isnull=False)


def free_documents(attempts: Ids) -> list[Rows]:
    return [documents().filter(pk__in=free_rows(FREE_RESULTS, attempts, kept.held_benchmarks(attempts)))]


def free_samples(attempts: Ids) -> list[Rows]:
    held_benchmarks = kept.held_benchmarks(attempts)
    return [
        Trial.objects.filter(result__in=free_rows(FREE_RESULTS, attempts, held_benchmarks)),
        Samples.objects.filter(measurement__in=free_rows(FREE_MEASUREMENTS, attempts, held_benchmarks)),
    ]


def free_rows(query: str, attempts: Ids, held_benchmarks: set[tuple[int, str]]) -> RawSQL:
    """A subquery of the ids, as an attempt may have thousands of rows. ``held_benchmarks``: (attempt id, name)."""
    columns = [list(column) for column in zip(*held_benchmarks, strict=True)] or [[], []]
    return RawSQL(query, [list(attempts), *columns])  # noqa: S611 - constants


def raw_samples(attempts: Rows) -> list[Rows]:
    return [
        Trial.objects.filter(result__in=Result.objects.filter(attempt__in=attempts)),
        Samples.objects.filter(measurement__in=Measurement.objects.filter(attempt__in=attempts)),
    ]


def logs(attempts: Ids | Rows) -> list[Rows]:
    return [LogChunk.objects.filter(attempt__in=attempts)]


def profiles(attempts: Ids | Rows) -> list[Rows]:
    return [Profile.objects.filter(attempt__in=attempts)]


def canary_runs() -> Rows:
    return Run.objects.filter(reason=Reason.CANARY)


def whole_runs(runs: Ids) -> list[Rows]:
    """Runs, and first their many large rows; the other rows are deleted with the runs by cascade."""
    attempts = Attempt.objects.filter(run__in=runs)
    summaries = [model._default_manager.filter(attempt__in=attempts) for model in (Result, Measurement)]
    return [*raw_samples(attempts), *logs(attempts), *summaries, canary_runs().filter(pk__in=runs)]


POLICIES = {
    policy.name: policy
    for policy in (
        Policy(
            "documents",
            "reports of trials by driver, server and quiet gate, and with them the scripts that repeat them",
            "KEEP_DOCUMENTS_DAYS",
            (of_benchmarks(documents, free_documents, column="documents"),),
        ),
        Policy(
            "samples",
            "trials with their samples; the summary of each measurement stays",
            "KEEP_SAMPLES_DAYS",
            (of_benchmarks(Samples.objects.all, free_samples),),
        ),
        Policy("logs", "logs of builds and measurements", "KEEP_LOGS_DAYS", (of_attempts(LogChunk.objects.all, logs),)),
        Policy("profiles", "profiles", "KEEP_PROFILES_DAYS", (of_attempts(Profile.objects.all, profiles),)),
        Policy(
            "canaries",
            "runs of canaries with all that they measured",
            "KEEP_CANARIES_DAYS",
            (PolicyPart(ended_canary_runs, kept.compared_canary_runs, "ended_at", 10, canary_runs, whole_runs),),
        ),
        Policy(
            "events",
            "changes of the status of runs, events of machines, and alarms that are over",
            "KEEP_EVENTS_DAYS",
            (
                of_rows(run_events, kept.held_run_events, "at"),
                of_rows(told_machine_events, kept.standing_machine_events, "at"),
                of_rows(told_alarms, kept.unmailed_alarms, "ended_at"),
            ),
        ),
        Policy(
            "deliveries",
            "webhook deliveries that were processed or ignored, and counts of refused ones",
            "KEEP_DELIVERIES_DAYS",
            (
                of_rows(finished_deliveries, kept.nothing, "received_at", at_once=200),
                of_rows(Refusal.objects.all, kept.nothing, "last_at"),
            ),
        ),
        Policy(
            "audit",
            "entries of the audit log",
            "KEEP_AUDIT_DAYS",
            (of_rows(AuditEntry.objects.all, kept.nothing, "at"),),
        ),
    )
}


def deletions(ended_at: datetime | None) -> dict[str, str]:
    """By policy name: the sentence for pages about its deletions among rows that ended at this time.

    Only policies that have passed that time are included. Rows that a policy kept still exist.
    """
    passed = Pruning.objects.filter(policy__in=POLICIES, through__gt=ended_at) if ended_at else ()
    return {row.policy: POLICIES[row.policy].deletion for row in passed}
