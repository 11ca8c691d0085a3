"""What people do with a registered machine: pause it, take it out of service and back, and set its token and canary."""

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now

from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.benchmarks.storing import store_set, store_suite
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import Project
from speedtrack.projects.sync import store_commits
from speedtrack.runs.documents import Beat
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import pools, tokens
from speedtrack.runs.models import Alarm, Canary, Machine, MachineEvent, Reason, Run, Status
from speedtrack.runs.naming import benchmarks_named, check_known, machine_with_runner, project_named
from speedtrack.runs.queue import ends, queue
from speedtrack.runs.scheduling import alarms, canary, standing
from speedtrack.runs.scheduling.canary import FrozenCommit
from speedtrack.runs.scheduling.quarantine import record_event

Kind = MachineEvent.Kind
FINISHES = "it finishes its run and takes no other"


class MachineConflict(Exception):
    """The machine is in a state in which this cannot be done; the message says which, and what to do."""


@transaction.atomic
def pause(machine: Machine, user: User | None = None, at_once: bool = False) -> None:
    """Give the machine no more work.

    It finishes its run, unless ``at_once``: then the run is taken back and queued again.
    """
    machine = locked(machine)
    check_has_runner(machine)
    if not machine.paused:
        Machine.objects.filter(pk=machine.pk).update(paused=True)
        record_event(machine, Kind.PAUSED, "its run is queued again" if at_once else FINISHES, user)
    if at_once:
        take_run_back(machine, "its machine was paused")
    pools.leave(machine, f"{machine} was paused")


def take_run_back(machine: Machine, why: str) -> None:
    """Queue the machine's active run again, or end it if it is to be cancelled.

    The runner hears of it with its next call, and drops the work.
    """
    for run in Run.objects.active().filter(machine=machine).select_for_update(of=("self",)):
        if run.cancel_requested_at:
            ends.end_run(run, Status.CANCELLED, "cancelled on request")
        else:
            ends.requeue_unharmed(run, why)


@transaction.atomic
def resume(machine: Machine, user: User | None = None) -> None:
    """Give the machine work again. Raises MachineConflict if it is retired."""
    machine = locked(machine)
    check_has_runner(machine)
    if machine.retired_at:
        raise MachineConflict(f"machine {machine} is retired: return it to service first")
    Machine.objects.filter(pk=machine.pk).update(paused=False)
    if machine.paused:
        record_event(machine, Kind.RESUMED, "it gets work again", user)


@transaction.atomic
def retire(machine: Machine, user: User | None = None) -> int:
    """Take the machine out of service: its token ends. Return the number of its waiting runs that were cancelled.

    All that it measured stays.
    """
    machine = locked(machine)
    if machine.retired_at:
        raise MachineConflict(f"machine {machine} is retired already")
    take_run_back(machine, "its machine was retired")
    Machine.objects.filter(pk=machine.pk).update(paused=True)
    pools.leave(machine, f"{machine} was retired")
    cancelled = queue.cancel_waiting(Run.objects.filter(machine=machine), "its machine was retired")
    tokens.revoke(machine)
    Machine.objects.filter(pk=machine.pk).update(paused=True, retired_at=Now())
    machine.projects.clear()
    end_alarms(machine, "the machine was retired")
    record_event(machine, Kind.RETIRED, f"{cancelled} waiting runs were cancelled", user)
    return cancelled


@transaction.atomic
def return_to_service(machine: Machine, user: User | None = None) -> str:
    """Let a retired machine measure all projects again. Return its new token. Raises MachineConflict."""
    machine = locked(machine)
    if machine.retired_at is None:
        raise MachineConflict(f"machine {machine} is in service")
    check_has_runner(machine)
    token = tokens.replace(machine)
    Machine.objects.filter(pk=machine.pk).update(paused=False, retired_at=None)
    machine.projects.add(*Project.objects.tracked())
    record_event(machine, Kind.RETURNED, "it measures all projects, with a new token", user)
    return token


@transaction.atomic
def revoke(machine: Machine, user: User | None = None) -> int:
    """Make all tokens of the machine invalid, at once. Return how many were valid.

    Its run is queued again. Its runner is told with its next renewal, and ends.
    """
    machine = locked(machine)
    check_has_runner(machine)
    token_count = tokens.revoke(machine)
    take_run_back(machine, "the tokens of its machine were revoked")
    run_count = pools.leave(machine, f"the tokens of {machine} were revoked")
    record_event(machine, Kind.REVOKED, f"{token_count} were valid; {run_count} waiting runs moved to its pool", user)
    return token_count


@transaction.atomic
def rotate(machine: Machine) -> None:
    """Have the runner replace its token with its next call; both are valid until it uses the new one."""
    if not tokens.ask_to_rotate(machine):
        raise MachineConflict(f"machine {machine} has no valid token: enrol it anew, or make a token for it")


def renew_token(name: str, user: User | None = None, days: int | None = None) -> str:
    """Give a machine a new token and return it. The old ones are invalid at once. Raises NoSuchThing."""
    machine = machine_with_runner(name)
    if machine.retired_at:
        raise NoSuchThing(f"machine {name} is retired: return it to service, which gives it a token, too")
    token = tokens.replace(machine, days)
    record_event(machine, Kind.RENEWED, "the old one is no longer valid", user)
    return token


@transaction.atomic
def take_results_again(machine: Machine, user: User | None = None) -> None:
    """Let a retired machine whose results are sent in receive results again. Raises MachineConflict."""
    machine = locked(machine)
    if machine.retired_at is None or not machine.outside:
        raise MachineConflict(f"machine {machine} is in service")
    Machine.objects.filter(pk=machine.pk).update(paused=False, retired_at=None)
    record_event(machine, Kind.RETURNED, "results that are sent in are stored again", user)


def check_has_runner(machine: Machine) -> None:
    """Raise MachineConflict for a machine whose results are sent in."""
    if machine.outside:
        raise MachineConflict(f"machine {machine} has no runner, its results are sent in: this is not possible with it")


def hear(machine: Machine, beat: Beat) -> None:
    """Store why an idle runner takes no run, and begin or end the alarm that it cannot take any."""
    if beat.waits is not None or beat.unable or machine.runner_said is not None:
        standing.hear(machine, beat.unable, beat.waits or "", beat.ended)
    tell_unable(machine, beat.unable)


def tell_unable(machine: Machine, why: str) -> None:
    """Begin the alarm that the machine's runner takes no work for this reason; an empty ``why`` ends it."""
    if why:
        alarms.begin(Alarm.Kind.UNABLE, why, machine=machine)
    else:
        alarms.end(Alarm.Kind.UNABLE, "it takes work again", machine=machine)


def end_alarms(machine: Machine, why: str) -> None:
    for kind in (Alarm.Kind.UNABLE, Alarm.Kind.STALLED):
        alarms.end(kind, why, machine=machine)


@transaction.atomic
def measure_canary(machine: Machine) -> None:
    """Have the machine's canary measured next. Raises MachineConflict."""
    machine = locked(machine)
    frozen = machine.canaries.filter(retired_at=None).first()
    if frozen is None:
        raise MachineConflict(f"machine {machine} has no canary: the first head that it measures becomes one")
    if machine.paused:
        raise MachineConflict(f"machine {machine} is paused: resume it first")
    unfinished = Run.objects.unfinished().filter(machine=machine, reason=Reason.CANARY)
    if not unfinished.exists():
        canary.queue_run(frozen, canary.database_time())
    elif not unfinished.filter(status=Status.QUEUED).update(not_before=Now()):
        raise MachineConflict(f"the canary of machine {machine} is being measured now")


def set_canary(
    name: str, slug: str, revision: str | None, names: list[str], user: User | None = None, fetches: bool = True
) -> Canary:
    """Make a commit (default: the head) with some benchmarks (default: one) of a project the machine's canary.

    ``fetches``: also a commit that the mirror lacks. Raises NoSuchThing, RepositoryError or DefinitionError.
    """
    machine, project = machine_with_runner(name), project_named(slug)
    definition = load_suite(project.suite)
    suite, benchmarks = store_suite(project, definition)
    check_known(suite, benchmarks, names)
    selection = canary_benchmarks(suite, benchmarks, names)
    revision = revision or project.default_branch
    sha = fetching.find_commit(slug, remote_of(project), revision) if fetches else git.resolve_revision(slug, revision)
    frozen = FrozenCommit(project, store_commits(project, [sha])[sha], suite, store_set(suite, selection))
    return canary.replace_canary(machine, frozen, user)


def canary_benchmarks(suite: Suite, benchmarks: list[Benchmark], names: list[str]) -> list[Benchmark]:
    """The benchmarks with these names; by default the one that suits a canary best. Raises NoSuchThing if none does."""
    suited = canary.first_closed_loop(benchmarks)
    selection = benchmarks_named(benchmarks, names) or [b for b in [suited] if b]
    if not selection:
        raise NoSuchThing(f"suite {suite} has no benchmark without a rate: name one")
    return selection


def locked(machine: Machine) -> Machine:
    """The machine's row, locked in the caller's transaction as every claim locks it."""
    return Machine.objects.select_for_update(no_key=True).defer("facts").get(pk=machine.pk)
