"""Set what people decide about planning and about a machine's time: policies of branches, windows, shares."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import time

from django.contrib.auth.models import User
from django.db import transaction

from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.models import Project
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine, MachineEvent, PlanningPolicy
from speedtrack.runs.planning import choosing, policies
from speedtrack.runs.planning.policies import BadPolicy
from speedtrack.runs.scheduling import order, windows
from speedtrack.runs.scheduling.quarantine import record_event

MOST_POLICIES = 20  # of a project
MOST = 1_000_000  # as a number that a person enters


@dataclass(frozen=True)
class WantedPolicy:
    """A policy as a person enters it; the defaults measure everything. ``machines``: names; empty means all."""

    branches: str = ""
    every: int = 1
    most_waiting: int | None = None
    fills_gaps: bool = False
    ignored_paths: Sequence[str] = ()
    suite: str = ""
    machines: Sequence[str] = ()
    extended_at: time | None = None
    zone: str = "UTC"


@dataclass(frozen=True)
class Saved:
    """The result of saving a policy. ``queued``: runs of commits that an earlier policy had put off."""

    policy: str
    queued: int
    words: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.policy}: {', '.join(self.words)}; {self.queued} put-off runs queued"


@transaction.atomic
def save_policy(project: Project, wanted: WantedPolicy) -> Saved:
    """Store a policy, and judge the deferred commits again. Raises BadPolicy or DefinitionError."""
    # Of two people who save at once, the second one sees the first one's policies.
    project = Project.objects.select_for_update().get(pk=project.pk)
    check(project, wanted)
    columns = {name: getattr(wanted, name) for name in ("every", "most_waiting", "fills_gaps", "suite", "zone")}
    columns |= {"extended_at": wanted.extended_at, "ignored_paths": "\n".join(wanted.ignored_paths)}
    policy, _ = PlanningPolicy.objects.update_or_create(project=project, branches=wanted.branches, defaults=columns)
    policy.machines.set(project.machines.filter(name__in=wanted.machines))
    return Saved(str(policy), choosing.decide_again(project), in_words(policy))


@transaction.atomic
def remove_policy(project: Project, branches: str) -> Saved:
    """Remove a policy, so that the other ones decide on these branches. Raises BadPolicy if there is none."""
    found = project.policies.filter(branches=branches).first()
    if found is None:
        raise BadPolicy(f"{project} has no policy of {branches or 'all other branches'}: there are {named(project)}")
    name = str(found)
    found.delete()
    return Saved(name, choosing.decide_again(project), ["removed"])


def wanted_now(project: Project, branches: str) -> WantedPolicy:
    """The stored policy of a pattern, or the defaults of a new one."""
    found = project.policies.filter(branches=branches).first()
    if found is None:
        return WantedPolicy(branches)
    return WantedPolicy(
        branches=branches,
        every=found.every,
        most_waiting=found.most_waiting,
        fills_gaps=found.fills_gaps,
        ignored_paths=found.patterns,
        suite=found.suite,
        machines=list(found.machines.order_by("name").values_list("name", flat=True)),
        extended_at=found.extended_at,
        zone=found.zone,
    )


def named(project: Project) -> str:
    return ", ".join(str(one) for one in project.policies.order_by("branches")) or "none"


def check(project: Project, wanted: WantedPolicy) -> None:
    """Raise BadPolicy or DefinitionError if the policy is not possible."""
    if not 1 <= wanted.every <= MOST:
        raise BadPolicy(f"one commit in {wanted.every} cannot be measured: give 1 for every commit, 2 for every second")
    if wanted.most_waiting is not None and not 1 <= wanted.most_waiting <= MOST:
        raise BadPolicy(f"{wanted.most_waiting} commits cannot wait: give a number from 1, or none for no limit")
    if set(wanted.branches) & set('~^:\\" \t\n') or len(wanted.branches) > 200:
        raise BadPolicy("give one pattern of branches such as 8.* or release/*: one without blanks or ~ ^ :")
    if not project.policies.filter(branches=wanted.branches).exists() and project.policies.count() >= MOST_POLICIES:
        raise BadPolicy(f"{project} has {MOST_POLICIES} policies: remove one first")
    policies.check_patterns(wanted.ignored_paths)
    if wanted.suite:
        load_suite(wanted.suite)
    known = set(project.machines.values_list("name", flat=True))
    if unknown := sorted(set(wanted.machines) - known):
        raise BadPolicy(
            f"{project} is not measured on {', '.join(unknown)}: there are {', '.join(sorted(known)) or 'none'}"
        )
    try:
        windows.checked_windows([], wanted.zone)
    except windows.BadWindow as e:
        raise BadPolicy(str(e)) from e


def in_words(policy: PlanningPolicy) -> list[str]:
    """The rules of a stored policy in words."""
    most = policy.most_waiting
    said = {
        "every commit" if policy.every == 1 else f"one commit in {policy.every}": True,
        f"at most {most} commit{'s' * (most != 1)} waiting": most is not None,
        "the others when idle": policy.fills_gaps,
        f"without changes of {', '.join(policy.patterns[:3])}{' …' * (len(policy.patterns) > 3)} only": policy.patterns,
        f"suite {policy.suite}": policy.suite,
        f"on {', '.join(policy.machines.order_by('name').values_list('name', flat=True))}": policy.machines.exists(),
        f"the extended set daily from {policy.extended_at:%H:%M} {policy.zone}" if policy.extended_at else "": (
            policy.extended_at
        ),
    }
    return [words for words, holds in said.items() if holds]


@transaction.atomic
def set_windows(machine: Machine, texts: Sequence[str], zone: str, who: User | None = None) -> str:
    """Let a machine take work by itself only in these windows; an empty list means always. Return a message.

    Raises BadWindow.
    """
    machine = machines.locked(machine)
    checked = windows.checked_windows(texts, zone)
    Machine.objects.filter(pk=machine.pk).update(windows=checked, zone=zone)
    words = f"it takes work in {', '.join(checked)} ({zone})" if checked else "it takes work at any time"
    if (machine.windows, machine.zone) != (checked, zone):
        record_event(machine, MachineEvent.Kind.CHANGED, words, who)
    return f"machine {machine}: {words}"


@transaction.atomic
def set_shares(machine: Machine, shares: Mapping[str, int], who: User | None = None) -> str:
    """Set the shares of a machine's time; an empty mapping means those of the settings. Return a message.

    Raises BadShares.
    """
    machine = machines.locked(machine)
    checked = order.checked_shares(shares)
    Machine.objects.filter(pk=machine.pk).update(shares=checked)
    old, machine.shares = machine.shares, checked
    each = ", ".join(f"{order.IN_WORDS[kind]} {percent:g}%" for kind, percent in order.weights_of(machine).items())
    if old != checked:
        record_event(machine, MachineEvent.Kind.CHANGED, f"its time: {each}", who)
    return f"machine {machine}: {each}"
