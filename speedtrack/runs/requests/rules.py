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
def save_policy(project: Project, request: WantedPolicy) -> Saved:
    """Store a policy, and judge the deferred commits again. Raises BadPolicy or DefinitionError."""
    project = locked(project)
    check(project, request)
    columns = {name: getattr(request, name) for name in ("every", "most_waiting", "fills_gaps", "suite", "zone")}
    columns |= {"extended_at": request.extended_at, "ignored_paths": "\n".join(request.ignored_paths)}
    policy, _ = PlanningPolicy.objects.update_or_create(project=project, branches=request.branches, defaults=columns)
    policy.machines.set(project.machines.filter(name__in=request.machines))
    return Saved(str(policy), choosing.decide_again(project), in_words(policy))


def locked(project: Project) -> Project:
    """Lock the project, so that a second person who changes its policies at the same time sees the first change.

    The lock does not keep rows that refer to the project, such as deliveries and runs, from being stored.
    """
    return Project.objects.select_for_update(no_key=True).get(pk=project.pk)


@transaction.atomic
def remove_policy(project: Project, branches: str) -> Saved:
    """Remove a policy, so that the other ones decide on these branches. Raises BadPolicy if there is none."""
    project = locked(project)
    policy = project.policies.filter(branches=branches).first()
    if policy is None:
        raise BadPolicy(f"{project} has no policy of {branches or 'all other branches'}: there are {named(project)}")
    name = str(policy)
    policy.delete()
    return Saved(name, choosing.decide_again(project), ["removed"])


def wanted_now(project: Project, branches: str) -> WantedPolicy:
    """The stored policy of a pattern, or the defaults of a new one."""
    policy = project.policies.filter(branches=branches).first()
    if policy is None:
        return WantedPolicy(branches)
    return WantedPolicy(
        branches=branches,
        every=policy.every,
        most_waiting=policy.most_waiting,
        fills_gaps=policy.fills_gaps,
        ignored_paths=policy.patterns,
        suite=policy.suite,
        machines=list(policy.machines.order_by("name").values_list("name", flat=True)),
        extended_at=policy.extended_at,
        zone=policy.zone,
    )


def named(project: Project) -> str:
    return ", ".join(str(policy) for policy in project.policies.order_by("branches")) or "none"


def check(project: Project, request: WantedPolicy) -> None:
    """Raise BadPolicy or DefinitionError if the policy is not possible."""
    if not 1 <= request.every <= MOST:
        raise BadPolicy(
            f"one commit in {request.every} cannot be measured: give 1 for every commit, 2 for every second"
        )
    if request.most_waiting is not None and not 1 <= request.most_waiting <= MOST:
        raise BadPolicy(f"{request.most_waiting} commits cannot wait: give a number from 1, or none for no limit")
    if set(request.branches) & set('~^:\\" \t\n') or len(request.branches) > 200:
        raise BadPolicy("give one pattern of branches such as 8.* or release/*: one without blanks or ~ ^ :")
    if not project.policies.filter(branches=request.branches).exists() and project.policies.count() >= MOST_POLICIES:
        raise BadPolicy(f"{project} has {MOST_POLICIES} policies: remove one first")
    policies.check_patterns(request.ignored_paths)
    if request.suite:
        load_suite(request.suite)
    machine_names = set(project.machines.values_list("name", flat=True))
    if unknown := sorted(set(request.machines) - machine_names):
        raise BadPolicy(
            f"{project} is not measured on {', '.join(unknown)}: there are {', '.join(sorted(machine_names)) or 'none'}"
        )
    try:
        windows.checked_windows([], request.zone)
    except windows.BadWindow as e:
        raise BadPolicy(str(e)) from e


def in_words(policy: PlanningPolicy) -> list[str]:
    """The rules of a stored policy in words."""
    most = policy.most_waiting
    rules = {
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
    return [rule for rule, holds in rules.items() if holds]


@transaction.atomic
def set_windows(machine: Machine, texts: Sequence[str], zone: str, user: User | None = None) -> str:
    """Let a machine take work by itself only in these windows; an empty list means always. Return a message.

    Raises BadWindow.
    """
    machine = machines.locked(machine)
    checked = windows.checked_windows(texts, zone)
    Machine.objects.filter(pk=machine.pk).update(windows=checked, zone=zone)
    summary = f"it takes work in {', '.join(checked)} ({zone})" if checked else "it takes work at any time"
    if (machine.windows, machine.zone) != (checked, zone):
        record_event(machine, MachineEvent.Kind.CHANGED, summary, user)
    return f"machine {machine}: {summary}"


@transaction.atomic
def set_shares(machine: Machine, shares: Mapping[str, int], user: User | None = None) -> str:
    """Set the shares of a machine's time; an empty mapping means those of the settings. Return a message.

    Raises BadShares.
    """
    machine = machines.locked(machine)
    checked = order.checked_shares(shares)
    Machine.objects.filter(pk=machine.pk).update(shares=checked)
    old, machine.shares = machine.shares, checked
    each = ", ".join(f"{order.IN_WORDS[kind]} {percent:g}%" for kind, percent in order.weights_of(machine).items())
    if old != checked:
        record_event(machine, MachineEvent.Kind.CHANGED, f"its time: {each}", user)
    return f"machine {machine}: {each}"
