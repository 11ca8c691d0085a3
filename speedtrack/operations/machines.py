"""What operators do with machines: add them, pause them, plan their time, replace their tokens, retire them."""

from collections.abc import Mapping, Sequence

from speedtrack.operations.performing import Actor, Changes, Done, operation
from speedtrack.runs.fleet import enrolment, machines, pools, registering
from speedtrack.runs.models import Machine
from speedtrack.runs.requests import rules
from speedtrack.runs.scheduling import quarantine

ONCE = "its token is not shown again"


@operation("machine.add")
def add(actor: Actor, name: str, pool: str = "", days: int | None = None, outside: bool = False) -> Done:
    """Register a machine; the token is the secret. ``outside``: it has no runner. Raises NoSuchThing and WrongToken."""
    if outside:
        registering.register_outside(name)
        return Done(f"machine {name} is registered; it has no runner and no token: its results are sent in", name)
    token = registering.add_machine(name, pool, days)
    return Done(f"machine {name} is registered; {ONCE}", name, secret=token)


@operation("machine.enroll-code")
def make_code(actor: Actor, name: str, pool: str = "", days: int | None = None) -> Done:
    """Make a code, the secret, by which a machine is enrolled. Raises NoSuchThing and WrongToken."""
    code = enrolment.make_code(name, pool, days, actor.user)
    return Done(f"code for machine {name}, valid once, for {enrolment.VALID.seconds // 60} minutes", name, secret=code)


@operation("machine.token")
def renew_token(actor: Actor, machine: Machine, days: int | None = None) -> Done:
    """Give a machine a new token, the secret. Raises NoSuchThing and WrongToken."""
    token = machines.renew_token(machine.name, actor.user, days)
    return Done(f"machine {machine} has a new token, the old one is refused; {ONCE}", machine, secret=token)


@operation("machine.rotate")
def rotate(actor: Actor, machine: Machine) -> Done:
    """Have the runner replace its token. Raises MachineConflict."""
    machines.rotate(machine)
    sentence = f"the runner of machine {machine} replaces its token with its next call; its run goes on"
    return Done(sentence, machine)


@operation("machine.revoke")
def revoke(actor: Actor, machine: Machine) -> Done:
    """Refuse all tokens of a machine. Raises MachineConflict."""
    count = machines.revoke(machine, actor.user)
    sentence = (
        f"{count} token{'s' * (count != 1)} of machine {machine} are refused from now on; its run is queued again"
    )
    return Done(f"{sentence}. An enrolment code lets it in again", machine)


@operation("machine.pool")
def put_into_pool(actor: Actor, machine: Machine, pool: str) -> Done:
    """Put a machine into a pool, or with an empty name out of its own. Raises NoSuchThing and MachineConflict."""
    if pool:
        registering.check_name(pool, "pool")
    machines.check_has_runner(machine)
    before = machine.pool
    pools.put(machine, pool, actor.user)
    return Done(f"machine {machine} is in {f'pool {pool}' if pool else 'no pool'}", machine, {"pool": (before, pool)})


@operation("machine.pause")
def pause(actor: Actor, machine: Machine, at_once: bool = False) -> Done:
    """Give a machine no more work. ``at_once``: its run is taken from it. Raises MachineConflict."""
    machines.pause(machine, actor.user, at_once)
    effect = "a run that it had is queued again" if at_once else machines.FINISHES
    return Done(f"machine {machine} is paused: {effect}. Resume undoes it", machine, {"at_once": (None, at_once)})


@operation("machine.resume")
def resume(actor: Actor, machine: Machine) -> Done:
    """Give a machine work again. Raises MachineConflict."""
    machines.resume(machine, actor.user)
    return Done(f"machine {machine} gets work again. Pause undoes it", machine)


@operation("machine.retire")
def retire(actor: Actor, machine: Machine) -> Done:
    """Take a machine out of service. Raises MachineConflict."""
    cancelled = machines.retire(machine, actor.user)
    sentence = f"machine {machine} is retired, {cancelled} waiting runs cancelled. Return to service undoes it"
    return Done(sentence, machine)


@operation("machine.return")
def return_to_service(actor: Actor, machine: Machine) -> Done:
    """Return a retired machine to service; its new token is the secret. Raises MachineConflict."""
    if machine.outside:
        machines.take_results_again(machine, actor.user)
        return Done(f"machine {machine} is in service again: its results are sent in", machine)
    token = machines.return_to_service(machine, actor.user)
    return Done(f"machine {machine} is in service again; {ONCE}", machine, secret=token)


@operation("machine.plan")
def plan(
    actor: Actor,
    machine: Machine,
    windows: Sequence[str] | None = None,
    zone: str = "UTC",
    shares: Mapping[str, int] | None = None,
) -> Done:
    """Set when a machine works by itself, and what its time is for; None leaves one as it is.

    Raises BadWindow, BadShares and MachineConflict.
    """
    machines.check_has_runner(machine)
    sentences: list[str] = []
    changes: Changes = {}
    if windows is not None:
        sentences.append(rules.set_windows(machine, windows, zone, actor.user))
        changes = {"windows": (machine.windows, list(windows)), "zone": (machine.zone, zone)}
    if shares is not None:
        sentences.append(rules.set_shares(machine, shares, actor.user))
        changes["shares"] = (machine.shares, dict(shares))
    return Done(". ".join(sentences), machine, changes)


@operation("machine.canary")
def measure_canary(actor: Actor, machine: Machine) -> Done:
    """Measure a machine's canary next. Raises MachineConflict."""
    machines.measure_canary(machine)
    return Done(f"the canary of machine {machine} is measured next", machine)


@operation("machine.freeze")
def freeze_canary(
    actor: Actor,
    machine: Machine,
    project: str,
    commit: str | None = None,
    benchmarks: Sequence[str] = (),
    fetches: bool = False,
) -> Done:
    """Make a commit the machine's canary. ``fetches``: also one that has to be fetched, which may take minutes.

    Raises NoSuchThing, RepositoryError and DefinitionError.
    """
    canary = machines.set_canary(machine.name, project, commit or None, list(benchmarks), actor.user, fetches)
    return Done(f"{canary}; its first run is queued", machine, {"canary": (None, canary)})


@operation("machine.lift")
def lift(actor: Actor, machine: Machine, accept_level: bool = False) -> Done:
    """End a machine's quarantine. ``accept_level``: the canary's history starts anew. Raises NotQuarantined."""
    quarantine.lift_by_hand(machine, actor.user, accept_level)
    changes = {"accept_level": (None, accept_level)}
    return Done(f"the quarantine has ended: machine {machine} is trusted again", machine, changes)
