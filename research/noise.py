"""How well this machine measures: spread, false alarms on identical builds, and how many injected slowdowns are found.

python research/noise.py SERVER PROGRAM spread [--runs 5] [--trials 10]
python research/noise.py SERVER PROGRAM aa     [--comparisons 200]
python research/noise.py SERVER PROGRAM inject [--comparisons 20] [--test set] [--effects 0.01,0.02] [--budget 90]

SERVER: kvd, redis or memcached; PROGRAM: its binary. `inject` wants a program that runs a loop of a microsecond or less
at every so many requests, as the environment variable says; what it costs is measured first. So the cost is linear: a
short loop at each request would hide in what the processor waits for. Everything goes through the runner's own trials,
blocks and quiet gate, and through the comparison that settles suspicions.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import stat
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runners.build import Artifact, Build
from runners.documents import Benchmark, Job, parse_job
from runners.errors import Permanent, Transient
from runners.measuring import pairs, trials
from runners.measuring.trials import Trial, TrialRunner
from runners.processes.control import Control
from runners.work.settings import read_settings
from runners.work.startup import assemble
from speedtrack.stats.comparing.compare import Comparison, ComparisonAnswer, pairs_to_settle, settle_pairs

COMMANDS = {
    "kvd": ("resp", "{artifact:server} --bind 127.0.0.1 --port {port} --unixsocket {socket}"),
    "redis": ("resp", "{artifact:server} --port {port} --unixsocket {socket} --save '' --appendonly no --dir {data}"),
    "memcached": ("memcached", "{artifact:server} -u root -t 1 -m 1024 -s {socket} -a 0777"),
}
CPU, RATE = "server_cpu_ns_per_request", "throughput_rps"
METRICS = {CPU: "CPU/request", RATE: "requests/s", "latency_us_p50": "p50", "latency_us_p99": "p99"}
LEVEL, FIRST, MOST = 0.01, 6, 160  # as speedtrack.alerts.settling.verdicts settles suspicions
SMALLEST = 0.01  # effect that matters, of CPU per request
CALIBRATING = 20  # pairs
NEVER = 10**9  # requests: each side runs the same code
SELDOM = 20  # requests, about as with the effects: a spin that follows a spin is cheaper


def benchmark(name: str, test: str, pipeline: int, options: argparse.Namespace) -> dict[str, Any]:
    workload = {
        "test": test,
        "clients": 50,
        "pipeline": pipeline,
        "keys": {"count": options.keys},
        "values": {"bytes": 32},
        "prefill": True,
        "warmup_s": options.warmup,
        "duration_s": options.seconds,
        "mode": "closed",
    }
    return {
        "name": name,
        "digest": "sha256:0",
        "driver": "speedbench",
        "transport": "unix",
        "workload": workload,
        "command": "",
        "timeout_s": 60,
        "target": 0.01,
        "instructions": "",
    }


def job(server: str, sides: tuple[str, ...], benchmarks: list[dict[str, Any]]) -> Job:
    protocol, command = COMMANDS[server]
    return parse_job(
        {
            "schema": "speedtrack.job/3",
            "run": 1,
            "token": 1,
            "attempt": 1,
            "reason": "confirm",
            "project": server,
            "seed": 1,
            "trials": 5,
            "most_trials": 5,
            "lease_s": 60,
            "deadline_s": 86_400,
            "profile": None,
            "sides": [{"side": side, "sha": "0" * 40} for side in sides],
            "build": {
                "command": "true",
                "artifacts": ["server"],
                "timeout_s": 1,
                "environment": {},
                "kind": "host",
                "image": "",
                "dockerfile": "",
                "dockerfile_network": False,
                "trust": "none",
            },
            "server": {"command": command, "listen": {}, "protocol": protocol, "ready_timeout_s": 20, "cores": 1},
            "benchmarks": benchmarks,
        }
    )


class LocalRunner:
    """A runner without a server to report to: programs by side, measured by the runner's own code."""

    def __init__(self, home: Path, program: Path, variable: str) -> None:
        self.home, self.program, self.variable = home, program, variable
        environ = dict(os.environ) | {"SPEEDTRACK_URL": "http://127.0.0.1:9", "SPEEDTRACK_TOKEN": "none"}
        settings = read_settings(environ | {"SPEEDTRACK_RUNNER_HOME": str(home)}, needs_broker=False)
        self.tools = assemble(settings, threading.Event())
        os.sched_setaffinity(0, self.tools.machine.placement.housekeeping)

    def runner(self, job: Job, every: dict[str, int], seed: int) -> TrialRunner:
        silent: Any = SimpleNamespace(line=lambda *_: None, write=lambda *_: None)
        runner = TrialRunner(job, self.tools, Control(), silent, Random(seed))
        for side, count in every.items():
            program = Artifact("sha256:0", 0, 0, self.program)  # so that the sandbox shows it to the script
            artifacts = {"server": self.artifact(count), "program": program}
            runner.builds[side] = Build(side, "0" * 40, True, 0.0, "", artifacts)
        return runner

    def artifact(self, every: int) -> Artifact:
        """The program, made to spin at every so many requests."""
        script = self.home / f"server-{every}"
        script.write_text(f'#!/bin/sh\nexec env {self.variable}={every} {self.program} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return Artifact(f"sha256:{every}", 0, 0, script)


def clean(trial: Trial) -> bool:
    return not set(trial.flags) - {"client_bound", "client_delayed"}


def pair(runner: TrialRunner, benchmark: Benchmark, number: int) -> dict[str, tuple[float, float]] | None:
    """Base and head of one block, by metric; None if it was disturbed twice."""
    for _ in range(2):
        try:
            sides = pairs.measure_pair(runner, benchmark, number)
        except Transient:  # the machine was too busy for the server to have a turn
            continue
        if all(clean(trial) for trial in sides.values()):
            base, head = sides["base"].metrics, sides["head"].metrics
            return {metric: (base[metric], head[metric]) for metric in METRICS}
    return None


@dataclass(frozen=True)
class SettledComparison:
    verdict: Comparison
    pairs: int
    seconds: float


def compare(
    runner: TrialRunner, benchmark: Benchmark, effects: Mapping[str, float], seed: int, budget_s: float
) -> dict[str, SettledComparison]:
    """Settle whether the sides differ as suspicions are settled: rounds of pairs until every metric has an answer.

    No pair is begun after ``budget_s`` seconds.
    """
    begin, comparisons = time.monotonic(), dict[str, SettledComparison]()
    blocks: list[dict[str, tuple[float, float]]] = []
    attempt_count, count = 0, FIRST
    while count:
        numbers = itertools.takewhile(
            lambda _: time.monotonic() - begin < budget_s, range(attempt_count, attempt_count + count)
        )
        blocks += [block for number in numbers if (block := pair(runner, benchmark, number))]
        attempt_count += count
        if not blocks:
            raise SystemExit("no block was undisturbed: is the machine quiet?")
        pair_counts = [0]
        for metric, effect in effects.items():
            if metric not in comparisons or comparisons[metric].verdict.answer is ComparisonAnswer.UNKNOWN:
                values = [block[metric] for block in blocks]
                verdict = settle_pairs(values, smallest_effect=effect, level=LEVEL, seed=seed)
                comparisons[metric] = SettledComparison(verdict, len(blocks), time.monotonic() - begin)
                if verdict.answer is ComparisonAnswer.UNKNOWN:
                    pair_counts.append(pairs_to_settle(values, smallest_effect=effect, level=LEVEL))
        count = min(max(pair_counts), MOST - attempt_count) if time.monotonic() - begin < budget_s else 0
    return comparisons


def series(
    bench: LocalRunner, options: argparse.Namespace, every: dict[str, int], effects: Mapping[str, float]
) -> dict[str, list[SettledComparison]]:
    """Comparisons one after the other, by metric."""
    paired_job = job(options.server, ("base", "head"), [benchmark("p16", options.test, 16, options)])
    by_metric: dict[str, list[SettledComparison]] = {metric: [] for metric in effects}
    for seed in range(options.seed, options.seed + options.comparisons):
        runner = bench.runner(paired_job, every, seed)
        for metric, comparison in compare(runner, paired_job.benchmarks[0], effects, seed, options.budget).items():
            by_metric[metric].append(comparison)
            verdict = comparison.verdict
            print(
                f"{METRICS[metric]:>18} {verdict.answer.value:>9} {verdict.ratio - 1:>+8.2%} "
                f"({verdict.low - 1:+.2%} to {verdict.high - 1:+.2%}) "
                f"{comparison.pairs:>3} pairs {comparison.seconds:>6.1f} s",
                flush=True,
            )
    return by_metric


def summary(title: str, comparisons: list[SettledComparison]) -> str:
    verdicts = [comparison.verdict for comparison in comparisons]
    count = {answer: sum(verdict.answer is answer for verdict in verdicts) for answer in ComparisonAnswer}
    slower = sum(verdict.answer is ComparisonAnswer.DIFFERENT and verdict.ratio > 1 for verdict in verdicts)
    return (
        f"{title:>18} {len(comparisons):>5} {count[ComparisonAnswer.DIFFERENT]:>10} {slower:>7} "
        f"{count[ComparisonAnswer.SAME]:>5} {count[ComparisonAnswer.UNKNOWN]:>8} "
        f"{statistics.median(comparison.pairs for comparison in comparisons):>6.0f} "
        f"{statistics.median(comparison.seconds for comparison in comparisons):>7.1f} "
        f"{statistics.median(verdict.ratio for verdict in verdicts) - 1:>+8.2%} "
        f"{statistics.median(verdict.high - verdict.low for verdict in verdicts) / 2:>9.2%}"
    )


HEADING = (
    f"{'':>18} {'n':>5} {'different':>10} {'slower':>7} {'same':>5} {'unknown':>8} "
    f"{'pairs':>6} {'seconds':>7} {'ratio':>8} {'interval':>9}"
)


def aa(bench: LocalRunner, options: argparse.Namespace) -> None:
    by_metric = series(bench, options, {"base": NEVER, "head": NEVER}, dict.fromkeys(METRICS, SMALLEST))
    print(HEADING)
    for metric, comparisons in by_metric.items():
        print(summary(METRICS[metric], comparisons), flush=True)


def inject(bench: LocalRunner, options: argparse.Namespace) -> None:
    spin = calibrate(bench, options)
    print(f"a spin costs {spin:.2f} times the server's CPU per request\n{HEADING}", flush=True)
    for effect in map(float, options.effects.split(",")):
        every = {"base": NEVER, "head": round(spin / effect)}
        by_metric = series(bench, options, every, {CPU: min(SMALLEST, effect / 2)})
        print(summary(f"+{effect:.0%}", by_metric[CPU]), flush=True)


def calibrate(bench: LocalRunner, options: argparse.Namespace) -> float:
    """What a spin costs, as a share of the CPU per request without it."""
    paired_job = job(options.server, ("base", "head"), [benchmark("p16", options.test, 16, options)])
    runner = bench.runner(paired_job, {"base": NEVER, "head": SELDOM}, 0)
    cpu_pairs = [
        block[CPU] for number in range(CALIBRATING) if (block := pair(runner, paired_job.benchmarks[0], number))
    ]
    return SELDOM * (statistics.median(head / base for base, head in cpu_pairs) - 1)


Order = Callable[[list[Benchmark], int, Random], list[tuple[Benchmark, int]]]


def interleaved(benchmarks: list[Benchmark], count: int, rng: Random) -> list[tuple[Benchmark, int]]:
    return [(benchmark, n) for n in range(count) for benchmark in rng.sample(benchmarks, len(benchmarks))]


def in_blocks(benchmarks: list[Benchmark], count: int, rng: Random) -> list[tuple[Benchmark, int]]:
    return list(itertools.product(benchmarks, range(count)))


def spread(bench: LocalRunner, options: argparse.Namespace) -> None:
    """Trial to trial and run to run, with and without each precaution."""
    contents = [benchmark("get-p16", "get", 16, options), benchmark("set-p1", "set", 1, options)]
    head_job = job(options.server, ("head",), contents)
    precautions: dict[str, Callable[[int], dict[str, list[Trial]]]] = {
        "as measured": lambda seed: run(bench, head_job, interleaved, options.trials, seed),
        "in blocks": lambda seed: run(bench, head_job, in_blocks, options.trials, seed),
        "one process": lambda seed: one_process(bench, head_job, options.trials, seed),
    }
    print(f"{'':>14} {'benchmark':>9} {'metric':>12}  trial CV  range  run CV   flagged")
    for precaution, measure in precautions.items():
        runs = [measure(seed) for seed in range(options.runs)]
        show(precaution, runs, lambda _: True)
        if precaution == "as measured":
            show("clean only", runs, clean)
    paired(bench, options, contents)


def run(bench: LocalRunner, job: Job, order: Order, count: int, seed: int) -> dict[str, list[Trial]]:
    runner = bench.runner(job, {"head": NEVER}, seed)
    by_benchmark: dict[str, list[Trial]] = {benchmark.name: [] for benchmark in job.benchmarks}
    for benchmark, number in order(list(job.benchmarks), count, runner.rng):
        by_benchmark[benchmark.name].append(trials.measure_trial(runner, benchmark, "head", number))
    return by_benchmark


def one_process(bench: LocalRunner, job: Job, count: int, seed: int) -> dict[str, list[Trial]]:
    """Each run one server process, loaded again and again: what most load tools do."""
    runner = bench.runner(job, {"head": NEVER}, seed)
    by_benchmark: dict[str, list[Trial]] = {}
    for benchmark in job.benchmarks:
        with runner.fresh_server(benchmark, "head") as server:
            loads = [runner.run_load(benchmark, server, seed + number, benchmark.name) for number in range(count)]
        by_benchmark[benchmark.name] = [SimpleNamespace(metrics=load.metrics, flags=load.flags) for load in loads]  # type: ignore[misc]
    return by_benchmark


def show(precaution: str, runs: list[dict[str, list[Trial]]], keep: Callable[[Trial], bool]) -> None:
    for name in runs[0]:
        for metric, title in METRICS.items():
            samples = [[t.metrics[metric] for t in trials_of[name] if keep(t)] for trials_of in runs]
            samples = [values for values in samples if len(values) > 1]
            if not samples:
                continue
            within = statistics.median(variation(values) for values in samples)
            widest = statistics.median(max(values) / min(values) - 1 for values in samples)
            between = variation([statistics.median(values) for values in samples]) if len(samples) > 1 else math.nan
            all_trials = [t for trials_of in runs for t in trials_of[name]]
            flagged = sum(not clean(t) for t in all_trials) / len(all_trials)
            print(
                f"{precaution:>14} {name:>9} {title:>12}  {within:>8.2%} {widest:>6.1%} {between:>7.2%} {flagged:>9.0%}"
            )
    sys.stdout.flush()


def paired(bench: LocalRunner, options: argparse.Namespace, contents: list[dict[str, Any]]) -> None:
    """The scatter of a block's ratio divided by the square root of two, comparable with a trial's CV."""
    for content in contents:
        paired_job = job(options.server, ("base", "head"), [content])
        runner = bench.runner(paired_job, {"base": NEVER, "head": NEVER}, 1)
        all_blocks = [
            pairs.measure_pair(runner, paired_job.benchmarks[0], number) for number in range(options.trials * 4)
        ]
        quiet = [block for block in all_blocks if all(clean(trial) for trial in block.values())]
        for selection, blocks in (("paired", all_blocks), ("paired, clean", quiet)):
            for metric, title in METRICS.items():
                steps = [math.log(block["head"].metrics[metric] / block["base"].metrics[metric]) for block in blocks]
                cv = statistics.stdev(steps) / math.sqrt(2)
                print(f"{selection:>14} {content['name']:>9} {title:>12}  {cv:>8.2%} {len(blocks)} blocks", flush=True)


def variation(values: list[float]) -> float:
    """Coefficient of variation."""
    return statistics.stdev(values) / statistics.fmean(values)


EXPERIMENTS = {"spread": spread, "aa": aa, "inject": inject}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=COMMANDS)
    parser.add_argument("program", type=Path)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--comparisons", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0, help="of the first comparison; each has the next one")
    parser.add_argument("--effects", default="0.01,0.02,0.05")
    parser.add_argument("--seconds", type=float, default=0.3, help="window of a trial, and of a side of a block")
    parser.add_argument("--warmup", type=float, default=0.1)
    parser.add_argument("--keys", type=int, default=20_000)
    parser.add_argument("--test", choices=("get", "set"), default="get", help="of aa and inject")
    parser.add_argument("--variable", default="SPIN")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds for a comparison")
    options = parser.parse_args()
    pairs.WINDOW_S = options.seconds
    options.program = options.program.absolute()
    if not os.access(options.program, os.X_OK):
        parser.error(f"{options.program} is not a program: build the server first")
    with tempfile.TemporaryDirectory(prefix="speedtrack-noise-") as home:
        try:
            EXPERIMENTS[options.experiment](LocalRunner(Path(home), options.program, options.variable), options)
        except Permanent as error:
            raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
