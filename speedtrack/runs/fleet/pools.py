"""Pools of machines of equal hardware: which of them measures a project, and what happens to runs when one leaves.

A project is measured on each of its machines, or on one machine of each pool. In the second case an ``Assignment``
keeps the project on the same machine, so that its lines go on. Another machine of the pool takes over, and keeps the
project, only when that one leaves: it is paused or retired, its tokens are revoked, or it has been silent for AWAY. A
machine without a pool is a pool of one.
"""

from collections.abc import Iterable
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from speedtrack.projects.models import MachinePolicy, Project
from speedtrack.runs.models import (
    Assignment,
    Machine,
    MachineEvent,
    MachineToken,
    Reason,
    Run,
    RunEvent,
    RunQuerySet,
    Status,
)
from speedtrack.runs.scheduling.quarantine import record_event

AWAY = timedelta(minutes=30)  # of silence
#: Runs that any machine of the pool may do. Pairs settle a change of one machine's line; a canary is a machine's own.
MOVABLE = (Reason.PUSH, Reason.BACKFILL, Reason.MANUAL)


def heard_of() -> Q:
    """The condition for machines that are not away.

    A machine whose runner never called counts as heard of when it was registered.
    """
    return Q(last_seen_at__gt=Now() - AWAY) | Q(last_seen_at=None, created__gt=Now() - AWAY)


def present() -> Q:
    """The condition for machines that take work now, or will soon."""
    admitted = Exists(MachineToken.objects.valid().filter(machine=OuterRef("pk")))
    return Q(heard_of(), admitted, paused=False, retired_at=None)


def machines_for(project: Project) -> list[Machine]:
    """The machines that are to measure a new commit of the project."""
    machines = list(project.machines.defer("facts").order_by("name"))
    if project.machine_policy == MachinePolicy.EACH:
        return machines
    alone = [machine for machine in machines if not machine.pool]
    pools = sorted({machine.pool for machine in machines if machine.pool})
    return alone + [machine_of_pool for pool in pools if (machine_of_pool := assigned_machine(project, pool))]


@transaction.atomic
def assigned_machine(project: Project, pool: str) -> Machine | None:
    """The machine of the pool that measures the project; None if the pool is empty.

    If that machine has left, another one takes over; if all machines of the pool are away, the project keeps its
    machine.
    """
    Project.objects.select_for_update(no_key=True).get(pk=project.pk)  # two planners choose the same machine
    now = Assignment.objects.filter(project=project, pool=pool).select_related("machine").first()
    members = project.machines.filter(pool=pool).defer("facts")
    if now and members.filter(present(), pk=now.machine_id).exists():
        return now.machine
    queue_length = Count("runs", filter=Q(runs__status=Status.QUEUED))
    idlest = members.filter(present()).annotate(waiting=queue_length).order_by("waiting", "name").first()
    successor: Machine | None = idlest or (now.machine if now else members.order_by("name").first())
    if successor and (now is None or now.machine_id != successor.pk):
        Assignment.objects.update_or_create(project=project, pool=pool, defaults={"machine": successor, "since": Now()})
    return successor


def leave(machine: Machine, why: str) -> int:
    """Move the waiting runs of a machine that is no longer present to others of its pool. Return how many.

    Runs of projects that every machine measures stay, and wait for it; so do all if no other machine is there.
    """
    if not machine.pool:
        return 0
    run_count = 0
    for project in Project.objects.filter(machine_policy=MachinePolicy.ONE, machines=machine).order_by("pk"):
        successor = assigned_machine(project, machine.pool)
        if successor and successor.pk != machine.pk:
            run_count += move_waiting(movable(machine).filter(project=project), successor, why)
    return run_count


def movable(machine: Machine) -> RunQuerySet:
    return Run.objects.own().filter(machine=machine, status=Status.QUEUED, reason__in=MOVABLE)


@transaction.atomic
def move_waiting(runs: RunQuerySet, to: Machine, why: str) -> int:
    """Have another machine do these waiting runs; those that it has itself stay. Return how many were moved."""
    queued_runs = (
        runs.exclude(Exists(same_runs().filter(machine=to)))
        .order_by("pk")
        .select_for_update(of=("self",), skip_locked=True)
    )
    attempts = dict(queued_runs.values_list("pk", "attempt"))
    Run.objects.filter(pk__in=attempts).update(machine=to, not_before=Now())
    transition = {"before": Status.QUEUED, "after": Status.QUEUED, "why": f"moved to {to}: {why}"}
    RunEvent.objects.bulk_create(
        RunEvent(run_id=run, attempt=attempt, **transition) for run, attempt in attempts.items()
    )
    return len(attempts)


def same_runs() -> RunQuerySet:
    """Runs that measure the same as one of an outer query."""
    columns = ("commit", "benchmark_set", "reason", "round")
    same: RunQuerySet = Run.objects.own().filter(**{column: OuterRef(column) for column in columns})
    return same


def deserted() -> QuerySet[Machine]:
    """Machines that are away and have waiting runs which another machine of their pool takes over.

    Not if the machine that the project is assigned to has the same runs itself: those wait for their own machine.
    """
    present_machines = Machine.objects.filter(present(), pool=OuterRef("machine__pool"), projects=OuterRef("project"))
    keeps = Assignment.objects.filter(
        machine=OuterRef("machine"),
        project=OuterRef("project"),
        pool=OuterRef("machine__pool"),
        machine__projects=OuterRef("project"),
        machine__in=Machine.objects.filter(present()),
    )
    same = same_runs().filter(Exists(keeps), machine__pool=OuterRef("machine__pool"))
    queued_runs = Run.objects.own().filter(
        machine=OuterRef("pk"),
        status=Status.QUEUED,
        reason__in=MOVABLE,
        project__machine_policy=MachinePolicy.ONE,
        project__machines=OuterRef("pk"),
    )
    return (
        Machine.objects.exclude(present())
        .exclude(pool="")
        .filter(Exists(queued_runs.filter(Exists(present_machines)).exclude(Exists(same))))
    )


def relieve() -> int:
    """Move the waiting runs of all machines that are away. Return how many."""
    return sum(leave(machine, f"{machine} is away") for machine in list(deserted().defer("facts")))


@transaction.atomic
def put(machine: Machine, pool: str, user: User | None = None) -> None:
    """Put the machine into a pool, or with an empty name out of its own. Others of the old pool get its projects."""
    if machine.pool == pool or machine.outside:
        return
    before = machine.pool
    Machine.objects.filter(pk=machine.pk).update(pool=pool)
    machine.pool = pool
    hand_over(Assignment.objects.filter(machine=machine, pool=before).select_related("project"), before)
    why = f"from {before or 'none'} to {pool or 'none'}"
    record_event(machine, MachineEvent.Kind.POOLED, why, user)


def hand_over(assignments: Iterable[Assignment], pool: str) -> None:
    for assignment in assignments:
        assignment.delete()
        assigned_machine(assignment.project, pool)
