"""The lifecycle of a queued run: claim, renew, log, complete, fail, cancel, reap. ``planning`` queues the runs.

PostgreSQL's rows are the truth, and its ``now()`` is the only clock. The lease token is the fence: every call of a
runner carries it, and a call with an old token changes nothing (``fence``). A lost or doubled message does no harm,
because only ``claim`` decides which runner does what.
"""

import json
from collections.abc import Mapping
from datetime import timedelta
from types import MappingProxyType
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Func, IntegerField, Max, Sum
from django.db.models.functions import Now
from psycopg.types.json import Jsonb

from speedtrack.ground.observing import failpoints
from speedtrack.ground.postgres.pgvalues import partial_row, row_of
from speedtrack.runs.documents import FailureReport, LogPiece, Renewal
from speedtrack.runs.models import (
    ACTIVE,
    Alarm,
    Attempt,
    LogChunk,
    Machine,
    Reason,
    Run,
    RunEvent,
    RunQuerySet,
    Status,
)
from speedtrack.runs.queue import jobs
from speedtrack.runs.queue.ends import (
    Incomplete,
    accept_measurements,
    already_ended,
    already_requeued,
    end_run,
    hand_back,
    missing_with_reason,
    requeue_lost,
    sent_documents,
)
from speedtrack.runs.queue.fence import attempt_of, held_run, set_related
from speedtrack.runs.scheduling import alarms, canary, order, standing

NOTHING: Mapping[str, str] = MappingProxyType({})
LOG_BYTES = 8 * 1024 * 1024  # of one attempt
LOG_CHUNK_BYTES = 100  # overhead of a chunk, counted in addition to its text
LOG_END = f"\n--- the log is longer than {LOG_BYTES // 1024**2} MB: the rest of this attempt is left out ---\n"
RETRY_PAUSE_S = 15  # before the second attempt after a transient failure; grows with the attempt

# A claim sends few statements, written by hand, because every idle runner claims again and again.
LOCKED_COLUMNS = ("id", "name", "paused", "quarantined_at", "windows", "zone")
LOCKED_MACHINE = """
SELECT COLUMNS, shares::text FROM runs_machine WHERE id = %(id)s FOR NO KEY UPDATE
""".replace("COLUMNS", ", ".join(LOCKED_COLUMNS))
# Does the machine hold a run, and may its canary be due? And which run does it take if neither?
LOOK = """
WITH next AS (NEXT)
SELECT EXISTS (SELECT FROM runs_run WHERE machine_id = %(machine)s AND status IN ('leased', 'running')),
       CANARY_MAY_BE_DUE, COLUMNS
  FROM (VALUES (0)) AS always LEFT JOIN next ON true
""".replace("COLUMNS", ", ".join(f"next.{column}" for column in order.COLUMNS))
LOOK = LOOK.replace("CANARY_MAY_BE_DUE", canary.MAY_BE_DUE).replace("(NEXT)", f"({order.NEXT})")
# ``Run.move`` and the new attempt as one statement, because every claim runs it, with the other columns of a job.
LEASE = """
WITH leased AS (
    UPDATE runs_run
       SET status = 'leased', lease_token = lease_token + 1, attempt = attempt + 1, progress = NULL, linked_id = NULL,
           lease_until = statement_timestamp() + %(lease)s, started_at = statement_timestamp(), ended_at = NULL
     WHERE id = %(run)s AND status = 'queued'
    RETURNING *
), event AS (
    INSERT INTO runs_runevent (run_id, attempt, before, after, why)
    SELECT id, attempt, 'queued', 'leased', %(why)s FROM leased
), begun AS (
    INSERT INTO runs_attempt (run_id, number, token, instance, outcome, postponed, out_of_reach)
    SELECT id, attempt, lease_token, %(instance)s, '', %(postponed)s, '{}' FROM leased
    RETURNING id, started_at
)
SELECT begun.id, leased.attempt, leased.lease_token, leased.lease_until, leased.started_at,
       head.sha, base.sha, project.slug, canary.artifacts::text
  FROM leased
 CROSS JOIN begun
  JOIN projects_commit head ON head.id = leased.commit_id
  LEFT JOIN projects_commit base ON base.id = leased.base_id
  JOIN projects_project project ON project.id = leased.project_id
  LEFT JOIN runs_canary canary ON canary.id = leased.canary_id
"""


class Occupied(Exception):
    """Two runners use the token of one machine."""


def claim(machine: Machine, instance: str = "") -> Run | None:
    """Give the machine its next run, with a new lease token and attempt number. None if it has no work or is paused.

    The machine's canary comes first: it may have to be measured, or keep the machine from all other work. A runner
    that claims while it holds a run was restarted: that run is first queued again, or failed at the attempt cap.
    Raises Occupied while another runner (``instance``) holds a run with the same machine's token.
    """
    while (run := take_next(machine, instance)) and not run.begun:
        jobs.parts_of(run)
    return run


@transaction.atomic
def take_next(machine: Machine, instance: str) -> Run | None:
    """Begin the machine's next run. One whose job this process has not read yet is returned as it waits.

    Reading would hold the machine's row for as long, and whoever changes the machine would wait.
    """
    machine = locked(machine.pk)
    holds_a_run, canary_may_be_due, run = look(machine)
    if holds_a_run:
        release_held(machine, instance)
    if canary_may_be_due:
        canary.attend(machine)
    if holds_a_run or canary_may_be_due:
        run = order.next_run(machine)
    while run:
        run.machine = machine
        if not jobs.is_read(run):
            return run
        if lease(run, instance):
            failpoints.reach("claim.before_commit")
            return run
        run = order.next_run(machine)
    return None


def locked(machine_id: int) -> Machine:
    """The machine, locked in the caller's transaction."""
    *columns, shares = row_of(LOCKED_MACHINE, {"id": machine_id})
    return partial_row(Machine, **dict(zip(LOCKED_COLUMNS, columns, strict=True)), shares=json.loads(shares))


def look(machine: Machine) -> tuple[bool, bool, Run | None]:
    """Whether the machine holds a run, whether its canary may be due, and the run that it takes if neither."""
    shortest: Any = canary.LEARNING_PART * timedelta(seconds=settings.CANARY_EVERY_S)
    values = order.parameters_of(machine) | {"pause": shortest}
    holds_a_run, canary_may_be_due, *columns = row_of(LOOK, values)
    return holds_a_run, canary_may_be_due, None if machine.paused else order.run_of(columns)


def release_held(machine: Machine, instance: str) -> None:
    """Queue the run again that the machine's runner held before it was restarted. Raises Occupied."""
    rivals = Attempt.objects.filter(
        run__in=Run.objects.active().filter(machine=machine, lease_until__gt=Now()), token=F("run__lease_token")
    ).exclude(instance=instance)
    if rivals.exists():
        raise Occupied(
            f"another runner works with the token of machine {machine}: give each machine a token of its own"
        )
    for run in Run.objects.active().filter(machine=machine).select_for_update():
        requeue_lost(run, "the runner was restarted while it held this run")


def lease(run: Run, instance: str) -> bool:
    """Begin the next attempt of a waiting run, which the caller's transaction has locked.

    False: it has failed at once, because none of it can be measured.
    """
    postponed, fault = jobs.unmeasurable(run)
    begin_attempt(run, instance, postponed)
    if fault:
        end_run(run, Status.FAILED, fault)
    return not fault


def begin_attempt(run: Run, instance: str, postponed: dict[str, str]) -> None:
    """Lease a waiting run, which the caller's transaction has locked, and set the new values on ``run``."""
    left_out = "".join(f"; {name} is postponed: {why}" for name, why in postponed.items())
    changes: dict[str, Any] = {
        "run": run.pk,
        "lease": timedelta(seconds=settings.LEASE_S),
        "instance": instance,
        "postponed": Jsonb(postponed),
        "why": f"claimed by {run.machine.name}{left_out}"[:2000],
    }
    attempt_id, *lease_columns, head, base, project, artifacts = row_of(LEASE, changes)
    run.attempt, run.lease_token, run.lease_until, run.started_at = lease_columns
    run.status, run.ended_at, run.progress, run.linked = Status.LEASED, None, None, None
    set_related(run, head, base, project, artifacts)
    attempt = {"number": run.attempt, "token": run.lease_token, "started_at": run.started_at, "postponed": postponed}
    run.begun = Attempt(pk=attempt_id, run=run, instance=instance, **attempt)


def lease_s() -> int:
    """Seconds that a lease lasts without a renewal."""
    return int(settings.LEASE_S)


@transaction.atomic
def renew(machine: Machine, run_id: int, renewal: Renewal) -> bool:
    """Extend the lease and store the progress. True: the run was cancelled, stop the work. Raises LeaseLost.

    A lease whose work hangs, as its heartbeat says, is not extended: it expires, and ``reap`` queues the run again.
    """
    run = held_run(machine, run_id, renewal.token)
    if run.cancel_requested_at:
        end_run(run, Status.CANCELLED, "cancelled on request")
        return True
    note_progress(machine, run, renewal)
    if renewal.draining != bool(standing.said_of(machine, "draining")):
        standing.hear(machine, draining=renewal.draining)
    if renewal.hung:
        return False
    progress = progress_of(renewal) or run.progress
    lease = {"lease_until": Now() + timedelta(seconds=settings.LEASE_S), "progress": progress}
    if run.status == Status.LEASED:
        run.move(Status.RUNNING, "the runner began", **lease)
    else:
        Run.objects.filter(pk=run.pk).update(**lease)
    return False


def progress_of(renewal: Renewal) -> dict[str, Any] | None:
    if renewal.progress is None:
        return None
    return {**renewal.progress.model_dump(), "overdue": renewal.progress.overdue}


def note_progress(machine: Machine, run: Run, renewal: Renewal) -> None:
    """Begin an alarm for a run that is alive but makes no progress; end it when the run, or the next one, goes on."""
    was_late = bool((run.progress or {}).get("overdue"))
    if trouble := renewal.trouble():
        alarms.begin(Alarm.Kind.STALLED, f"run {run.pk}: {trouble}", machine=machine)
    elif was_late or run.status == Status.LEASED:
        alarms.end(Alarm.Kind.STALLED, f"run {run.pk} makes progress", machine=machine)
        alarms.end(Alarm.Kind.UNABLE, f"it took run {run.pk}", machine=machine)


def note_end(machine: Machine, run: Run) -> None:
    """End the alarm about a stuck run, because its runner has said how the work ended."""
    if (run.progress or {}).get("overdue"):
        alarms.end(Alarm.Kind.STALLED, f"run {run.pk} has ended", machine=machine)


@transaction.atomic
def keep_log(machine: Machine, run_id: int, piece: LogPiece) -> None:
    """Store a piece of the log; the same piece again changes nothing. Raises LeaseLost.

    Everything beyond LOG_BYTES is dropped, and a line in the log says so. The work goes on.
    """
    attempt = attempt_of(held_run(machine, run_id, piece.token))
    length = Func("text", function="octet_length", output_field=IntegerField())
    room = LOG_BYTES - attempt.log.aggregate(size=Sum(length + LOG_CHUNK_BYTES, default=0))["size"]
    if room > 0:
        text = piece.text
        if len(text.encode()) + LOG_CHUNK_BYTES > room:
            text = text.encode()[:room].decode(errors="ignore") + LOG_END
        LogChunk.objects.bulk_create(
            [LogChunk(attempt=attempt, seq=piece.seq, phase=piece.phase, text=text)], ignore_conflicts=True
        )


@transaction.atomic
def complete(machine: Machine, run_id: int, token: int, out_of_reach: Mapping[str, str] = NOTHING) -> None:
    """Accept the run's measurements and end it. The same call again changes nothing.

    ``out_of_reach``: benchmarks that the machine cannot measure (name -> reason). They may be missing, if any other one
    was measured; but in a paired run both sides of all are needed.
    Raises LeaseLost, or Incomplete if another benchmark's measurement is missing.
    """
    if already_ended(machine, run_id, token, Status.SUCCEEDED):
        return
    run = held_run(machine, run_id, token)
    note_end(machine, run)
    attempt = attempt_of(run)
    if run.linked:
        accept_measurements(run)
        end_run(run, Status.SUCCEEDED, f"{run.linked.commit.short} is the same program: not measured again")
        return
    kind = "profiles" if run.reason == Reason.PROFILE else "measurements"
    documents = sent_documents(attempt, kind)
    left_out = {} if run.base else missing_with_reason(run, documents, out_of_reach)
    expected = (2 if run.base else 1) * (run.benchmark_set.benchmarks.count() - len(attempt.postponed) - len(left_out))
    if len(documents) < expected or not documents:
        raise Incomplete(f"run {run.pk} has {len(documents)} of {expected} {kind}")
    accept_measurements(run)
    if left_out:
        Attempt.objects.filter(pk=attempt.pk).update(out_of_reach=left_out)
    reasons = "".join(f"; {name} is out of reach: {why}" for name, why in left_out.items())
    end_run(run, Status.SUCCEEDED, f"all {kind} are there{reasons}")
    canary.adopt_first_head(run)
    failpoints.reach("complete.before_commit")


@transaction.atomic
def fail(machine: Machine, run_id: int, failure: FailureReport) -> None:
    """End an attempt that did not complete. The same call again changes nothing. Raises LeaseLost.

    transient: the run is queued again, up to the attempt cap. permanent: the run ends, and what it measured is
    accepted. stopped: the runner was told to stop and hands the run back; this does not count as an attempt.
    """
    if already_ended(machine, run_id, failure.token, Status.FAILED) or already_requeued(machine, run_id, failure):
        return
    run = held_run(machine, run_id, failure.token)
    note_end(machine, run)
    if failure.kind == "permanent":
        accept_measurements(run)
        end_run(run, Status.FAILED, failure.error)
    elif failure.kind == "stopped" and not run.cancel_requested_at:
        hand_back(run, failure.error)
    else:
        requeue_lost(run, failure.error, pause_s=RETRY_PAUSE_S * run.attempt)
    failpoints.reach("fail.before_commit")


def retry_given_up() -> int:
    """Queue again the runs that no machine finished and whose pause is over. Return the number of runs.

    Safe to run any number of times at once, like ``reap``.
    """
    run_count = 0
    for run_id in Run.objects.given_up().values_list("pk", flat=True):
        with transaction.atomic():
            run = Run.objects.given_up().select_for_update(skip_locked=True, of=("self",)).filter(pk=run_id).first()
            if run:
                why = "no machine finished it: it gets a further attempt"
                run.move(Status.QUEUED, why, ended_at=None, not_before=Now(), retry_at=None)
                run_count += 1
    return run_count


def reap() -> int:
    """Queue or fail every run whose lease has expired. Return how many. Any number of processes may do this at once."""
    run_count = 0
    for run_id in Run.objects.lost().values_list("pk", flat=True):
        with transaction.atomic():
            run = Run.objects.lost().select_for_update(skip_locked=True, of=("self",)).filter(pk=run_id).first()
            if run:
                requeue_lost(run, f"the runner was silent for more than {settings.LEASE_S} s")
                run_count += 1
    return run_count


@transaction.atomic
def cancel(run: Run, why: str) -> None:
    """Cancel a run. One that waits ends at once; a runner at work hears of it with its next renewal.

    A failed run gets no further attempts.
    """
    run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    if run.status == Status.QUEUED:
        run.move(Status.CANCELLED, why, ended_at=Now(), cancel_requested_at=Now())
    elif run.status in ACTIVE:
        Run.objects.filter(pk=run.pk).update(cancel_requested_at=Now())
    elif run.status == Status.FAILED:
        Run.objects.filter(pk=run.pk).update(retry_at=None)


@transaction.atomic
def cancel_waiting(runs: RunQuerySet, why: str) -> int:
    """Cancel those of these runs that wait. Return the number of cancelled runs."""
    queued_runs = runs.filter(status=Status.QUEUED).order_by("pk").select_for_update(of=("self",))
    attempts = dict(queued_runs.values_list("pk", "attempt"))
    Run.objects.filter(pk__in=attempts).update(status=Status.CANCELLED, ended_at=Now(), cancel_requested_at=Now())
    transition = {"before": Status.QUEUED, "after": Status.CANCELLED, "why": why}
    RunEvent.objects.bulk_create(
        RunEvent(run_id=run, attempt=attempt, **transition) for run, attempt in attempts.items()
    )
    return len(attempts)


@transaction.atomic
def retry(run: Run, why: str) -> None:
    """Queue a failed or cancelled run again and count its attempts from 0. Raises ValueError for any other run."""
    run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    fresh = {"attempt": 0, "error": "", "cancel_requested_at": None, "ended_at": None, "retry_at": None}
    run.move(Status.QUEUED, why, not_before=Now(), **fresh)


@transaction.atomic
def raise_run(run: Run, why: str) -> bool:
    """Let a waiting run be the machine's next one, even outside its windows. False if the run does not wait."""
    run = Run.objects.select_for_update(of=("self",)).get(pk=run.pk)
    if run.status != Status.QUEUED:
        return False
    newest = Run.objects.filter(machine=run.machine_id, status=Status.QUEUED, priority=order.PRIORITY["manual"])
    rank = (newest.aggregate(rank=Max("rank"))["rank"] or 0) + 1
    priority = max(run.priority, order.PRIORITY["manual"])
    Run.objects.filter(pk=run.pk).update(priority=priority, rank=max(run.rank, rank), not_before=Now())
    RunEvent.objects.create(
        run=run, attempt=run.attempt, before=run.status, after=run.status, why=f"raised {why}"[:2000]
    )
    return True
