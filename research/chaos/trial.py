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
    planned: int
    attempts: int
    broken_s: float
    drain_s: float
    delivered: int
    refused: int
    statuses: dict[str, int]
    violations: list[str]


def break_and_heal(home: Path, minutes: float, runs: int, seed: int) -> ChaosOutcome:
    """Run the installation under faults for so long, with at least so many runs; then check it."""
    rng = random.Random(seed)
    made = world.build(home)
    struck: Counter[str] = Counter()
    begun = time.monotonic()
    try:
        with revived(made):
            give_work_and_break(made, rng, struck, begun + 60 * minutes, runs)
            broken_s = time.monotonic() - begun
            heal(made)
            drain_s = drain(made)
        still = checks.settled_rows(made)
    finally:
        made.servers.stop()
        made.broker.stop()
        for network in made.networks.values():
            network.close()
    violations = still + checks.rows(made.ledger) + checks.left_behind(made)
    statuses = dict(Counter(Run.objects.values_list("status", flat=True)))
    return ChaosOutcome(
        struck,
        made.deaths,
        Run.objects.count(),
        Attempt.objects.count(),
        broken_s,
        drain_s,
        made.delivered,
        made.refused,
        statuses,
        violations,
    )


def give_work_and_break(made: World, rng: random.Random, struck: Counter[str], until: float, runs: int) -> None:
    last_said = time.monotonic()
    while time.monotonic() < until:
        insist(lambda: give_work(made, rng, runs))
        fault = faults.chosen(rng)
        fault.strike(made, rng)
        struck[fault.name] += 1
        time.sleep(rng.uniform(*PAUSE_S))
        if time.monotonic() - last_said > 30:
            last_said = time.monotonic()
            print(
                f"  {struck.total()} faults, {world.unfinished()} runs unfinished, {until - last_said:.0f} s left",
                flush=True,
            )
    insist(lambda: give_work(made, rng, runs, all_of_it=True))


def give_work(made: World, rng: random.Random, runs: int, all_of_it: bool = False) -> None:
    """Push the next commit and tell of it; once all are pushed, keep the machines busy."""
    while made.pushed < COMMITS:
        made.push()
        numbers = [str(made.pushed), *rng.sample(range(1, made.pushed + 1), k=1)]
        for number in rng.sample(numbers, k=rng.randint(0, 2)):
            made.deliver(str(number))
        if not all_of_it:
            break
    few = Run.objects.unfinished().count() < ROUNDS_AHEAD and made.pushed > 3
    while few or (all_of_it and Run.objects.count() < runs):
        made.queue_round()
        few = False


def heal(made: World) -> None:
    """End what may still be under way: suspended processes, cut networks, armed places."""
    for network in made.networks.values():
        network.set(Condition.SOUND)
    for name in list(made.servers.processes):
        if not name.startswith("runner"):
            made.servers.kill(name)
            made.servers.start(name)


def drain(made: World) -> float:
    """Wait until every run has ended; the seconds that it took."""
    begun = said = time.monotonic()
    while not insist(lambda: checks.is_done(made)) and time.monotonic() - begun < DRAIN_S:
        time.sleep(0.5)
        if time.monotonic() - said > 30:
            said = time.monotonic()
            print(f"  {world.unfinished()} runs unfinished", flush=True)
    return time.monotonic() - begun


@contextlib.contextmanager
def revived(made: World) -> Iterator[None]:
    """Whatever dies is started again while the block runs."""
    ended = threading.Event()

    def revive() -> None:
        while not ended.wait(REVIVE_EVERY_S):
            with contextlib.suppress(RuntimeError):  # the table of processes has just changed
                made.revive()

    thread = threading.Thread(target=revive)
    thread.start()
    try:
        yield
    finally:
        ended.set()
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
