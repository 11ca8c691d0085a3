"""Keep a machine that has moved from measuring commits, flag what it measured, and let it work again later."""

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, F, Func, Max, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Now, NullIf
from django.utils import timezone

from speedtrack.benchmarks import definitions, numbers
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.ground.postgres.words import SEPARATOR
from speedtrack.runs.models import (
    CanaryCheck,
    Machine,
    MachineEvent,
    Measurement,
    Reason,
    Run,
    RunEvent,
    Series,
    Status,
)
from speedtrack.stats.noise.canary import IN_A_ROW

FLAG = "machine_drift"
IS_FLAGGED = Q(flags__words__contains=[FLAG])  # of a measurement
SAME_RUN = (
    "project_id",
    "commit_id",
    "machine_id",
    "suite_id",
    "benchmark_set_id",
    "reason",
    "trials",
    "priority",
    "rank",
)

Kind = MachineEvent.Kind


class NotQuarantined(Exception):
    """The machine is not in quarantine."""


def begin_quarantine(machine: Machine, check: CanaryCheck) -> None:
    """Allow the machine canary runs only; flag what it measured since the last good check, and queue that again."""
    assert check.series is not None and check.ratio is not None and check.limit is not None
    why = (
        f"its canary moved: {check.series.benchmark.name}, {METRICS[check.series.metric].title} is "
        f"{numbers.change(check.ratio)} against its own history, {IN_A_ROW} times in a row "
        f"(usual: up to {check.limit:.1%})"
    )
    machine.quarantined_at, machine.quarantined_why = timezone.now(), why
    Machine.objects.filter(pk=machine.pk).update(quarantined_at=Now(), quarantined_why=why)
    again = [flag_and_requeue(run) for run in affected_runs(machine, check)]
    measured_again = "1 run is" if len(again) == 1 else f"{len(again)} runs are"
    record_event(machine, Kind.QUARANTINED, f"{why}; {measured_again} to be measured again")


def affected_runs(machine: Machine, check: CanaryCheck) -> list[Run]:
    """Runs with points that ended since the last good check. Not pairs: a drift affects both of their sides alike."""
    good = check.canary.checks.filter(answer__in=CanaryCheck.GOOD)
    since = good.aggregate(ended_at=Max("run__ended_at"))["ended_at"] or check.canary.created
    has_points = Exists(charted_measurements().filter(attempt__run=OuterRef("pk")))
    return list(Run.objects.own().filter(has_points, machine=machine, ended_at__gt=since).order_by("id"))


def charted_measurements() -> QuerySet[Measurement]:
    """Accepted measurements of servers under load.

    Those of builds are left out: their points stay, since nothing is built again.
    """
    return Measurement.objects.filter(accepted=True).exclude(series__benchmark__name=definitions.BUILD)


def flag_and_requeue(run: Run) -> Run:
    """Flag what a run measured, and queue it again as a new round. Nothing is overwritten. Return the new run."""
    measurements = charted_measurements().filter(attempt__run=run)
    Series.objects.filter(measurements__in=measurements).update(undetected_since=Now())
    flags = NullIf(F("flags"), Value(""), output_field=TextField())
    flagged = Func(Value(SEPARATOR), flags, Value(FLAG), function="concat_ws", output_field=TextField())
    measurements.exclude(IS_FLAGGED).update(flags=flagged)
    same = Run.objects.own().filter(
        commit=run.commit_id, machine=run.machine_id, benchmark_set=run.benchmark_set_id, reason=run.reason
    )
    last: int = same.aggregate(last=Max("round"))["last"]
    again = Run.objects.create(**{name: getattr(run, name) for name in SAME_RUN}, round=last + 1)
    why = f"its machine had moved, as its canary says: measured again by run {again.pk}"
    RunEvent.objects.create(run=run, attempt=run.attempt, before=run.status, after=run.status, why=why)
    return again


def end_quarantine(machine: Machine, why: str, user: User | None = None) -> None:
    """Let the machine work again. The caller's transaction holds a lock of the machine's row."""
    machine.quarantined_at, machine.quarantined_why = None, ""
    Machine.objects.filter(pk=machine.pk).update(quarantined_at=None, quarantined_why="")
    canary_runs = Run.objects.filter(machine=machine, reason=Reason.CANARY, status=Status.QUEUED)
    canary_runs.update(not_before=Now())
    record_event(machine, Kind.LIFTED, why, user)


@transaction.atomic
def lift_by_hand(machine: Machine, user: User | None = None, accept_level: bool = False) -> None:
    """End a quarantine by hand. Raises NotQuarantined.

    ``accept_level``: the canary's present level is the right one, and its history starts anew.
    """
    machine = Machine.objects.select_for_update(no_key=True).get(pk=machine.pk)
    if machine.quarantined_at is None:
        raise NotQuarantined(f"machine {machine} is not in quarantine")
    if accept_level:
        machine.canaries.filter(retired_at=None).update(since=Now())
    end_quarantine(machine, "by hand" + (": the canary's new level is accepted" if accept_level else ""), user)


def record_event(machine: Machine, kind: MachineEvent.Kind, why: str, user: User | None = None) -> None:
    """Store what happened to a machine. The mails to operators are made from such events."""
    MachineEvent.objects.create(machine=machine, kind=kind, why=why, who=user, untold=kind in MachineEvent.MAILED)
