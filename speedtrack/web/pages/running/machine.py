"""A machine: its state, the results of its canary, its newest runs, and what changed on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Case, Count, OuterRef, QuerySet, Subquery, When
from django.http import Http404

from speedtrack.accounts.access import Access
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.projects.models import Project
from speedtrack.reports.machines import (
    CheckResult,
    EnvironmentEra,
    MachineDetails,
    TimeShare,
    history_of,
    keep_secret,
    soundness_by,
)
from speedtrack.runs.models import (
    ACTIVE,
    Alarm,
    Assignment,
    Canary,
    Machine,
    MachineEvent,
    MachineToken,
    Run,
    Status,
)
from speedtrack.runs.queue.jobs import members_of
from speedtrack.runs.results import environments
from speedtrack.runs.scheduling import soundness, standing
from speedtrack.web.drawing.small.plots import CanaryDot, CanaryPlot
from speedtrack.web.pages.running import queue
from speedtrack.web.pages.running.facts import FactGroups
from speedtrack.web.pages.running.queue import MachineWork
from speedtrack.web.requests.formats import rows_of

LISTED_RUNS = 12


@dataclass(frozen=True)
class MachinePage:
    machine: Machine
    work: MachineWork
    measured_facts: dict[str, Any]  #: that its series have in common now; before them, those that its runner sent
    recorded: dict[str, Any]
    canary: Canary | None
    benchmarks: list[str]  #: names of those that the canary measures
    checks: list[CheckResult]
    plot: CanaryPlot | None
    eras: list[EnvironmentEra]
    events: list[MachineEvent]
    listed_runs: list[Run | None]  #: None: of a project that the caller does not see
    shifts: list[ChangePoint]  #: changes that the machine caused, not the code
    shares: list[TimeShare]
    opens_at: datetime | None  #: when its next window opens, if all are closed now
    requeued: int  #: runs that its quarantine queued again and that still wait
    alarms: list[Alarm]  #: the newest, those that are open first
    tokens: list[MachineToken]  #: that are valid
    version_refusal: str  #: why its runner's version is refused; empty if it is not
    assignments: list[Assignment]  #: projects that it measures for its pool
    projects: list[Project]  #: a commit of which an operator may make its canary
    is_secret: bool = False  #: has it, or had it, a canary of a project that the caller does not see?

    @property
    def why(self) -> str:
        """Why a sound machine takes no run, as a sentence. What is wrong with it is the first line of the page."""
        return self.work.standing.sentence if self.work.health in soundness.MEASURING else ""

    @property
    def facts(self) -> FactGroups:
        return FactGroups.of(self.measured_facts)

    @property
    def recorded_facts(self) -> FactGroups:
        return FactGroups.of(self.recorded)


def named_machine(name: str) -> QuerySet[Machine]:
    requeued = Run.objects.own().filter(
        machine=OuterRef("pk"), status=Status.QUEUED, round__gt=0, created__gte=OuterRef("quarantined_at")
    )
    requeued_count = Subquery(requeued.order_by().values("machine").annotate(count=Count("pk")).values("count"))
    machines = Machine.objects.annotate(
        queued=queue.waiting_count(), requeued=Case(When(quarantined_at__isnull=False, then=requeued_count))
    )
    return standing.with_work(machines).filter(name=name)


MACHINE = PreparedQuery(named_machine)


def machine_or_404(name: str) -> Machine:
    machines = MACHINE.rows(name=name)
    if not machines:
        raise Http404(f"There is no machine {name!r}.")
    return machines[0]


def load(name: str, access: Access) -> MachinePage:
    machine = machine_or_404(name)
    running, ended = runs_of(machine)
    work = queue.work_of(machine, running, access)
    work.queued = getattr(machine, "queued")  # noqa: B009 (an annotation)
    keep_secret([machine], access)
    history = history_of(machine, access)
    work.soundness = soundness_by(history, machine, work.standing, access)
    checks, canary = history.checks, history.canary
    return MachinePage(
        machine=machine,
        work=work,
        measured_facts=history.environment.get("series", {}) if history.eras else machine.facts,
        recorded=history.environment.get("recorded", {}),
        canary=canary,
        benchmarks=[benchmark.name for benchmark in members_of(canary.benchmark_set_id)] if canary else [],
        checks=list(reversed(checks)),
        plot=CanaryPlot.of([canary_dot(check) for check in checks]) if checks else None,
        eras=history.eras,
        events=history.events,
        listed_runs=[run if access.sees(run.project_id) else None for run in ended],
        shifts=history.shifts,
        shares=history.shares,
        opens_at=work.standing.opens_at,
        requeued=getattr(machine, "requeued") or 0,  # noqa: B009 (an annotation)
        alarms=history.alarms,
        tokens=list(MachineToken.objects.valid().filter(machine=machine).order_by("pk")),
        version_refusal=standing.refusal_of_version(machine),
        assignments=assignments_of(machine, access),
        projects=list(Project.objects.tracked().order_by("name")) if access.is_operator else [],
        is_secret=history.is_secret,
    )


def runs_of(machine: Machine) -> tuple[Run | None, list[Run]]:
    """The run that the machine measures now, and those that it ended last, the newest first; by one statement."""
    runs = Run.objects.filter(machine=machine)
    ended = runs.filter(canary=None, status__in=(Status.SUCCEEDED, Status.FAILED))
    ended = ended.filter(ended_at__isnull=False)  # as the index of ended runs has it
    active = runs.active().order_by("pk").values("pk")[:1]
    pks = active.union(ended.order_by("-ended_at").values("pk")[:LISTED_RUNS])
    rows = list(queue.with_related(Run.objects.filter(pk__in=pks)).order_by("-ended_at", "-pk"))
    running = next((run for run in rows if run.status in ACTIVE), None)
    return running, [run for run in rows if run is not running]


def assignments_of(machine: Machine, access: Access) -> list[Assignment]:
    """The projects that the machine measures for its pool."""
    return (
        list(access.among(machine.assignments.all()).select_related("project").order_by("project__name"))
        if machine.pool
        else []
    )


def canary_dot(result: CheckResult) -> CanaryDot:
    check = result.check
    change = f"{result.benchmark}, {result.title} {numbers.change(check.ratio)}: " if check.ratio else ""
    return CanaryDot(
        ratio=check.ratio,
        limit=check.limit,
        answer=check.answer,
        title=f"{check.at:%Y-%m-%d %H:%M} UTC, {change}{check.answer}",
        changed=environments.changes_in_words(result.changed) if result.changed else "",
    )


CHECK_COLUMNS = ("run", "at", "answer", "benchmark", "metric", "ratio", "limit")


def csv_rows(document: MachineDetails) -> Iterator[list[Any]]:
    """The checks by the canary."""
    return rows_of(CHECK_COLUMNS, document.checks)
