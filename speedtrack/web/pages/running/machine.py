"""A machine: its state, the results of its canary, its newest runs, and what changed on it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

from django.db.models import Case, Count, OuterRef, QuerySet, Subquery, When
from django.http import Http404

from speedtrack.accounts.access import Access
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.projects.models import Project
from speedtrack.runs.models import (
    Alarm,
    Assignment,
    Canary,
    CanaryCheck,
    Environment,
    Machine,
    MachineEvent,
    MachineToken,
    Run,
    Status,
)
from speedtrack.runs.queue.jobs import members_of
from speedtrack.runs.results import environments
from speedtrack.runs.results.environments import ChangedFact
from speedtrack.runs.scheduling import order, standing
from speedtrack.web.drawing.plots import CanaryDot, CanaryPlot
from speedtrack.web.pages.running import queue
from speedtrack.web.pages.running.facts import FactGroups
from speedtrack.web.pages.running.queue import MachineWork

CHECKS = 60  # in the plot and in the table
EVENTS = 30
LISTED_RUNS = 12
ALARMS = 10
SHIFTS = 20
LATELY = timedelta(days=1)
Kind = MachineEvent.Kind
NAMING = (Kind.CANARY, Kind.QUARANTINED, Kind.LIFTED, Kind.BLIND, Kind.POOLED, Kind.CHANGED)
#: States of a machine of which its page has a part.
TOLD_APART = ("outside", "quarantine", "refused", "unable")


@dataclass(frozen=True)
class CheckResult:
    """One check of the canary. ``changed``: what differs between its environment and that of the check before."""

    check: CanaryCheck
    changed: list[ChangedFact]

    @property
    def title(self) -> str:
        return METRICS[self.check.series.metric].title if self.check.series else ""

    @property
    def benchmark(self) -> str:
        return self.check.series.benchmark.name if self.check.series else ""


@dataclass(frozen=True)
class EnvironmentEra:
    """An environment, and what changed when it began."""

    environment: Environment
    changed: list[ChangedFact]


class TimeShare(NamedTuple):
    """The share of a kind of work.

    ``entered``: as a form holds it; ``percent``: as it counts; None if the kind shares with the pushes.
    """

    kind: str
    words: str
    entered: str
    percent: float | None
    seconds: float
    percent_lately: float

    @property
    def is_given(self) -> bool:
        """Return whether the kind may have a share of its own."""
        return self.kind in order.KINDS and self.kind != "pushes"


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
        """Why the machine takes no run, as a sentence; empty if the page says it elsewhere, with its remedy."""
        return "" if self.work.health in TOLD_APART else self.work.standing.sentence

    @property
    def facts(self) -> FactGroups:
        return FactGroups.of(self.measured_facts)

    @property
    def recorded_facts(self) -> FactGroups:
        return FactGroups.of(self.recorded)


def machine_or_404(name: str) -> Machine:
    requeued = Run.objects.own().filter(
        machine=OuterRef("pk"), status=Status.QUEUED, round__gt=0, created__gte=OuterRef("quarantined_at")
    )
    requeued_count = Subquery(requeued.order_by().values("machine").annotate(count=Count("pk")).values("count"))
    machines = Machine.objects.annotate(
        queued=queue.waiting_count(), requeued=Case(When(quarantined_at__isnull=False, then=requeued_count))
    )
    machine = standing.with_work(machines).filter(name=name).first()
    if machine is None:
        raise Http404(f"There is no machine {name!r}.")
    return machine


def load(name: str, access: Access) -> MachinePage:
    machine = machine_or_404(name)
    work = queue.work_of(machine, access)
    work.queued = getattr(machine, "queued")  # noqa: B009 (an annotation)
    queue.keep_secret([machine], access)
    canaries = list(machine.canaries.select_related("project", "commit").order_by("-pk"))
    is_secret = not all(access.sees(canary.project_id) for canary in canaries)
    canary = None if is_secret else next((each for each in canaries if each.retired_at is None), None)
    history = list(Environment.objects.filter(machine=machine).order_by("pk"))
    checks = checks_of(canary, {environment.pk: environment for environment in history}) if canary else []
    ended_runs = Run.objects.filter(machine=machine, canary=None, status__in=(Status.SUCCEEDED, Status.FAILED))
    ended_runs = ended_runs.filter(ended_at__isnull=False)  # as the index of ended runs has it
    shifts = ChangePoint.objects.filter(series__machine=machine, status=ChangePoint.Status.MACHINE)
    shifts = access.among(shifts, "series__project")
    events = list(machine.events.select_related("who").order_by("-pk")[:EVENTS])
    return MachinePage(
        machine=machine,
        work=work,
        measured_facts=history[-1].facts.get("series", {}) if history else machine.facts,
        recorded=history[-1].facts.get("recorded", {}) if history else {},
        canary=canary,
        benchmarks=[benchmark.name for benchmark in members_of(canary.benchmark_set_id)] if canary else [],
        checks=list(reversed(checks)),
        plot=CanaryPlot.of([canary_dot(check) for check in checks]) if checks else None,
        eras=environment_eras(history),
        events=[without_words(event) for event in events] if access.hidden else events,
        listed_runs=[run if access.sees(run.project_id) else None for run in newest_of(ended_runs)],
        shifts=list(shifts.select_related("series__project", "series__benchmark", "commit").order_by("-pk")[:SHIFTS]),
        shares=shares_of(machine),
        opens_at=work.standing.opens_at,
        requeued=getattr(machine, "requeued") or 0,  # noqa: B009 (an annotation)
        alarms=queue.said_alarms(machine.alarms.order_by("-pk")[:ALARMS], access),
        tokens=list(MachineToken.objects.valid().filter(machine=machine).order_by("pk")),
        version_refusal=standing.refusal_of_version(machine),
        assignments=assignments_of(machine, access),
        projects=list(Project.objects.tracked().order_by("name")) if access.is_operator else [],
        is_secret=is_secret,
    )


def newest_of(runs: QuerySet[Run]) -> QuerySet[Run]:
    return runs.select_related("project", "commit", "base").order_by("-ended_at")[:LISTED_RUNS]


def without_words(event: MachineEvent) -> MachineEvent:
    """The same event, without words that may name a project or what was measured of it."""
    if event.kind in NAMING:
        event.why = ""
    return event


def shares_of(machine: Machine) -> list[TimeShare]:
    """The kinds of work, with the share of each and the time that it had lately."""
    weights, spent = order.weights_of(machine), order.spent_lately(machine, LATELY)
    total = sum(spent.values())
    return [
        TimeShare(
            kind,
            label,
            str(machine.shares.get(kind, "")),
            weights.get(kind),
            spent[kind],
            100 * spent[kind] / total if total else 0.0,
        )
        for kind, label in order.IN_WORDS.items()
    ]


def assignments_of(machine: Machine, access: Access) -> list[Assignment]:
    """The projects that the machine measures for its pool."""
    return (
        list(access.among(machine.assignments.all()).select_related("project").order_by("project__name"))
        if machine.pool
        else []
    )


def checks_of(canary: Canary, history: dict[int, Environment]) -> list[CheckResult]:
    """The newest checks, oldest first."""
    checks = canary.checks.select_related("run", "series__benchmark").order_by("-pk")[:CHECKS]
    results: list[CheckResult] = []
    last: Environment | None = None
    for check in reversed(checks):
        now = history.get(check.series.environment_id) if check.series else last
        changes = environments.changed_facts(last, now) if last and now and last != now else []
        results.append(CheckResult(check, changes))
        last = now or last
    return results


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


def environment_eras(history: list[Environment]) -> list[EnvironmentEra]:
    """The machine's environments, newest first."""
    eras = [EnvironmentEra(history[0], [])] if history else []
    eras += [EnvironmentEra(after, environments.changed_facts(before, after)) for before, after in pairwise(history)]
    return list(reversed(eras))


def machine_document(page: MachinePage) -> dict[str, Any]:
    """The page as JSON."""
    machine, canary = page.machine, page.canary
    return {
        "schema": "speedtrack.machine/1",
        "machine": machine.name,
        "state": page.work.health,
        "why": page.work.standing.sentence,
        "quarantined_at": machine.quarantined_at,
        "quarantined_why": machine.quarantined_why,
        "last_seen_at": machine.last_seen_at,
        "windows": machine.windows,
        "zone": machine.zone,
        "shares": [{"kind": share.kind, "percent": share.percent, "seconds": share.seconds} for share in page.shares],
        "pool": machine.pool,
        "alarms": [
            {"kind": alarm.kind, "why": alarm.why, "began": alarm.began, "ended_at": alarm.ended_at}
            for alarm in page.alarms
        ],
        "facts": {"series": page.measured_facts, "recorded": page.recorded},
        "canary": canary
        and {
            "project": canary.project.slug,
            "sha": canary.commit.sha,
            "benchmarks": page.benchmarks,
            "artifacts": canary.artifacts,
            "since": canary.since,
        },
        "checks": [
            {
                "run": result.check.run_id,
                "at": result.check.at,
                "answer": result.check.answer,
                "benchmark": result.benchmark,
                "metric": result.check.series.metric if result.check.series else "",
                "ratio": result.check.ratio,
                "limit": result.check.limit,
            }
            for result in page.checks
        ],
        "environments": [
            {
                "digest": era.environment.digest,
                "since": era.environment.created,
                "changed": [fact._asdict() for fact in era.changed],
            }
            for era in page.eras
        ],
        "shifts": [
            {
                "project": cp.series.project.slug,
                "benchmark": cp.series.benchmark.name,
                "metric": cp.series.metric,
                "sha": cp.commit.sha,
                "ratio": cp.ratio,
                "why": cp.note,
            }
            for cp in page.shifts
        ],
        "events": [{"at": event.at, "kind": event.kind, "why": event.why} for event in page.events],
    }


def csv_rows(page: MachinePage) -> Iterator[list[Any]]:
    """The checks by the canary."""
    columns = ("run", "at", "answer", "benchmark", "metric", "ratio", "limit")
    yield list(columns)
    for row in machine_document(page)["checks"]:
        yield [row[name] for name in columns]
