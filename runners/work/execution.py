"""One claimed run: builds each side, interleaves the trials, sends each measurement as soon as it exists."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from runners import failpoints, traces
from runners.build import Artifact, Build, CommitSource
from runners.build.frozen import frozen_build
from runners.build.layouts import keeping
from runners.documents import RESULT_SCHEMA, Benchmark, BuildRecipe, Job, Side
from runners.errors import BenchmarkFailed, NoSpace, OutOfReach, Permanent
from runners.machine.environment import Environment
from runners.measuring import callgrind, pairs, profiles, stopping
from runners.measuring.counting import Counts
from runners.measuring.layouts import LayoutPool
from runners.measuring.stopping import StopDecision
from runners.measuring.tools import Tools
from runners.measuring.trials import MEASURE, Trial, TrialRunner, measure_trial
from runners.processes.affinity import all_threads_on
from runners.processes.control import Control
from runners.reporting.lease import END_S, RunProgress
from runners.reporting.runlog import RunLog
from runners.servers import capacity
from runners.work.space import Space

log = logging.getLogger(__name__)

MOST_SHOWN = 2000  # pairs, each of one metric, that progress has


@dataclass
class BenchmarkState:
    """The state of one benchmark within the run: its trials by side, its repeats, and why it ended."""

    benchmark: Benchmark
    trials: dict[str, list[Trial]]
    repeats_left: int
    thrown_out: int = 0
    failure: str | None = None
    out_of_reach: bool = False
    stopped: str | None = None

    @property
    def rounds(self) -> int:
        """The number of trials of each side so far."""
        return min(len(trials) for trials in self.trials.values())

    @property
    def ended(self) -> bool:
        return self.stopped is not None or self.failure is not None


@dataclass
class Execution:
    """The work of one run. `show` is called with its progress."""

    job: Job
    tools: Tools
    control: Control
    log: RunLog
    show: Callable[[RunProgress], None]
    space: Space | None = None
    runner: TrialRunner = field(init=False)
    counts: Counts = field(init=False)
    states: list[BenchmarkState] = field(init=False)

    def __post_init__(self) -> None:
        self.runner = TrialRunner(self.job, self.tools, self.control, self.log, Random(self.job.seed))
        self.counts = Counts(self.runner)
        sides = [side.side for side in self.job.sides]
        self.states = [
            BenchmarkState(benchmark, {side: [] for side in sides}, self.job.trials)
            for benchmark in self.job.benchmarks
        ]

    def run(self) -> None:
        """Builds and measures. When this returns or raises, the client has every finished measurement.

        Raises Permanent if the commit does not build, a benchmark failed or the machine has too few cores for the
        server, Transient if another attempt may succeed, and the error of an abort. Benchmarks that are out of this
        machine's reach are no failure if another one was measured.
        """
        self.tools = self.runner.tools = self.tools.placed(self.job.server.cores)
        self._refuse_unreachable()
        plan = self.tools.machine.placement
        with all_threads_on(plan.housekeeping), self.tools.tuning(plan):
            self._work()

    def _work(self) -> None:
        environment = self._environment()
        linked = [self._build(side, environment) for side in self.job.sides]
        if linked[-1]:
            self.log.line(MEASURE, f"{linked[-1][:12]} is the same program, byte for byte: not measured again")
            return
        if self.job.profile:
            profiles.run_profiles(self.runner, self.job.profile, self.show)
            return
        if self.job.has_layouts:
            self.runner.layouts = self._layouts()
        with traces.span("measure", benchmarks=len(self.states)):
            self._measure(environment)
        self._show("done", "done", END_S)
        self._raise_failures()

    def _refuse_unreachable(self) -> None:
        """Drops benchmarks with more connections than this machine allows, or recordings that it lacks; logs why."""
        for state in self.states:
            try:
                capacity.check_files(state.benchmark)
                self.tools.driver.recordings.check(state.benchmark.workload)
            except BenchmarkFailed as error:
                self._fail(state, error)
        if all(state.failure for state in self.states):
            self._raise_failures()

    def _fail(self, state: BenchmarkState, error: BenchmarkFailed) -> None:
        self._check_space()
        state.failure, state.out_of_reach = str(error), isinstance(error, OutOfReach)
        self.log.line(MEASURE, f"{state.benchmark.name} failed: {error}")

    def _check_space(self) -> None:
        """Raises NoSpace on a full disk, which is not the commit's fault: programs fail there without a clear error."""
        if self.space and (lack := self.space.lack()):
            raise NoSpace(lack)

    def _raise_failures(self) -> None:
        failures = [f"{state.benchmark.name}: {state.failure}" for state in self.states if state.failure]
        if len(failures) > len(self.out_of_reach):
            raise Permanent(f"{len(failures)} of {len(self.states)} benchmarks failed: " + "; ".join(failures))

    @property
    def out_of_reach(self) -> dict[str, str]:
        """The benchmarks that this machine cannot measure (name -> reason), if it can measure others.

        Empty for a paired run.
        """
        failures = {
            state.benchmark.name: state.failure for state in self.states if state.failure and state.out_of_reach
        }
        return failures if len(self.job.sides) == 1 and len(failures) < len(self.states) else {}

    def _environment(self) -> Environment:
        """The facts of this machine and of its toolchain."""
        phase = f"build {self.job.sides[-1].sha}"
        toolchain = self.tools.builder.toolchain(self.job.build, lambda text: self.log.write(phase, text), self.control)
        return self.tools.machine.environment(toolchain.series)

    def _build(self, side: Side, environment: Environment) -> str | None:
        """Builds a side and reports it. Returns the commit whose measurements replace this run's, if there is one."""
        self._show(f"build {side.sha[:12]}", "build", self.job.build.timeout_s + END_S)
        with traces.span("build", side=side.side, sha=side.sha):
            build = self._make(side)
        failpoints.reach("build.made")
        if not build.succeeded:
            self._check_space()
        self.control.check()
        linked = self.tools.client.build(self.job.run, self.job.token, build.document(), environment.document())
        failpoints.reach("build.reported")
        if not build.succeeded:
            name = f"{side.side} {side.sha[:12]}: " if len(self.job.sides) > 1 else ""
            raise Permanent(f"build failed: {name}{build.error}")
        self.runner.builds[side.side] = build
        return linked

    def _make(self, side: Side) -> Build:
        if self.job.reason != "canary":
            return self._made_by(side, self.job.build)
        store = self.tools.builder.store
        return frozen_build(store, side, self.job.frozen, lambda: self._made_by(side, self.job.build))

    def _made_by(self, side: Side, recipe: BuildRecipe) -> Build:
        source = CommitSource(side.sha, lambda file: self._fetch(side, file), f"{self.job.run}/{self.job.token}")
        phase = f"build {side.sha}"
        return self.tools.builder.build(
            side.side, source, recipe, lambda text: self.log.write(phase, text), self.control
        )

    def _layouts(self) -> LayoutPool:
        """The random layouts of this run. What they are linked from is built first, unless it is in the store."""
        artifacts: dict[str, Artifact] = {}
        refusal = ""
        for side in self.job.sides:
            self._show(f"build {side.sha[:12]} for its layouts", "build", self.job.build.timeout_s + END_S)
            with traces.span("build", side=side.side, sha=side.sha, layouts=True):
                build = self._made_by(side, keeping(self.job.build))
            self.control.check()
            if build.error:
                self._check_space()
                refusal = f"{side.side} {side.sha[:12]}, built for them: {build.error}"
                self.log.line(MEASURE, f"measured without random layouts: {refusal}")
                break
            (artifacts[side.side],) = build.artifacts.values()
        return LayoutPool(self.job, self.tools, self.control, self.runner.rng, artifacts, refusal)

    def _fetch(self, side: Side, file: Path) -> None:
        self.tools.client.source(self.job.run, side.sha, self.job.token, file)

    def _limit_s(self, benchmark: Benchmark) -> float:
        """The seconds within which a round of trials ends by itself.

        Each side may be measured twice, and servers have to start.
        """
        return 2 * len(self.job.sides) * (benchmark.timeout_s + self.job.server.ready_timeout_s)

    def _show(self, now: str, phase: str, limit_s: float) -> None:
        """Shows how many trials are done, and how many there will be.

        The latter is an estimate until every benchmark has ended.
        """
        sides = len(self.job.sides)
        rounds = sum(state.rounds for state in self.states)
        total = sum(state.rounds if state.ended else self._expected(state) for state in self.states)
        self.show(RunProgress(rounds * sides, total * sides, now, phase, limit_s, self._pairs()))

    def _pairs(self) -> dict[str, list[dict[str, Any]]]:
        """The pairs so far by benchmark; none if they are too many for a message that is sent every few seconds."""
        if sum(state.rounds for state in self.states) * len(self.job.metrics) > MOST_SHOWN:
            return {}
        return {
            state.benchmark.name: pairs.values_of(state.trials, self.job.metrics)
            for state in self.states
            if self.job.metrics and state.rounds
        }

    def _expected(self, state: BenchmarkState) -> int:
        return max(stopping.expected_trials(self.job, state.benchmark, trials) for trials in state.trials.values())

    def _measure(self, environment: Environment) -> None:
        """Measures in rounds. In a round, every benchmark that has not ended is measured once, in random order."""
        while going_on := [state for state in self.states if not state.ended]:
            for state in self.runner.rng.sample(going_on, len(going_on)):
                self._round(state, environment)

    def _round(self, state: BenchmarkState, environment: Environment) -> None:
        """Measures the next trial of every side of a benchmark, and sends the measurement if it has ended."""
        try:
            self._trials(state)
        except BenchmarkFailed as error:
            self._fail(state, error)
            if state.rounds and len(self.job.sides) > 1:  # each pair counts alone, but a point needs all of its trials
                state.stopped = stopping.FAILED
                self._send(state, environment)
            return
        reasons = [stopping.reason_to_stop(self.job, state.benchmark, trials) for trials in state.trials.values()]
        if all(reasons):
            state.stopped = reasons[0]
            self._send(state, environment)

    def _trials(self, state: BenchmarkState) -> None:
        """Measures one trial of every side, and repeats it if a flag voids it."""
        number = state.rounds
        self._show(f"{state.benchmark.name}, trial {number + 1}", state.benchmark.name, self._limit_s(state.benchmark))
        trials = self._measure_round(state.benchmark, number)
        voiding = self._voiding(trials)
        if voiding - self.runner.accepted_flags[state.benchmark.name] and state.repeats_left:
            state.repeats_left -= 1
            state.thrown_out += 1
            self.log.line(
                MEASURE,
                f"{state.benchmark.name}, trial {number + 1}: repeated because it was {', '.join(sorted(voiding))}",
            )
            again = self._measure_round(state.benchmark, number)
            voiding_again = self._voiding(again)
            self.runner.accept_flags(state.benchmark, voiding & voiding_again)
            trials = trials if voiding_again else again
        for side, trial in trials.items():
            state.trials[side].append(trial)

    def _voiding(self, trials: dict[str, Trial]) -> frozenset[str]:
        return self.job.voiding(flag for trial in trials.values() for flag in trial.flags)

    def _measure_round(self, benchmark: Benchmark, number: int) -> dict[str, Trial]:
        """The next trial of every side."""
        if self.job.counted:
            return self.counts.trials(benchmark, number)
        if len(self.job.sides) > 1:
            return pairs.measure_pair(self.runner, benchmark, number)
        side = self.job.sides[0].side
        return self.runner.in_layouts(
            benchmark, lambda layouts: {side: measure_trial(self.runner, benchmark, side, number, layouts.get(side))}
        )

    def _send(self, state: BenchmarkState, environment: Environment) -> None:
        """Sends the measurement of every side."""
        for side in self.job.sides:
            self.control.check()
            self.tools.client.measurement(self.job.run, self._document(state, side, environment))
            self.log.line(MEASURE, f"{self.runner.name(state.benchmark, side.side)}: {self._decision(state, side)}")

    def _decision(self, state: BenchmarkState, side: Side) -> StopDecision:
        assert state.stopped is not None
        trials = state.trials[side.side]
        return stopping.stop_decision(self.job, state.stopped, state.benchmark, trials, state.thrown_out)

    def _once(self, benchmark: Benchmark, side: Side) -> dict[str, Any]:
        """Metrics that are measured only once, because they are slow; and why instructions are not countable.

        Pairs have none; other metrics compare them.
        """
        is_paired = len(self.job.sides) > 1
        metrics, cause = self.counts.once(benchmark, side.side) if benchmark.inside and not is_paired else ({}, "")
        if benchmark.instructions == "callgrind" and not is_paired:
            metrics |= callgrind.count_instructions(self.runner, benchmark, side.side)
        return {"once": metrics, "not_countable": cause}

    def _document(self, state: BenchmarkState, side: Side, environment: Environment) -> dict[str, Any]:
        tool_facts = {} if state.benchmark.driver == "speedbench" else self.tools.external.facts(state.benchmark)
        current = Environment(environment.series | tool_facts, self.tools.machine.recorded())
        artifacts = self.runner.builds[side.side].artifacts
        return {
            "schema": RESULT_SCHEMA,
            "token": self.job.token,
            "side": side.side,
            "sha": side.sha,
            "benchmark": {"name": state.benchmark.name, "digest": state.benchmark.digest},
            "environment": current.document(),
            "artifacts": {name: artifact.digest for name, artifact in artifacts.items()},
            "layouts": self.runner.layouts.document() if self.runner.layouts else None,
            "stopping": self._decision(state, side).document(),
            "trials": [trial.document() for trial in state.trials[side.side]],
            **self._once(state.benchmark, side),
        }
