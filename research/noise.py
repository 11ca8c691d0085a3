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


def clean(one: Trial) -> bool:
    return not set(one.flags) - {"client_bound", "client_delayed"}


def pair(runner: TrialRunner, one: Benchmark, number: int) -> dict[str, tuple[float, float]] | None:
    """Base and head of one block, by metric; None if it was disturbed twice."""
    for _ in range(2):
        try:
            found = pairs.measure_pair(runner, one, number)
        except Transient:  # the machine was too busy for the server to have a turn
            continue
        if all(clean(trial) for trial in found.values()):
            base, head = found["base"].metrics, found["head"].metrics
            return {metric: (base[metric], head[metric]) for metric in METRICS}
    return None


@dataclass(frozen=True)
class Settled:
    verdict: Comparison
    pairs: int
    seconds: float


def compare(
    runner: TrialRunner, one: Benchmark, effects: Mapping[str, float], seed: int, budget_s: float
) -> dict[str, Settled]:
    """Settle whether the sides differ as suspicions are settled: rounds of pairs until every metric has an answer.

    No pair is begun after ``budget_s`` seconds.
    """
    begin, settled = time.monotonic(), dict[str, Settled]()
    found: list[dict[str, tuple[float, float]]] = []
    tried, count = 0, FIRST
    while count:
        places = itertools.takewhile(lambda _: time.monotonic() - begin < budget_s, range(tried, tried + count))
        found += [block for place in places if (block := pair(runner, one, place))]
        tried += count
        if not found:
            raise SystemExit("no block was undisturbed: is the machine quiet?")
        wanted = [0]
        for metric, effect in effects.items():
            if metric not in settled or settled[metric].verdict.answer is ComparisonAnswer.UNKNOWN:
                values = [block[metric] for block in found]
                verdict = settle_pairs(values, smallest_effect=effect, level=LEVEL, seed=seed)
                settled[metric] = Settled(verdict, len(found), time.monotonic() - begin)
                if verdict.answer is ComparisonAnswer.UNKNOWN:
                    wanted.append(pairs_to_settle(values, smallest_effect=effect, level=LEVEL))
        count = min(max(wanted), MOST - tried) if time.monotonic() - begin < budget_s else 0
    return settled


def series(
    bench: LocalRunner, options: argparse.Namespace, every: dict[str, int], effects: Mapping[str, float]
) -> dict[str, list[Settled]]:
    """Comparisons one after the other, by metric."""
    asked = job(options.server, ("base", "head"), [benchmark("p16", options.test, 16, options)])
    found: dict[str, list[Settled]] = {metric: [] for metric in effects}
    for seed in range(options.seed, options.seed + options.comparisons):
        runner = bench.runner(asked, every, seed)
        for metric, settled in compare(runner, asked.benchmarks[0], effects, seed, options.budget).items():
            found[metric].append(settled)
            verdict = settled.verdict
            print(
                f"{METRICS[metric]:>18} {verdict.answer.value:>9} {verdict.ratio - 1:>+8.2%} "
                f"({verdict.low - 1:+.2%} to {verdict.high - 1:+.2%}) "
                f"{settled.pairs:>3} pairs {settled.seconds:>6.1f} s",
                flush=True,
            )
    return found


def summary(title: str, found: list[Settled]) -> str:
    verdicts = [one.verdict for one in found]
    count = {answer: sum(verdict.answer is answer for verdict in verdicts) for answer in ComparisonAnswer}
    slower = sum(verdict.answer is ComparisonAnswer.DIFFERENT and verdict.ratio > 1 for verdict in verdicts)
    return (
        f"{title:>18} {len(found):>5} {count[ComparisonAnswer.DIFFERENT]:>10} {slower:>7} "
        f"{count[ComparisonAnswer.SAME]:>5} {count[ComparisonAnswer.UNKNOWN]:>8} "
        f"{statistics.median(one.pairs for one in found):>6.0f} "
        f"{statistics.median(one.seconds for one in found):>7.1f} "
        f"{statistics.median(verdict.ratio for verdict in verdicts) - 1:>+8.2%} "
        f"{statistics.median(verdict.high - verdict.low for verdict in verdicts) / 2:>9.2%}"
    )


HEADING = (
    f"{'':>18} {'n':>5} {'different':>10} {'slower':>7} {'same':>5} {'unknown':>8} "
    f"{'pairs':>6} {'seconds':>7} {'ratio':>8} {'interval':>9}"
)


def aa(bench: LocalRunner, options: argparse.Namespace) -> None:
    found = series(bench, options, {"base": NEVER, "head": NEVER}, dict.fromkeys(METRICS, SMALLEST))
    print(HEADING)
    for metric, settled in found.items():
        print(summary(METRICS[metric], settled), flush=True)


def inject(bench: LocalRunner, options: argparse.Namespace) -> None:
    spin = calibrate(bench, options)
    print(f"a spin costs {spin:.2f} times the server's CPU per request\n{HEADING}", flush=True)
    for effect in map(float, options.effects.split(",")):
        every = {"base": NEVER, "head": round(spin / effect)}
        found = series(bench, options, every, {CPU: min(SMALLEST, effect / 2)})
        print(summary(f"+{effect:.0%}", found[CPU]), flush=True)


def calibrate(bench: LocalRunner, options: argparse.Namespace) -> float:
    """What a spin costs, as a share of the CPU per request without it."""
    asked = job(options.server, ("base", "head"), [benchmark("p16", options.test, 16, options)])
    runner = bench.runner(asked, {"base": NEVER, "head": SELDOM}, 0)
    found = [block[CPU] for number in range(CALIBRATING) if (block := pair(runner, asked.benchmarks[0], number))]
    return SELDOM * (statistics.median(head / base for base, head in found) - 1)


Order = Callable[[list[Benchmark], int, Random], list[tuple[Benchmark, int]]]


def interleaved(benchmarks: list[Benchmark], count: int, rng: Random) -> list[tuple[Benchmark, int]]:
    return [(one, n) for n in range(count) for one in rng.sample(benchmarks, len(benchmarks))]


def in_blocks(benchmarks: list[Benchmark], count: int, rng: Random) -> list[tuple[Benchmark, int]]:
    return list(itertools.product(benchmarks, range(count)))


def spread(bench: LocalRunner, options: argparse.Namespace) -> None:
    """Trial to trial and run to run, with and without each precaution."""
    wanted = [benchmark("get-p16", "get", 16, options), benchmark("set-p1", "set", 1, options)]
    asked = job(options.server, ("head",), wanted)
    ways: dict[str, Callable[[int], dict[str, list[Trial]]]] = {
        "as measured": lambda seed: run(bench, asked, interleaved, options.trials, seed),
        "in blocks": lambda seed: run(bench, asked, in_blocks, options.trials, seed),
        "one process": lambda seed: one_process(bench, asked, options.trials, seed),
    }
    print(f"{'':>14} {'benchmark':>9} {'metric':>12}  trial CV  range  run CV   flagged")
    for way, measure in ways.items():
        runs = [measure(seed) for seed in range(options.runs)]
        show(way, runs, lambda _: True)
        if way == "as measured":
            show("clean only", runs, clean)
    paired(bench, options, wanted)


def run(bench: LocalRunner, asked: Job, order: Order, count: int, seed: int) -> dict[str, list[Trial]]:
    runner = bench.runner(asked, {"head": NEVER}, seed)
    found: dict[str, list[Trial]] = {one.name: [] for one in asked.benchmarks}
    for one, number in order(list(asked.benchmarks), count, runner.rng):
        found[one.name].append(trials.measure_trial(runner, one, "head", number))
    return found


def one_process(bench: LocalRunner, asked: Job, count: int, seed: int) -> dict[str, list[Trial]]:
    """Each run one server process, loaded again and again: what most load tools do."""
    runner = bench.runner(asked, {"head": NEVER}, seed)
    found: dict[str, list[Trial]] = {}
    for one in asked.benchmarks:
        with runner.fresh_server(one, "head") as server:
            loads = [runner.run_load(one, server, seed + number, one.name) for number in range(count)]
        found[one.name] = [SimpleNamespace(metrics=load.metrics, flags=load.flags) for load in loads]  # type: ignore[misc]
    return found


def show(way: str, runs: list[dict[str, list[Trial]]], keep: Callable[[Trial], bool]) -> None:
    for name in runs[0]:
        for metric, title in METRICS.items():
            kept = [[t.metrics[metric] for t in one[name] if keep(t)] for one in runs]
            kept = [values for values in kept if len(values) > 1]
            if not kept:
                continue
            within = statistics.median(variation(values) for values in kept)
            widest = statistics.median(max(values) / min(values) - 1 for values in kept)
            between = variation([statistics.median(values) for values in kept]) if len(kept) > 1 else math.nan
            all_trials = [t for one in runs for t in one[name]]
            flagged = sum(not clean(t) for t in all_trials) / len(all_trials)
            print(f"{way:>14} {name:>9} {title:>12}  {within:>8.2%} {widest:>6.1%} {between:>7.2%} {flagged:>9.0%}")
    sys.stdout.flush()


def paired(bench: LocalRunner, options: argparse.Namespace, wanted: list[dict[str, Any]]) -> None:
    """The scatter of a block's ratio divided by the square root of two, comparable with a trial's CV."""
    for content in wanted:
        asked = job(options.server, ("base", "head"), [content])
        runner = bench.runner(asked, {"base": NEVER, "head": NEVER}, 1)
        found = [pairs.measure_pair(runner, asked.benchmarks[0], number) for number in range(options.trials * 4)]
        quiet = [block for block in found if all(clean(trial) for trial in block.values())]
        for way, blocks in (("paired", found), ("paired, clean", quiet)):
            for metric, title in METRICS.items():
                steps = [math.log(one["head"].metrics[metric] / one["base"].metrics[metric]) for one in blocks]
                cv = statistics.stdev(steps) / math.sqrt(2)
                print(f"{way:>14} {content['name']:>9} {title:>12}  {cv:>8.2%} {len(blocks)} blocks", flush=True)


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
