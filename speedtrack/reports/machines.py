"""A machine: what it does, the results of its canary, and what changed on it. Pages read the same rows."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

from django.db.models import Exists, OuterRef, QuerySet
from pydantic import Field

from speedtrack.accounts.access import Access
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.reports.changes import ChangePointDocument, known_changes
from speedtrack.reports.common import Document, From, Text, Time
from speedtrack.reports.evidence import CanaryCheckDocument
from speedtrack.reports.measuring import MachineDocument
from speedtrack.runs.models import Alarm, Canary, CanaryCheck, Environment, Machine, MachineEvent, Series
from speedtrack.runs.queue.jobs import members_of
from speedtrack.runs.results import environments
from speedtrack.runs.results.environments import ChangedFact
from speedtrack.runs.scheduling import order, soundness, standing
from speedtrack.runs.scheduling.soundness import Soundness
from speedtrack.runs.scheduling.standing import MachineStanding

CHECKS = 60
EVENTS = 30
ALARMS = 10
SHIFTS = 20
LATELY = timedelta(days=1)
Kind = MachineEvent.Kind
NAMING = (Kind.CANARY, Kind.QUARANTINED, Kind.LIFTED, Kind.BLIND, Kind.POOLED, Kind.CHANGED)


class ChangedFactDocument(Document):
    """A fact of a machine before and after, as text."""

    fact: Text
    before: Text
    after: Text


class EraDocument(Document):
    """An environment of a machine, and what changed when it began."""

    id: Annotated[int, From("environment.pk")]
    digest: Annotated[str, From("environment.digest")]
    created: Annotated[Time, From("environment.created")]
    changed: Annotated[list[ChangedFactDocument], From(lambda era: list(map(ChangedFactDocument.of, era.changed)))]


class CanaryDocument(Document):
    """A frozen server and workload: when its results change, the machine has changed."""

    project: Annotated[str, From("project.slug")]
    sha: Annotated[str, From("commit.sha")]
    benchmarks: Annotated[list[Text], From(lambda canary: [row.name for row in members_of(canary.benchmark_set_id)])]
    artifacts: dict[str, str] | None = Field(description="name -> digest of what its first build made")
    since: Time = Field(description="its history begins then")


class ShareDocument(Document):
    """How much of a machine's time a kind of work gets."""

    kind: str
    percent: float | None = Field(description="null: it shares with the pushes")
    seconds: float = Field(description="that it had on the last day")


class AlarmDocument(Document):
    """A fault of a machine that its operators are told."""

    kind: str
    why: Text
    began: Time
    ended_at: Time | None


class MachineEventDocument(Document):
    """What happened to a machine."""

    at: Time
    kind: str
    why: Text


class MachineDetails(MachineDocument):
    """A machine, what its runner found there, and what its canary shows."""

    SCHEMA = "speedtrack.machine/2"

    facts: dict[str, Any] = Field(description="processor, kernel, compiler and more, as its runner last told")
    environment: dict[str, Any] = Field(
        description="facts of its newest environment: those of `series` break lines, `recorded` ones do not"
    )
    shares: list[ShareDocument]
    alarms: list[AlarmDocument] = Field(description="the newest, those that are open first")
    canary: CanaryDocument | None = Field(description="null: none, or of a project that is private to others")
    checks: list[CanaryCheckDocument] = Field(description="by this canary, newest first")
    environments: list[EraDocument] = Field(description="newest first")
    shifts: list[ChangePointDocument] = Field(description="changes that the machine caused, not the code")
    events: list[MachineEventDocument] = Field(description="newest first")


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
class MachineHistory:
    """What a caller sees of a machine's past. ``checks``: oldest first; ``eras``, ``events``, ``alarms``: newest first.

    ``is_secret``: it has, or had, a canary of a project that the caller does not see.
    """

    canary: Canary | None
    is_secret: bool
    checks: list[CheckResult]
    eras: list[EnvironmentEra]
    events: list[MachineEvent]
    alarms: list[Alarm]
    shifts: list[ChangePoint]
    shares: list[TimeShare]

    @property
    def environment(self) -> dict[str, Any]:
        """The facts of its newest environment."""
        facts: dict[str, Any] = self.eras[0].environment.facts if self.eras else {}
        return facts


def environments_seen(machine: Machine, access: Access) -> QuerySet[Environment]:
    """The environments of a machine, of one without a runner only those of projects that the caller sees.

    Whoever sends results states what was on the machine, in any words.
    """
    if not machine.outside:
        return machine.environments.all()
    return machine.environments.filter(Exists(access.among(Series.objects.filter(environment=OuterRef("pk")))))


def history_of(machine: Machine, access: Access) -> MachineHistory:
    canaries = list(machine.canaries.select_related("project", "commit").order_by("-pk"))
    is_secret = not all(access.sees(canary.project_id) for canary in canaries)
    canary = None if is_secret else next((each for each in canaries if each.retired_at is None), None)
    rows = list(environments_seen(machine, access).order_by("pk"))
    events = list(machine.events.select_related("who").order_by("-pk")[:EVENTS])
    return MachineHistory(
        canary=canary,
        is_secret=is_secret,
        checks=checks_of(canary, {environment.pk: environment for environment in rows}) if canary else [],
        eras=environment_eras(rows),
        events=[without_words(event) for event in events] if access.hidden else events,
        alarms=said_alarms(machine.alarms.order_by("-pk")[:ALARMS], access),
        shifts=shifts_of(machine, access),
        shares=shares_of(machine),
    )


def machine_details(machine: Machine, access: Access) -> MachineDetails:
    """The document of a machine, without what the caller does not see."""
    keep_secret([machine], access)
    stands, history = standing.of_machine(machine), history_of(machine, access)
    return MachineDetails.of(
        machine,
        state=stands.state,
        why=stands.sentence,
        health=soundness_by(history, machine, stands, access).words,
        environment=history.environment,
        shares=list(map(ShareDocument.of, history.shares)),
        alarms=list(map(AlarmDocument.of, history.alarms)),
        canary=history.canary and CanaryDocument.of(history.canary),
        checks=[CanaryCheckDocument.of(result.check) for result in reversed(history.checks)],
        environments=list(map(EraDocument.of, history.eras)),
        shifts=list(map(ChangePointDocument.of, history.shifts)),
        events=list(map(MachineEventDocument.of, history.events)),
    )


def soundness_by(history: MachineHistory, machine: Machine, stands: MachineStanding, access: Access) -> Soundness:
    """Whether a machine is sound, by its history as far as the caller sees it."""
    if history.is_secret:
        return soundness.of_machine(machine, stands, access.hidden)
    newest = history.checks[-1].check if history.checks else None
    return soundness.soundness_of(stands, history.canary is not None, newest)


def machine_documents(rows: Iterable[Machine], access: Access) -> list[MachineDocument]:
    machines = list(rows)
    keep_secret(machines, access)
    standings = standing.of_machines(machines)
    sound = soundness.of_machines(machines, standings, access.hidden)
    stated = ((machine, standings[machine.pk], sound[machine.pk].words) for machine in machines)
    return [
        MachineDocument.of(machine, state=stands.state, why=stands.sentence, health=health)
        for machine, stands, health in stated
    ]


def shifts_of(machine: Machine, access: Access) -> list[ChangePoint]:
    """The newest changes that the machine caused. Most machines have none, so their ids are read first."""
    shifts = ChangePoint.objects.filter(series__machine=machine, status=ChangePoint.Status.MACHINE)
    newest = access.among(shifts, "series__project").order_by("-pk").values_list("pk", flat=True)[:SHIFTS]
    return list(known_changes().filter(pk__in=list(newest)).order_by("-pk"))


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


def environment_eras(history: list[Environment]) -> list[EnvironmentEra]:
    """The machine's environments, newest first."""
    eras = [EnvironmentEra(history[0], [])] if history else []
    eras += [EnvironmentEra(after, environments.changed_facts(before, after)) for before, after in pairwise(history)]
    return list(reversed(eras))


def keep_secret(machines: Iterable[Machine], access: Access) -> None:
    """Hide why a machine is in quarantine from a caller who may not see the project of its canary."""
    if access.hidden and (quarantined := [machine for machine in machines if machine.quarantined_at]):
        canaries = access.among(Canary.objects.filter(machine__in=quarantined, retired_at=None))
        visible_ids = set(canaries.values_list("machine", flat=True))
        for machine in quarantined:
            if machine.pk not in visible_ids:
                machine.quarantined_why = "its canary moved"


def said_alarms(rows: Iterable[Alarm], access: Access) -> list[Alarm]:
    """The alarms, without words that may name a project which the caller does not see."""
    alarms = list(rows)
    for alarm in alarms:
        if access.hidden and alarm.kind == Alarm.Kind.STALLED:
            alarm.why, alarm.ended_why = "a run of it does not go on", ""
    return alarms
