"""The canary of a machine: a frozen server and workload, measured between other runs. If it moves, the machine did.

``attend`` does three things under a lock of the machine's row, which every claim takes as well:

1. It compares each ended canary run that has no check yet with the canary's history in the same environment.
2. It puts the machine into quarantine after several checks in a row that are off (quarantine.py), and ends the
   quarantine after several good ones.
3. It queues the next canary run when that is due, one at a time: often while the level is being learned, at once after
   a check that was off, and with a growing pause while the machine is in quarantine.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet, Suite
from speedtrack.benchmarks.storing import store_set
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.models import (
    Canary,
    CanaryCheck,
    Machine,
    MachineEvent,
    Measurement,
    Reason,
    Run,
    Status,
)
from speedtrack.runs.scheduling import quarantine
from speedtrack.runs.scheduling.order import PRIORITY
from speedtrack.stats.noise import canary as stats

JUDGED = ("server_cpu_ns_per_request", "throughput_rps")
SMALLEST_EFFECT = 0.02  # smaller moves are ignored; a metric whose own smallest effect is larger keeps that
CALM = 2  # good checks in a row that end a quarantine
BLIND_AFTER = 3  # checks in a row without a measurement after which operators are told
HISTORY = (Reason.PUSH, Reason.BACKFILL, Reason.MANUAL)  # reasons to measure a commit for its line
RECENT = 32  # newest checks that are considered
# Pauses before the next canary run, as shares of CANARY_EVERY_S.
LEARNING_PART = 1 / 8  # while the level is being learned, and once the machine has no more work
AGAIN_PART = 1 / 24  # after a check without a measurement; in quarantine the first pause, which doubles each time

Answer = CanaryCheck.Answer
Kind = MachineEvent.Kind


@dataclass(frozen=True)
class FrozenCommit:
    """A commit, with its suite and benchmarks, of which a canary is made."""

    project: Project
    commit: Commit
    suite: Suite
    benchmark_set: BenchmarkSet


@transaction.atomic
def replace_canary(machine: Machine, frozen: FrozenCommit, user: User | None = None) -> Canary:
    """Replace the machine's canary by this one, and queue its first run."""
    Machine.objects.select_for_update(no_key=True).get(pk=machine.pk)
    machine.canaries.filter(retired_at=None).update(retired_at=Now())
    for run in Run.objects.filter(machine=machine, reason=Reason.CANARY, status=Status.QUEUED).select_for_update():
        run.move(Status.CANCELLED, "the machine has another canary now", ended_at=Now(), cancel_requested_at=Now())
    canary = ensure_canary(machine, frozen, user)
    queue_if_due(machine, canary)
    return canary


def ensure_canary(machine: Machine, frozen: FrozenCommit, user: User | None = None) -> Canary:
    """Return the machine's canary in use; make it from this commit if there is none."""
    canary, is_new = Canary.objects.get_or_create(
        machine=machine,
        retired_at=None,
        defaults={
            "project": frozen.project,
            "commit": frozen.commit,
            "suite": frozen.suite,
            "benchmark_set": frozen.benchmark_set,
        },
    )
    if is_new:
        MachineEvent.objects.create(machine=machine, kind=Kind.CANARY, why=f"{canary} from now on", who=user)
    return canary


def adopt_first_head(run: Run) -> None:
    """Make the first head that a machine has measured its canary, unless it has or had one, or CANARY_AUTO is off."""
    if not settings.CANARY_AUTO or run.reason not in HISTORY or Canary.objects.filter(machine=run.machine_id).exists():
        return
    benchmark = first_closed_loop(run.benchmark_set.benchmarks.order_by("pk"))
    if benchmark and Branch.objects.filter(head=run.commit_id, deleted_at=None).exists():
        ensure_canary(run.machine, FrozenCommit(run.project, run.commit, run.suite, store_set(run.suite, [benchmark])))


def first_closed_loop(benchmarks: Iterable[Benchmark]) -> Benchmark | None:
    """The first benchmark that loads the server as fast as it can go: it says most in the least time.

    Rungs of ladders are left out: few connections or huge values say little about a machine.
    """
    return next((benchmark for benchmark in benchmarks if is_closed_loop(benchmark) and not benchmark.ladder), None)


def is_closed_loop(benchmark: Benchmark) -> bool:
    workload = benchmark.definition.get("workload")
    return workload is not None and "rate" not in workload


def freeze_artifacts(run: Run, artifacts: dict[str, str]) -> None:
    """Store the artifacts of a canary's first successful build. From then on its runs measure nothing else."""
    Canary.objects.filter(runs=run, artifacts__isnull=True).update(artifacts=artifacts)


# Is there work for ``attend``? Yes, if an ended run has no check, or if none is unfinished and the next one may be due:
# the last check was not good or is older than the shortest pause, or the machine is in quarantine. Every claim asks.
MAY_BE_DUE = """
EXISTS (SELECT FROM runs_canary c JOIN runs_machine m ON m.id = c.machine_id
         WHERE m.id = %(machine)s AND c.retired_at IS NULL AND (
               EXISTS (SELECT FROM runs_run r
                        WHERE r.machine_id = m.id AND r.reason = 'canary' AND r.status IN ('succeeded', 'failed')
                          AND NOT EXISTS (SELECT FROM runs_canarycheck k WHERE k.run_id = r.id))
               OR NOT EXISTS (SELECT FROM runs_run r
                               WHERE r.machine_id = m.id AND r.reason = 'canary'
                                 AND r.status IN ('queued', 'leased', 'running'))
                  AND (m.quarantined_at IS NOT NULL OR coalesce((
                        SELECT k.answer NOT IN ('learning', 'steady') OR k.at <= statement_timestamp() - %(pause)s
                          FROM runs_canarycheck k WHERE k.canary_id = c.id ORDER BY k.id DESC LIMIT 1), true))))
"""


def attend(machine: Machine) -> None:
    """Check ended canary runs and queue the next one. The caller's transaction holds a lock of the machine's row."""
    canary = machine.canaries.filter(retired_at=None).first()
    if canary is None:
        return
    for run in unjudged().filter(machine=machine).select_related("canary").order_by("id"):
        check = check_run(run)
        if check.canary_id == canary.pk:
            act_on_check(machine, canary, check)
    queue_if_due(machine, canary)


def unattended() -> QuerySet[Machine]:
    """Machines with work for ``attend`` that make no claims: their runner is dead, or no run waits for it."""
    canary_runs = Run.objects.unfinished().filter(machine=OuterRef("pk"), reason=Reason.CANARY)
    unjudged_runs = Q(Exists(unjudged().filter(machine=OuterRef("pk"))))
    unwatched = Q(quarantined_at__isnull=False, paused=False) & ~Q(Exists(canary_runs))
    return Machine.objects.filter(unjudged_runs | unwatched, canaries__in=Canary.objects.filter(retired_at=None))


def attend_all() -> None:
    """Attend to the canaries of all machines in ``unattended``."""
    for machine_id in unattended().values_list("pk", flat=True):
        with transaction.atomic():
            machine = Machine.objects.select_for_update(no_key=True, skip_locked=True).filter(pk=machine_id).first()
            if machine:
                attend(machine)


def unjudged() -> QuerySet[Run]:
    """Ended canary runs without a check. Cancelled runs get none."""
    finished = (Status.SUCCEEDED, Status.FAILED)
    return Run.objects.filter(reason=Reason.CANARY, status__in=finished, canary_check=None)


def check_run(run: Run) -> CanaryCheck:
    """Compare what a canary run measured with the canary's history, and store the answer."""
    assert run.canary is not None
    about = {"run": run, "canary": run.canary, "at": run.ended_at}
    verdicts = [
        (measurement.series, judge_measurement(run.canary, measurement)) for measurement in judged_measurements(run)
    ]
    if not verdicts:
        return CanaryCheck.objects.create(**about, answer=Answer.UNKNOWN)
    series, worst = max(verdicts, key=lambda pair: severity(pair[1]))
    return CanaryCheck.objects.create(**about, answer=worst.answer, series=series, ratio=worst.ratio, limit=worst.limit)


def judge_measurement(canary: Canary, measurement: Measurement) -> stats.CanaryVerdict:
    history = steady_values(canary, measurement)
    return stats.judge_canary(history, measurement.value, smallest_canary_effect(measurement))


def judged_measurements(run: Run) -> QuerySet[Measurement]:
    """The measurements of a canary run that count: without flags, and of the metrics in JUDGED."""
    measurements = Measurement.objects.filter(attempt__run=run, attempt__outcome=Status.SUCCEEDED)
    return measurements.filter(series__metric__in=JUDGED, flags=[]).select_related("series__benchmark").order_by("id")


def steady_values(canary: Canary, measurement: Measurement) -> list[float]:
    """The values of the same series from this canary's good checks, oldest first."""
    good = canary.checks.filter(answer__in=CanaryCheck.GOOD, at__gt=canary.since)
    values = Measurement.objects.filter(
        series=measurement.series, attempt__run__in=good.values("run"), attempt__outcome=Status.SUCCEEDED, flags=[]
    )
    return list(values.order_by("id").values_list("value", flat=True))


def smallest_canary_effect(measurement: Measurement) -> float:
    """The smallest relative change that counts as a move of the machine."""
    return max(SMALLEST_EFFECT, METRICS[measurement.series.metric].smallest_effect)


def severity(verdict: stats.CanaryVerdict) -> tuple[int, float]:
    """Return a sort key: a verdict that is off is worse than a steady one, and that than one while the canary learns.

    Of equal answers, the larger share of the limit is worse.
    """
    order = (stats.CanaryAnswer.LEARNING, stats.CanaryAnswer.STEADY, stats.CanaryAnswer.OFF)
    return order.index(verdict.answer), abs(math.log(verdict.ratio)) / (verdict.limit or 1)


def act_on_check(machine: Machine, canary: Canary, check: CanaryCheck) -> None:
    """Begin or end the machine's quarantine, or tell operators, as the newest checks require."""
    recent = recent_checks(machine, canary)
    if in_a_row(recent, Answer.UNKNOWN) == BLIND_AFTER:
        why = f"its canary could not be measured {BLIND_AFTER} times in a row: {failure_cause(check.run)}"
        quarantine.record_event(machine, Kind.BLIND, why)
    if machine.quarantined_at is None:
        if in_a_row(recent, Answer.OFF) >= stats.IN_A_ROW:
            quarantine.begin_quarantine(machine, check)
    elif in_a_row(recent, *CanaryCheck.GOOD) >= CALM:
        learning = ", in an environment that has no history yet" if check.answer == Answer.LEARNING else ""
        quarantine.end_quarantine(machine, f"{CALM} canaries in a row showed nothing unusual{learning}")


def recent_checks(machine: Machine, canary: Canary) -> list[CanaryCheck]:
    """The canary's checks since the last begin or end of a quarantine, newest first."""
    turns = machine.events.filter(kind__in=(Kind.QUARANTINED, Kind.LIFTED))
    since = turns.aggregate(at=Max("at"))["at"] or canary.created
    return list(canary.checks.filter(at__gt=since).select_related("run").order_by("-pk")[:RECENT])


def in_a_row(recent: Iterable[CanaryCheck], *answers: str) -> int:
    """The number of newest checks, counted until the first one with another answer, that have one of these answers."""
    return len(list(takewhile(lambda check: check.answer in answers, recent)))


def failure_cause(run: Run) -> str:
    return run.error.strip().partition("\n")[0] or "every trial was flagged, the machine was too unsteady"


def queue_if_due(machine: Machine, canary: Canary) -> None:
    """Queue the canary's next run if it is due and none is unfinished.

    In quarantine, and after a check that was off, it is queued at once, to start when its pause is over.
    """
    if machine.paused or Run.objects.unfinished().filter(machine=machine, reason=Reason.CANARY).exists():
        return
    recent = recent_checks(machine, canary)
    now = database_time()
    last = recent[0].at if recent else last_check_at(canary)
    if last is None:
        queue_run(canary, now)
    elif machine.quarantined_at or in_a_row(recent, Answer.OFF):
        queue_run(canary, last + pause_after(machine, recent))
    elif is_due(machine, last, now, pause_after(machine, recent)):
        queue_run(canary, now)


def database_time() -> datetime:
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        (now,) = cursor.fetchone()
    assert isinstance(now, datetime)
    return now


def last_check_at(canary: Canary) -> datetime | None:
    at: datetime | None = canary.checks.aggregate(at=Max("at"))["at"]
    return at


def is_due(machine: Machine, last: datetime, now: datetime, after: timedelta) -> bool:
    """Return whether a canary run is due: the last check is too old for what waits, or no work is left since then."""
    if Run.objects.claimable().filter(machine=machine).exists():
        return last + after <= now
    worked = Run.objects.filter(machine=machine, ended_at__gt=last).exclude(reason=Reason.CANARY)
    return last + part_of_interval(LEARNING_PART) <= now and worked.exists()


def pause_after(machine: Machine, recent: list[CanaryCheck]) -> timedelta:
    """How long after the last check the next canary run is due."""
    off, unknown = in_a_row(recent, Answer.OFF), in_a_row(recent, Answer.UNKNOWN)
    if machine.quarantined_at:
        return min(part_of_interval(AGAIN_PART * 2 ** (off + unknown)), part_of_interval(1))
    if off:
        return timedelta()
    if unknown:
        return part_of_interval(AGAIN_PART if unknown < BLIND_AFTER else 1)
    return part_of_interval(LEARNING_PART if recent and recent[0].answer == Answer.LEARNING else 1)


def part_of_interval(share: float) -> timedelta:
    return timedelta(seconds=share * settings.CANARY_EVERY_S)


def queue_run(canary: Canary, at: datetime) -> None:
    """Queue one run of the canary that may start at this time."""
    same = Run.objects.filter(
        commit=canary.commit_id, machine=canary.machine_id, benchmark_set=canary.benchmark_set_id, reason=Reason.CANARY
    )
    last = same.aggregate(round=Max("round"))["round"]
    Run.objects.create(
        project_id=canary.project_id,
        commit_id=canary.commit_id,
        machine_id=canary.machine_id,
        canary=canary,
        suite=canary.suite,
        benchmark_set_id=canary.benchmark_set_id,
        reason=Reason.CANARY,
        round=0 if last is None else last + 1,
        trials=canary.suite.definition["trials"],
        metrics=list(JUDGED),
        priority=PRIORITY["canary"],
        not_before=at,
    )
