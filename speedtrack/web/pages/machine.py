"""A machine: how it is, what its canary says, what it measured last, and what changed on it."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.http import Http404

from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.runs import environments
from speedtrack.runs.environments import Changed
from speedtrack.runs.models import (
    Canary,
    CanaryCheck,
    Environment,
    Machine,
    MachineEvent,
    Run,
    Status,
)
from speedtrack.web.pages import queue
from speedtrack.web.pages.queue import Post
from speedtrack.web.plots import CanaryDot, CanaryPlot

CHECKS = 60  # drawn and listed
EVENTS = 30
LAST = 12  # finished runs listed
SHIFTS = 20
UNKNOWN = "unknown"  # what a runner says of a fact that the machine does not tell
#: Facts by what they are about, each named by how it begins; what begins otherwise is the kernel's.
ABOUT = {
    "Processor": """system architecture cpu_ microcode hypervisor smt turbo governor frequency energy sleep cpuidle
        cores threads sockets l1 l2 l3 hardware_counters clocksource temperature""",
    "Memory": "memory_ thp hugepages swappiness overcommit numa free_ swap_",
    "Placement": "server_cpus driver_cpus placement isolated nohz housekeeping offline irqbalance interrupts",
    "Software": "os libc compiler build_ driver_ runner_",
    "Kernel": "",
}


@dataclass(frozen=True)
class Shown:
    """One check of the canary, with the environment in which it was measured."""

    check: CanaryCheck
    environment_id: int | None
    begins: list[Changed]  #: what changed on the machine before it, if its environment is another one

    @property
    def title(self) -> str:
        return METRICS[self.check.series.metric].title if self.check.series else ""

    @property
    def benchmark(self) -> str:
        return self.check.series.benchmark.name if self.check.series else ""


@dataclass(frozen=True)
class Era:
    """An environment, and what changed when it began."""

    environment: Environment
    changed: list[Changed]


@dataclass(frozen=True)
class Facts:
    """Facts in groups, and the names of those that the machine does not tell."""

    groups: dict[str, dict[str, Any]]
    unknown: list[str]

    @classmethod
    def of(cls, facts: dict[str, Any]) -> "Facts":
        known = sorted(name for name, value in facts.items() if value != UNKNOWN)
        groups = {topic: {name: facts[name] for name in known if topic_of(name) == topic} for topic in ABOUT}
        return cls({topic: group for topic, group in groups.items() if group}, sorted(facts.keys() - set(known)))


def topic_of(fact: str) -> str:
    """What a fact is about: the topic with the longest beginning of its name, else the kernel."""
    words = {word: topic for topic, words in ABOUT.items() for word in words.split() if fact.startswith(word)}
    return words[max(words, key=len)] if words else "Kernel"


@dataclass(frozen=True)
class MachinePage:
    machine: Machine
    post: Post
    recorded: dict[str, Any]
    canary: Canary | None
    checks: list[Shown]
    plot: CanaryPlot | None
    eras: list[Era]
    events: list[MachineEvent]
    last: list[Run]
    shifts: list[ChangePoint]  #: what moved with the machine, not with the code
    again: int

    @property
    def facts(self) -> Facts:
        return Facts.of(self.post.facts)

    @property
    def moment(self) -> Facts:
        return Facts.of(self.recorded)


def machine_or_404(name: str) -> Machine:
    machine = Machine.objects.filter(name=name).first()
    if machine is None:
        raise Http404(f"There is no machine {name!r}.")
    return machine


def load(name: str) -> MachinePage:
    machine = machine_or_404(name)
    canary = machine.canaries.filter(retired_at=None).select_related("project", "commit").first()
    history = list(Environment.objects.filter(machine=machine).order_by("pk"))
    checks = checks_of(canary, {one.pk: one for one in history}) if canary else []
    (post,) = queue.posts(Machine.objects.filter(pk=machine.pk))
    done = Run.objects.filter(machine=machine, canary=None, status__in=(Status.SUCCEEDED, Status.FAILED))
    shifts = ChangePoint.objects.filter(series__machine=machine, status=ChangePoint.Status.MACHINE)
    return MachinePage(
        machine=machine,
        post=post,
        recorded=history[-1].facts.get("recorded", {}) if history else {},
        canary=canary,
        checks=list(reversed(checks)),
        plot=CanaryPlot.of([dot(one) for one in checks]) if checks else None,
        eras=eras(history),
        events=list(machine.events.select_related("who").order_by("-pk")[:EVENTS]),
        last=list(done.select_related("project", "commit", "base").order_by("-ended_at")[:LAST]),
        shifts=list(shifts.select_related("series__project", "series__benchmark", "commit").order_by("-pk")[:SHIFTS]),
        again=again(machine),
    )


def again(machine: Machine) -> int:
    """How many runs its quarantine has queued again that still wait."""
    waiting = Run.objects.own().filter(machine=machine, status=Status.QUEUED, round__gt=0)
    return waiting.filter(created__gte=machine.quarantined_at).count() if machine.quarantined_at else 0


def checks_of(canary: Canary, history: dict[int, Environment]) -> list[Shown]:
    """The newest checks, oldest first."""
    found = canary.checks.select_related("run", "series__benchmark").order_by("-pk")[:CHECKS]
    shown: list[Shown] = []
    last: Environment | None = None
    for check in reversed(found):
        now = history.get(check.series.environment_id) if check.series else last
        changed = environments.difference(last, now) if last and now and last != now else []
        shown.append(Shown(check, now.pk if now else None, changed))
        last = now or last
    return shown


def dot(shown: Shown) -> CanaryDot:
    check = shown.check
    said = f"{shown.benchmark}, {shown.title} {check.ratio - 1:+.2%}: " if check.ratio else ""
    return CanaryDot(
        ratio=check.ratio,
        limit=check.limit,
        answer=check.answer,
        title=f"{check.at:%Y-%m-%d %H:%M} UTC, {said}{check.answer}",
        begins=environments.words(shown.begins) if shown.begins else "",
    )


def eras(history: list[Environment]) -> list[Era]:
    """The machine's environments, newest first."""
    found = [Era(history[0], [])] if history else []
    found += [Era(after, environments.difference(before, after)) for before, after in pairwise(history)]
    return list(reversed(found))


def document(page: MachinePage) -> dict[str, Any]:
    """The same as JSON."""
    machine, canary = page.machine, page.canary
    return {
        "schema": "speedtrack.machine/1",
        "machine": machine.name,
        "state": page.post.health,
        "quarantined_at": machine.quarantined_at,
        "quarantined_why": machine.quarantined_why,
        "last_seen_at": machine.last_seen_at,
        "facts": {"series": page.post.facts, "recorded": page.recorded},
        "canary": canary
        and {
            "project": canary.project.slug,
            "sha": canary.commit.sha,
            "benchmarks": canary.benchmarks,
            "artifacts": canary.artifacts,
            "since": canary.since,
        },
        "checks": [
            {
                "run": one.check.run_id,
                "at": one.check.at,
                "answer": one.check.answer,
                "benchmark": one.benchmark,
                "metric": one.check.series.metric if one.check.series else "",
                "ratio": one.check.ratio,
                "limit": one.check.limit,
            }
            for one in page.checks
        ],
        "environments": [
            {
                "digest": era.environment.digest,
                "since": era.environment.created,
                "changed": [changed._asdict() for changed in era.changed],
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
