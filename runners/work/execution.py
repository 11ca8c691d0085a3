"""One claimed run: build each side, interleave the trials, send each measurement as soon as it exists."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from runners.build import Build, Source
from runners.build.frozen import frozen
from runners.documents import RESULT_SCHEMA, Benchmark, Job, Side
from runners.errors import BenchmarkFailed, Permanent
from runners.machine.environment import Environment
from runners.measuring import callgrind, pairs, profiles, stopping
from runners.measuring.stopping import Decision
from runners.measuring.tools import Tools
from runners.measuring.trials import MEASURE, Rig, Trial
from runners.processes.children import aside
from runners.processes.control import Control
from runners.reporting.lease import Progress
from runners.reporting.runlog import RunLog

log = logging.getLogger(__name__)


@dataclass
class Course:
    """How one benchmark is doing within the run: its trials by side, its repeats, and what ended it early."""

    benchmark: Benchmark
    trials: dict[str, list[Trial]]
    repeats_left: int
    thrown_out: int = 0
    failure: str | None = None
    stopped: str | None = None

    @property
    def rounds(self) -> int:
        """Trials of each side so far."""
        return min(len(trials) for trials in self.trials.values())

    @property
    def ended(self) -> bool:
        return self.stopped is not None or self.failure is not None


@dataclass
class Execution:
    """The work of one run. `show` is told the progress."""

    job: Job
    tools: Tools
    control: Control
    log: RunLog
    show: Callable[[Progress], None]
    rig: Rig = field(init=False)
    courses: list[Course] = field(init=False)

    def __post_init__(self) -> None:
        self.rig = Rig(self.job, self.tools, self.control, self.log, Random(self.job.seed))
        sides = [side.side for side in self.job.sides]
        self.courses = [Course(one, {side: [] for side in sides}, self.job.trials) for one in self.job.benchmarks]

    def run(self) -> None:
        """Builds and measures; everything good has been handed to the client when this returns or raises.

        Raises Permanent if the commit does not build, a benchmark failed or the machine has too few cores for the
        server, Transient if another attempt may succeed, and the error of an abort.
        """
        self.tools = self.rig.tools = self.tools.placed(self.job.server.cores)
        plan = self.tools.machine.placement
        with aside(plan.housekeeping), self.tools.tuning(plan):
            self._work()

    def _work(self) -> None:
        environment = self._environment()
        linked = [self._build(side, environment) for side in self.job.sides]
        if linked[-1]:
            self.log.line(MEASURE, f"{linked[-1][:12]} is the same program, bit by bit: not measured again")
            return
        if self.job.profile:
            profiles.sample(self.rig, self.job.profile, self.show)
            return
        self._measure(environment)
        self._show("done")
        failures = [f"{one.benchmark.name}: {one.failure}" for one in self.courses if one.failure]
        if failures:
            raise Permanent(f"{len(failures)} of {len(self.courses)} benchmarks failed: " + "; ".join(failures))

    def _environment(self) -> Environment:
        """The facts of this machine and of what it builds with."""
        phase = f"build {self.job.sides[-1].sha}"
        toolchain = self.tools.builder.toolchain(self.job.build, lambda text: self.log.write(phase, text), self.control)
        return self.tools.machine.environment(toolchain.series)

    def _build(self, side: Side, environment: Environment) -> str | None:
        """Builds a side and reports it. Returns the commit whose measurements stand for this run's, if any do."""
        self._show(f"build {side.sha[:12]}")
        build = self._built(side)
        self.control.check()
        linked = self.tools.client.build(self.job.run, self.job.token, build.document(), environment.document())
        if not build.succeeded:
            which = f"{side.side} {side.sha[:12]}: " if len(self.job.sides) > 1 else ""
            raise Permanent(f"build failed: {which}{build.error}")
        self.rig.builds[side.side] = build
        return linked

    def _built(self, side: Side) -> Build:
        def build() -> Build:
            source = Source(side.sha, lambda file: self._fetch(side, file), f"{self.job.run}/{self.job.token}")
            phase = f"build {side.sha}"
            return self.tools.builder.build(
                side.side, source, self.job.build, lambda text: self.log.write(phase, text), self.control
            )

        is_canary = self.job.reason == "canary"
        return frozen(self.tools.builder.cache, side, self.job.frozen, build) if is_canary else build()

    def _fetch(self, side: Side, file: Path) -> None:
        self.tools.client.source(self.job.run, side.sha, self.job.token, file)

    def _show(self, now: str) -> None:
        """Tells how many trials are done, and how many it will be: a guess as long as benchmarks are going on."""
        sides = len(self.job.sides)
        done = sum(one.rounds for one in self.courses)
        total = sum(one.rounds if one.ended else self._expected(one) for one in self.courses)
        self.show(Progress(done * sides, total * sides, now))

    def _expected(self, course: Course) -> int:
        return max(stopping.expected(self.job, course.benchmark, trials) for trials in course.trials.values())

    def _measure(self, environment: Environment) -> None:
        """Rounds: in each, every benchmark that is not at its end once, in an order of its own."""
        while going_on := [one for one in self.courses if not one.ended]:
            for course in self.rig.chance.sample(going_on, len(going_on)):
                self._round(course, environment)

    def _round(self, course: Course, environment: Environment) -> None:
        """The next trial of every side, and what follows from it."""
        try:
            self._trials(course)
        except BenchmarkFailed as error:
            course.failure = str(error)
            self.log.line(MEASURE, f"{course.benchmark.name} failed: {error}")
            return
        reasons = [stopping.reason_to_stop(self.job, course.benchmark, one) for one in course.trials.values()]
        if all(reasons):
            course.stopped = reasons[0]
            self._send(course, environment)

    def _trials(self, course: Course) -> None:
        """One trial of every side; once more if a flag voids what the run is to tell. Slices see to that alone."""
        number = course.rounds
        self._show(f"{course.benchmark.name}, trial {number + 1}")
        kept = self._measured(course.benchmark, number)
        sliced = all(trial.sliced for trial in kept.values())
        voiding = self._voiding(kept)
        if voiding - self.rig.believed[course.benchmark.name] and course.repeats_left and not sliced:
            course.repeats_left -= 1
            course.thrown_out += 1
            self.log.line(
                MEASURE,
                f"{course.benchmark.name}, trial {number + 1}: repeated because it was {', '.join(sorted(voiding))}",
            )
            again = self._measured(course.benchmark, number)
            still = self._voiding(again)
            self.rig.believe(course.benchmark, voiding & still)
            kept = kept if still else again
        for side, trial in kept.items():
            course.trials[side].append(trial)

    def _voiding(self, trials: dict[str, Trial]) -> frozenset[str]:
        return self.job.voiding(flag for trial in trials.values() for flag in trial.flags)

    def _measured(self, benchmark: Benchmark, number: int) -> dict[str, Trial]:
        return pairs.measure(self.rig, benchmark, number)

    def _send(self, course: Course, environment: Environment) -> None:
        """Sends the measurement of every side: its last trial exists."""
        for side in self.job.sides:
            self.control.check()
            self.tools.client.measurement(self.job.run, self._document(course, side, environment))
            self.log.line(MEASURE, f"{self.rig.name(course.benchmark, side.side)}: {self._decision(course, side)}")

    def _decision(self, course: Course, side: Side) -> Decision:
        assert course.stopped is not None
        return stopping.decide(course.stopped, course.benchmark, course.trials[side.side], course.thrown_out)

    def _once(self, benchmark: Benchmark, side: Side) -> dict[str, float]:
        """Metrics that are too slow to be measured more than once. Not of pairs: they are settled by the others."""
        wanted = benchmark.instructions == "callgrind" and len(self.job.sides) == 1
        return callgrind.count(self.rig, benchmark, side.side) if wanted else {}

    def _document(self, course: Course, side: Side, environment: Environment) -> dict[str, Any]:
        other = {} if course.benchmark.driver == "speedbench" else self.tools.external.facts(course.benchmark)
        current = Environment(environment.series | other, self.tools.machine.recorded())
        artifacts = self.rig.builds[side.side].artifacts
        return {
            "schema": RESULT_SCHEMA,
            "token": self.job.token,
            "side": side.side,
            "sha": side.sha,
            "benchmark": {"name": course.benchmark.name, "digest": course.benchmark.digest},
            "environment": current.document(),
            "artifacts": {name: one.digest for name, one in artifacts.items()},
            "stopping": self._decision(course, side).document(),
            "trials": [trial.document() for trial in course.trials[side.side]],
            "once": self._once(course.benchmark, side),
        }
