"""The faults: what each does to an installation, and for how long. Each has healed when it returns."""

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from research.chaos.world import MACHINES, World, send
from speedtrack.ground.observing import failpoints
from speedtrack.tests.builders import redis_client
from speedtrack.tests.proxy import Condition

BEYOND_LEASE_S = (9, 13)  # the lease takes 8 s
RUNNER_PLACES = (
    "claim.received",
    "build.made",
    "build.reported",
    *(f"{call}.{stage}" for call in ("measurement", "complete") for stage in ("spooled", "sent", "deleted")),
)
WEB_PLACES = tuple(
    f"{call}.{stage}"
    for call in ("claim", "build", "measurement", "complete")
    for stage in ("before_commit", "after_commit")
)
WORKER_PLACES = {
    "git": ("sync.before_commit", "sync.after_commit"),
    "worker": ("detect.before_commit", "confirm.before_commit"),
}


@dataclass(frozen=True)
class InjectedFault:
    """``weight``: how often it is chosen, compared with others."""

    name: str
    weight: int
    strike: Callable[[World, random.Random], None]


def kill_runner(world: World, rng: random.Random) -> None:
    """SIGKILL: what it has started goes on, until its successor ends it."""
    world.servers.processes[f"runner-{rng.choice(MACHINES)}"].kill()
    time.sleep(rng.uniform(0, 2))


def kill_server(name: str) -> Callable[[World, random.Random], None]:
    def strike(world: World, rng: random.Random) -> None:
        world.servers.kill(name)
        time.sleep(rng.uniform(0, 2))
        world.servers.start(name)

    return strike


def arm_runner(world: World, rng: random.Random) -> None:
    """The next life of a runner ends at a place between two steps of a run."""
    name = f"runner-{rng.choice(MACHINES)}"
    failpoint, passages = rng.choice(RUNNER_PLACES), rng.randint(1, 3)
    world.servers.stop(name)
    world.servers.start(name, SPEEDTRACK_RUNNER_FAILPOINT=f"{failpoint}:kill:{passages}")


def arm_web(world: World, rng: random.Random) -> None:
    """The next life of the web server ends within or just after a transaction."""
    world.servers.stop("web")
    world.servers.start("web", SPEEDTRACK_FAILPOINT=f"{rng.choice(WEB_PLACES)}:kill:{rng.randint(1, 5)}")


def arm_worker(world: World, rng: random.Random) -> None:
    name = rng.choice(sorted(WORKER_PLACES))
    world.servers.kill(name)
    world.servers.start(name, SPEEDTRACK_FAILPOINT=f"{rng.choice(WORKER_PLACES[name])}:kill:{rng.randint(1, 2)}")
    time.sleep(rng.uniform(3, 6))
    world.servers.kill(name)  # processes of a worker's pool are replaced with the same variable
    world.servers.start(name)


def suspend_runner(world: World, rng: random.Random) -> None:
    """A machine that sleeps longer than its lease: its run is given away, and it must drop its work."""
    processes = world.runner_processes(rng.choice(MACHINES))
    send(processes, signal.SIGSTOP)
    time.sleep(rng.uniform(*BEYOND_LEASE_S))
    send(processes, signal.SIGCONT)


def flush_broker(world: World, rng: random.Random) -> None:
    redis_client(world.servers.environment["BROKER_URL"]).flushall()


def restart_broker(world: World, rng: random.Random) -> None:
    """It stores nothing, so it comes back empty."""
    world.broker.stop()
    time.sleep(rng.uniform(0, 3))
    world.broker.start()


def suspend_broker(world: World, rng: random.Random) -> None:
    process = world.broker_process()
    process.suspend()
    time.sleep(rng.uniform(3, 8))
    process.resume()


def restart_database(world: World, rng: random.Random) -> None:
    world.restart_postgresql()


def disturb_network(condition: Condition) -> Callable[[World, random.Random], None]:
    def strike(world: World, rng: random.Random) -> None:
        network = world.networks[rng.choice(MACHINES)]
        network.set(condition)
        time.sleep(rng.uniform(2, BEYOND_LEASE_S[1]))
        network.set(Condition.SOUND)

    return strike


FAULTS = (
    InjectedFault("runner killed", 6, kill_runner),
    InjectedFault("runner killed at a place", 6, arm_runner),
    InjectedFault("runner suspended beyond its lease", 2, suspend_runner),
    InjectedFault("network cut", 2, disturb_network(Condition.CUT)),
    InjectedFault("network half-open", 2, disturb_network(Condition.HALF_OPEN)),
    InjectedFault("network slow", 2, disturb_network(Condition.SLOW)),
    InjectedFault("web server killed", 3, kill_server("web")),
    InjectedFault("web server killed at a place", 4, arm_web),
    InjectedFault("dispatcher killed", 3, kill_server("dispatcher")),
    InjectedFault("worker killed", 2, kill_server("worker")),
    InjectedFault("git worker killed", 2, kill_server("git")),
    InjectedFault("notify worker killed", 1, kill_server("notify")),
    InjectedFault("worker killed at a place", 2, arm_worker),
    InjectedFault("broker flushed", 2, flush_broker),
    InjectedFault("broker restarted empty", 2, restart_broker),
    InjectedFault("broker suspended", 2, suspend_broker),
    InjectedFault("PostgreSQL restarted at once", 2, restart_database),
)
assert set(WEB_PLACES) <= set(failpoints.PLACES)


def chosen(rng: random.Random) -> InjectedFault:
    return rng.choices(FAULTS, weights=[fault.weight for fault in FAULTS])[0]
