"""One claimed run: build each side, interleave the trials, send each measurement as soon as it exists."""

import logging
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from runners import quiet
from runners.build import Build
from runners.build.host import HostBuilder, Source
from runners.client import Client
from runners.control import Control
from runners.documents import RESULT_SCHEMA, Benchmark, Job, Side
from runners.driver import Driver, Outcome, Target
from runners.environment import Environment, Machine
from runners.errors import BenchmarkFailed, Permanent, Stopped
from runners.external import External
from runners.lease import Progress
from runners.runlog import RunLog
from runners.server import Launcher, Server

log = logging.getLogger(__name__)

MEASURE = "measure"
# A driver at the end of its core, waiting for it (housekeeping shares it on two cores), or behind its schedule, is a
# property of the workload and the machine: once a repeat has said the same, repeating the other trials of that
# benchmark tells nothing new.
STRUCTURAL_FLAGS = frozenset({"client_bound", "client_delayed", "clock", "slipped"})


@dataclass(frozen=True)
class Tools:
    """What a runner measures with."""

    client: Client
    machine: Machine
    builder: HostBuilder
    launcher: Launcher
    driver: Driver
    external: External


@dataclass(frozen=True)
class Trial:
    """One fresh server, measured once. `order` is its place in the whole attempt, dropped trials included."""

    trial: int
    order: int
    started_at: str
    seconds: float
    metrics: dict[str, float]
    flags: tuple[str, ...]
    driver: dict[str, Any]

    def document(self) -> dict[str, Any]:
        return {
            "trial": self.trial,
            "order": self.order,
            "started_at": self.started_at,
            "seconds": self.seconds,
            "metrics": self.metrics,
            "flags": list(self.flags),
            "driver": self.driver,
        }


@dataclass(frozen=True)
class Place:
    """Where a trial stands in the plan: `number` within its benchmark, `done` places of the plan lie before it."""

    benchmark: Benchmark
    side: Side
    number: int
    done: int


@dataclass
class Course:
    """How one benchmark is doing within the run: its trials by side, its repeats, and what ended it early."""

    benchmark: Benchmark
    trials: dict[str, list[Trial]]
    repeats_left: int
    settled: frozenset[str] = frozenset()
    failure: str | None = None


def schedule(benchmarks: tuple[Benchmark, ...], trials: int, chance: random.Random) -> Iterator[tuple[int, Benchmark]]:
    """The rounds: in each, every benchmark once, in an order of its own."""
    for number in range(trials):
        for benchmark in chance.sample(benchmarks, len(benchmarks)):
            yield number, benchmark


@dataclass
class Execution:
    """The work of one run. `show` is told the progress."""

    job: Job
    tools: Tools
    control: Control
    log: RunLog
    show: Callable[[Progress], None]
    builds: dict[str, Build] = field(default_factory=dict)
    order: int = 0
    done: int = 0

    def run(self) -> None:
        """Builds and measures; everything good has been handed to the client when this returns or raises.

        Raises Permanent if the commit does not build or a benchmark failed, Transient if another attempt may
        succeed, and the error of an abort.
        """
        environment = self.tools.machine.environment(self.job.build.environment)
        for side in self.job.sides:
            self.builds[side.side] = self._build(side)
        courses = self._courses()
        self._measure(courses, environment)
        self.show(Progress(self._total, self._total, "done"))
        failures = [f"{name}: {course.failure}" for name, course in courses.items() if course.failure]
        if failures:
            raise Permanent(f"{len(failures)} of {len(courses)} benchmarks failed: " + "; ".join(failures))

    def _build(self, side: Side) -> Build:
        self.show(Progress(0, self._total, f"build {side.sha[:12]}"))
        source = Source(side.sha, lambda file: self._fetch(side, file))
        phase = f"build {side.sha}"
        build = self.tools.builder.build(
            side.side, source, self.job.build, lambda text: self.log.write(phase, text), self.control
        )
        self.control.check()
        self.tools.client.build(self.job.run, self.job.token, build.document())
        if not build.succeeded:
            which = f"{side.side} {side.sha[:12]}: " if len(self.job.sides) > 1 else ""
            raise Permanent(f"build failed: {which}{build.error}")
        return build

    def _fetch(self, side: Side, file: Path) -> None:
        self.tools.client.source(self.job.run, side.sha, self.job.token, file)

    def _courses(self) -> dict[str, Course]:
        return {
            one.name: Course(one, {side.side: [] for side in self.job.sides}, self.job.trials)
            for one in self.job.benchmarks
        }

    @property
    def _total(self) -> int:
        return self.job.trials * len(self.job.benchmarks) * len(self.job.sides)

    def _measure(self, courses: dict[str, Course], environment: Environment) -> None:
        chance = random.Random(self.job.seed)
        for place, (number, benchmark) in enumerate(schedule(self.job.benchmarks, self.job.trials, chance)):
            course = courses[benchmark.name]
            self.done = place * len(self.job.sides)
            if course.failure is not None:
                continue
            try:
                self._round(course, number, chance)
            except BenchmarkFailed as error:
                course.failure = str(error)
                self.log.line(MEASURE, f"{benchmark.name} failed: {error}")
                continue
            if number == self.job.trials - 1:
                self._send(course, environment)

    def _round(self, course: Course, number: int, chance: random.Random) -> None:
        """One trial of every side, back to back; once more if a flag says that something disturbed them."""
        kept = self._sides(course, number, chance)
        if _flags(kept) - course.settled and course.repeats_left:
            course.repeats_left -= 1
            self.log.line(
                MEASURE,
                f"{course.benchmark.name}, trial {number + 1}: repeated because it was "
                f"{', '.join(sorted(_flags(kept)))}",
            )
            again = self._sides(course, number, chance)
            course.settled |= _flags(kept) & _flags(again) & STRUCTURAL_FLAGS
            kept = kept if _flags(again) else again
        for side, trial in kept.items():
            course.trials[side].append(trial)

    def _sides(self, course: Course, number: int, chance: random.Random) -> dict[str, Trial]:
        sides = chance.sample(self.job.sides, len(self.job.sides))
        places = [Place(course.benchmark, side, number, self.done + place) for place, side in enumerate(sides)]
        return {place.side.side: self._trial(place, chance) for place in places}

    def _trial(self, place: Place, chance: random.Random) -> Trial:
        if self.control.stopping.is_set():
            raise Stopped("runner is shutting down")
        self.control.check()
        name = place.benchmark.name + (f" ({place.side.side})" if len(self.job.sides) > 1 else "")
        self.show(Progress(place.done, self._total, f"{name}, trial {place.number + 1} of {self.job.trials}"))
        trial = self._measured(place, chance)
        self.order += 1
        self.log.line(MEASURE, _line(name, trial))
        return trial

    def _measured(self, place: Place, chance: random.Random) -> Trial:
        started_at, begin = datetime.now(UTC), time.monotonic()
        launcher, transport = self.tools.launcher, place.benchmark.transport
        programs = {name: one.path for name, one in self.builds[place.side.side].artifacts.items()}
        with launcher.running(self.job.server, transport, programs, chance, self.control) as server:
            outcome, disturbed = self._loaded(place, server)
            metrics = outcome.metrics | {"peak_rss_bytes": server.peak_rss_bytes()}
        return Trial(
            place.number,
            self.order,
            _timestamp(started_at),
            round(time.monotonic() - begin, 3),
            metrics,
            (*outcome.flags, *disturbed),
            outcome.document,
        )

    def _loaded(self, place: Place, server: Server) -> tuple[Outcome, list[str]]:
        """What the driver found and what disturbed it; a server that ended meanwhile is the reason of any failure."""
        watched = self.tools.machine.placement.server | self.tools.machine.placement.driver
        before = quiet.read(server.pid, watched)
        try:
            target = Target(self.job.server.protocol, server.address, server.pid, server.output.parent)
            driver = self.tools.driver if place.benchmark.driver == "speedbench" else self.tools.external
            outcome = driver.run(place.benchmark, target, self.job.seed + place.number, self.control)
        except BenchmarkFailed:
            server.check_alive()
            raise
        disturbed = quiet.disturbances(before, quiet.read(server.pid, watched))
        for flag, share in disturbed.items():
            self.log.line(MEASURE, f"{place.benchmark.name}, trial {place.number + 1}: {flag} for {share:.1%} of it")
        server.check_alive()
        return outcome, list(disturbed)

    def _send(self, course: Course, environment: Environment) -> None:
        """Sends the measurement of every side: its last trial exists."""
        for side in self.job.sides:
            self.control.check()
            self.tools.client.measurement(self.job.run, self._document(course, side, environment))

    def _document(self, course: Course, side: Side, environment: Environment) -> dict[str, Any]:
        other = {} if course.benchmark.driver == "speedbench" else self.tools.external.facts(course.benchmark)
        current = Environment(environment.series | other, self.tools.machine.recorded())
        artifacts = self.builds[side.side].artifacts
        return {
            "schema": RESULT_SCHEMA,
            "token": self.job.token,
            "side": side.side,
            "sha": side.sha,
            "benchmark": {"name": course.benchmark.name, "digest": course.benchmark.digest},
            "environment": current.document(),
            "artifacts": {name: one.digest for name, one in artifacts.items()},
            "trials": [trial.document() for trial in course.trials[side.side]],
        }


def _flags(trials: dict[str, Trial]) -> frozenset[str]:
    return frozenset(flag for trial in trials.values() for flag in trial.flags)


def _timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


_SHOWN = {
    "server_cpu_ns_per_request": "{:.0f} ns of server CPU per request",
    "throughput_rps": "{:.0f} requests/s",
    "latency_us_p50": "p50 {:.0f} us",
    "latency_us_p99": "p99 {:.0f} us",
}


def _line(name: str, trial: Trial) -> str:
    flags = f" [{', '.join(trial.flags)}]" if trial.flags else ""
    shown = [text.format(trial.metrics[metric]) for metric, text in _SHOWN.items() if metric in trial.metrics]
    return f"{name}, trial {trial.trial + 1}: {', '.join(shown)}, in {trial.seconds:.2f} s{flags}"
