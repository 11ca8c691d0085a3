"""The course of events: work and faults at random, then healing, then the checks."""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection, connections

from research.chaos import checks, faults, world
from research.chaos.world import COMMITS, World
from speedtrack.runs.models import Attempt, Run
from speedtrack.tests.proxy import Condition

PAUSE_S = (0.5, 3.0)  # between two faults
REVIVE_EVERY_S = 0.5
ROUNDS_AHEAD = 30  # runs that wait at least, as long as faults come
DRAIN_S = 1500  # until all runs must have ended after the last fault
Answer = TypeVar("Answer")

TRIES = 60  # of a statement of this program while PostgreSQL restarts


@dataclass
class ChaosOutcome:
    """What happened, and what should not have."""

    faults: Counter[str]
    deaths: dict[str, int]
    runs: int
    attempts: int
    broken_s: float
    drain_s: float
    delivered: int
    refusals: int
    statuses: dict[str, int]
    violations: list[str]


def break_and_heal(home: Path, minutes: float, runs: int, seed: int) -> ChaosOutcome:
    """Run the installation under faults for so long, with at least so many runs; then check it."""
    rng = random.Random(seed)
    installation = world.build(home)
    struck: Counter[str] = Counter()
    began_at = time.monotonic()
    try:
        with revived(installation):
            give_work_and_break(installation, rng, struck, began_at + 60 * minutes, runs)
            broken_s = time.monotonic() - began_at
            heal(installation)
            drain_s = drain(installation)
        still = checks.settled_rows(installation)
    finally:
        installation.servers.stop()
        installation.broker.stop()
        for network in installation.networks.values():
            network.close()
    violations = still + checks.rows(installation.ledger) + checks.left_behind(installation)
    statuses = dict(Counter(Run.objects.values_list("status", flat=True)))
    return ChaosOutcome(
        struck,
        installation.deaths,
        Run.objects.count(),
        Attempt.objects.count(),
        broken_s,
        drain_s,
        installation.delivered,
        installation.refusals,
        statuses,
        violations,
    )


def give_work_and_break(installation: World, rng: random.Random, struck: Counter[str], until: float, runs: int) -> None:
    last_said = time.monotonic()
    while time.monotonic() < until:
        insist(lambda: give_work(installation, rng, runs))
        fault = faults.chosen(rng)
        fault.strike(installation, rng)
        struck[fault.name] += 1
        time.sleep(rng.uniform(*PAUSE_S))
        if time.monotonic() - last_said > 30:
            last_said = time.monotonic()
            print(
                f"  {struck.total()} faults, {world.unfinished()} runs unfinished, {until - last_said:.0f} s left",
                flush=True,
            )
    insist(lambda: give_work(installation, rng, runs, all_of_it=True))


def give_work(installation: World, rng: random.Random, runs: int, all_of_it: bool = False) -> None:
    """Push the next commit and tell of it; once all are pushed, keep the machines busy."""
    while installation.pushed < COMMITS:
        installation.push()
        numbers = [str(installation.pushed), *rng.sample(range(1, installation.pushed + 1), k=1)]
        for number in rng.sample(numbers, k=rng.randint(0, 2)):
            installation.deliver(str(number))
        if not all_of_it:
            break
    few = Run.objects.unfinished().count() < ROUNDS_AHEAD and installation.pushed > 3
    while few or (all_of_it and Run.objects.count() < runs):
        installation.queue_round()
        few = False


def heal(installation: World) -> None:
    """End what may still be under way: suspended processes, cut networks, armed places."""
    for network in installation.networks.values():
        network.set(Condition.SOUND)
    for name in list(installation.servers.processes):
        if not name.startswith("runner"):
            installation.servers.kill(name)
            installation.servers.start(name)


def drain(installation: World) -> float:
    """Wait until every run has ended; the seconds that it took."""
    began_at = reported_at = time.monotonic()
    while not insist(lambda: checks.is_done(installation)) and time.monotonic() - began_at < DRAIN_S:
        time.sleep(0.5)
        if time.monotonic() - reported_at > 30:
            reported_at = time.monotonic()
            print(f"  {world.unfinished()} runs unfinished", flush=True)
    return time.monotonic() - began_at


@contextlib.contextmanager
def revived(installation: World) -> Iterator[None]:
    """Whatever dies is started again while the block runs."""
    stop = threading.Event()

    def revive() -> None:
        while not stop.wait(REVIVE_EVERY_S):
            with contextlib.suppress(RuntimeError):  # the table of processes has just changed
                installation.revive()

    thread = threading.Thread(target=revive)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def insist(ask: Callable[[], Answer]) -> Answer:
    """The answer, asked for again while PostgreSQL restarts."""
    for _ in range(TRIES):
        try:
            return ask()
        except (InterfaceError, OperationalError):
            connections.close_all()
            time.sleep(1)
    connection.ensure_connection()
    return ask()
