"""What a machine does now, and why it takes no run if it takes none.

This is the only module that says so: pages, the API and commands read it. What only a runner knows (the core for which
it waits, a full disk) it sends with its heartbeat, and ``hear`` stores it with the machine.
"""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Exists, Max, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce, Greatest, Now
from django.utils import timezone

from speedtrack.benchmarks import numbers
from speedtrack.runs.models import ACTIVE, Machine, MachineEvent, Run, Status
from speedtrack.runs.scheduling import versions, windows
from speedtrack.runs.scheduling.order import PRIORITY

SILENT = timedelta(minutes=3)  # an idle runner calls once a minute
LATE = timedelta(minutes=1)  # a nudge and the claim that follows take seconds
FREEING = (MachineEvent.Kind.RESUMED, MachineEvent.Kind.LIFTED, MachineEvent.Kind.RETURNED)


@dataclass(frozen=True)
class QueuedWork:
    """What the database knows of the runs of a machine. ``due_at``: since when the first waiting run may start."""

    measures: bool = False
    due_at: datetime | None = None
    priority: int = 0
    free_since: datetime | None = None

    @classmethod
    def of(cls, machine: Machine) -> "QueuedWork":
        """What ``with_work`` read."""
        return cls(*(getattr(machine, f"work_{column.name}") for column in fields(cls)))


@dataclass(frozen=True)
class MachineStanding:
    """What a machine does now.

    ``state``: a word of ``help.TERMS``. ``why``: why it takes no run now, as the end of a sentence that begins with its
    name; empty if it takes runs. ``opens_at``: when its next window opens, if all are closed. ``late_s``: for how many
    seconds it has not taken a run that it should have taken.
    """

    machine: str
    state: str
    why: str = ""
    opens_at: datetime | None = None
    late_s: float = 0.0

    @property
    def sentence(self) -> str:
        return f"Machine {self.machine} {self.why}." if self.why else ""

    @property
    def takes_all(self) -> bool:
        """Return whether it takes any run that is due, now or after the one that it measures."""
        return self.state in ("working", "idle")

    @property
    def may_be_estimated(self) -> bool:
        """Return whether it is known when it takes its next run."""
        return self.takes_all or self.state == "closed"

    def takes(self, priority: int) -> bool:
        """Return whether it takes runs of this priority, now or after the one that it measures."""
        if self.state == "quarantine":
            return priority >= PRIORITY["canary"]
        return self.takes_all or (self.state == "closed" and is_by_hand(priority))


def is_by_hand(priority: int) -> bool:
    """Return whether a run of this priority is taken outside of a machine's windows."""
    return priority >= PRIORITY["manual"]


def of_machine(machine: Machine) -> MachineStanding:
    return of_machines([machine])[machine.pk]


def of_machines(machines: Iterable[Machine]) -> dict[int, MachineStanding]:
    """By machine id. Those that were not read ``with_work`` cost one statement, however many they are."""
    rows, now = list(machines), timezone.now()
    unread = [machine.pk for machine in rows if not hasattr(machine, "work_measures")]
    machines_with_work = with_work(Machine.objects.filter(pk__in=unread).only("pk")) if unread else []
    works = {
        machine.pk: QueuedWork.of(machine)
        for machine in (*rows, *machines_with_work)
        if hasattr(machine, "work_measures")
    }
    return {machine.pk: standing_of(machine, works.get(machine.pk, QueuedWork()), now) for machine in rows}


def with_work(machines: QuerySet[Machine]) -> QuerySet[Machine]:
    """Machines with what their ``MachineStanding`` needs of their runs (``QueuedWork``), read in the same statement."""
    own = Run.objects.filter(machine=OuterRef("pk"))
    due = own.filter(status=Status.QUEUED, not_before__lte=Now()).order_by("-priority", "-rank", "pk")
    ends = own.filter(ended_at__isnull=False).order_by("-ended_at").values("ended_at")
    freed = MachineEvent.objects.filter(machine=OuterRef("pk"), kind__in=FREEING).order_by().values("machine")
    return machines.annotate(
        work_measures=Exists(own.filter(status__in=ACTIVE)),
        work_due_at=Subquery(due.annotate(at=Greatest("created", "not_before")).values("at")[:1]),
        work_priority=Coalesce(Subquery(due.values("priority")[:1]), 0),
        work_free_since=Greatest(Subquery(ends[:1]), Subquery(freed.annotate(at=Max("at")).values("at"))),
    )


def standing_of(machine: Machine, work: QueuedWork, now: datetime) -> MachineStanding:
    """The first reason that holds; decisions of people come before the runner's statement."""
    opens_at = windows.opens_at(machine.windows, machine.zone, now)
    for state, why in (*decided(machine), *unheard(machine, now)):
        return MachineStanding(machine.name, state, why, opens_at)
    if work.measures:
        is_last = bool(said_of(machine, "draining"))
        why = "is being drained: its runner ends after the run that it measures now" if is_last else ""
        return MachineStanding(machine.name, "draining" if is_last else "working", why, opens_at)
    for state, why in hindered(machine):
        return MachineStanding(machine.name, state, why, opens_at)
    if opens_at and not is_by_hand(work.priority):
        why = (
            f"is outside of its hours: its next window opens at {at_minute(opens_at)}, and until then it takes only "
            "what a person asks for"
        )
        return MachineStanding(machine.name, "closed", why, opens_at)
    return waiting_standing(machine, work, now, opens_at)


def decided(machine: Machine) -> Iterable[tuple[str, str]]:
    """What people, or its canary, have decided about a machine."""
    if machine.retired_at:
        yield "retired", "is retired: it measures nothing any more"
    if machine.outside:
        yield "outside", "has no runner: its results are measured elsewhere and sent in"
    if machine.quarantined_at:
        since = at_minute(machine.quarantined_at)
        yield "quarantine", f"has been in quarantine since {since}: it measures only its canary until that is steady"
    if machine.paused:
        yield "paused", "is paused: it gets no work until somebody resumes it"


def unheard(machine: Machine, now: datetime) -> Iterable[tuple[str, str]]:
    """Why a machine's runner does not call."""
    if machine.last_seen_at is None:
        yield "never seen", "has never called: start its runner with its token"
    elif ending := said_of(machine, "ended"):
        yield "stopped", f"has no runner since {said_since(machine)}: it {ending}; start it again"
    elif is_silent(machine, now):
        silent = numbers.about((now - machine.last_seen_at).total_seconds())
        why = (
            f"has been silent for {silent}: its runner called last at {at_minute(machine.last_seen_at)}; look whether "
            "it runs, reaches this server, and has a valid token"
        )
        yield "silent", why


def is_silent(machine: Machine, now: datetime) -> bool:
    return machine.last_seen_at is not None and now - machine.last_seen_at > SILENT


def hindered(machine: Machine) -> Iterable[tuple[str, str]]:
    """Why a runner that calls takes no run."""
    if refusal := refusal_of_version(machine):
        yield "refused", f"gets no work: {refusal}"
    if unable := said_of(machine, "unable"):
        yield "unable", f"takes no work: {unable}"
    if waits := said_of(machine, "waits"):
        yield "waiting", f"has waited since {said_since(machine)} for {waits}"


def waiting_standing(machine: Machine, work: QueuedWork, now: datetime, opens_at: datetime | None) -> MachineStanding:
    """The standing of a machine that could measure: idle, or late with a run that is due."""
    if work.due_at is None:
        return MachineStanding(machine.name, "idle", opens_at=opens_at)
    open_since = windows.open_since(machine.windows, machine.zone, now)
    due_at = max(filter(None, (work.due_at, work.free_since, open_since)))
    if now - due_at <= LATE:
        return MachineStanding(machine.name, "idle", opens_at=opens_at)
    late_s = (now - due_at).total_seconds()
    return MachineStanding(machine.name, "late", late_in_words(machine, due_at, late_s), opens_at, late_s)


def late_in_words(machine: Machine, due_at: datetime, late_s: float) -> str:
    assert machine.last_seen_at is not None  # of a runner that has called
    cause = (
        "it knows of nothing to wait for, so no message of the broker reaches it: look whether the broker runs, and at "
        "SPEEDTRACK_BROKER_URL of the runner"
        if machine.runner_said is not None
        else "it is of a version that does not say why: its log does"
    )
    return (
        f"is late by {numbers.about(late_s)}: a run has been due since {at_minute(due_at)}, and its runner, which "
        f"called last at {at_minute(machine.last_seen_at)}, has not asked for it; {cause}"
    )


def why_waits(run: Run, standing: MachineStanding, ahead: int | None = None) -> str:
    """Why a queued run is not measured yet, as a sentence; empty if it is not queued.

    ``ahead``: how many runs go before it, if that is known.
    """
    if run.status != Status.QUEUED:
        return ""
    if run.not_before > timezone.now():
        return f"It is not tried before {at_minute(run.not_before)}{after_error(run)}."
    if not standing.takes(run.priority):
        return standing.sentence
    if ahead:
        return f"{ahead} run{'' if ahead == 1 else 's'} go{'es' if ahead == 1 else ''} before it on {standing.machine}."
    if standing.state == "working":
        return f"Machine {standing.machine} measures another run now, and takes this one next."
    return f"Machine {standing.machine} takes it next."


def why_wait(runs: Iterable[Run]) -> dict[int, str]:
    """By id of those of the runs that are queued: why each is not measured yet."""
    queue = [run for run in runs if run.status == Status.QUEUED]
    standings = of_machines({run.machine_id: run.machine for run in queue}.values()) if queue else {}
    return {run.pk: why_waits(run, standings[run.machine_id]) for run in queue}


def after_error(run: Run) -> str:
    error = run.error.strip().partition("\n")[0][:300]
    end = f"attempt {run.attempt} failed" if run.attempt else "its runner handed it back"
    return f", because {end}: {error.rstrip('.')}" if error else ""


def refusal_of_version(machine: Machine) -> str:
    """Why the runner's version is refused; empty if it is not, or if the runner has not reported it."""
    return versions.refusal_of(machine.runner_version, machine.runner_protocol) if machine.runner_version else ""


def said_of(machine: Machine, key: str) -> str:
    return str((machine.runner_said or {}).get(key) or "")


def said_since(machine: Machine) -> str:
    return at_minute(datetime.fromisoformat((machine.runner_said or {})["since"]))


def at_minute(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def hear(machine: Machine, unable: str = "", waits: str = "", ended: str = "", draining: bool = False) -> None:
    """Store the statement of the machine's runner about itself, if it has changed."""
    statement: dict[str, Any] = {"unable": unable, "waits": waits, "ended": ended, "draining": draining}
    before = machine.runner_said or {}
    if machine.runner_said is None or any(before.get(key) != text for key, text in statement.items()):
        statement["since"] = timezone.now().isoformat(timespec="seconds")
        Machine.objects.filter(pk=machine.pk).update(runner_said=statement)
        machine.runner_said = statement


def stop_waiting(machine: Machine) -> None:
    """Forget for what the machine's runner waited, because it has asked for work."""
    if said_of(machine, "waits") or said_of(machine, "ended"):
        hear(machine, said_of(machine, "unable"))
