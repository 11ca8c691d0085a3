"""Whether the quiet gate detects disturbed trials, and how often it rejects undisturbed ones.

python research/quiet_gate.py [--trials 12] [--seconds 1.0] [--seed 1]

Trials of the sample server, measured as a run measures them, without a neighbour and with one: a process on the core of
the server or of the driver that uses a share of it, a bit in each 20 ms. The kinds take turns in random order. Printed
are, for each kind: how many trials were flagged by the gate and how many by the driver, by which flags; the server's
CPU per request and the throughput against those without a neighbour; median and maximum of each judged measure.
Without a neighbour every flag is a false catch: so run it on a machine that does nothing else. About three minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from runners.documents import Benchmark, ServerRecipe
from runners.loads.speedbench import Driver
from runners.loads.target import LoadOutcome, Target
from runners.machine import placement
from runners.machine.facts import UNKNOWN
from runners.machine.placement import Placement
from runners.measuring.indicators import INDICATORS, Findings
from runners.measuring.quiet import QuietGate
from runners.processes.affinity import affinity
from runners.processes.children import Processes
from runners.processes.control import Control
from runners.servers.server import Launcher, ServerSpec
from runners.work.settings import find_driver

ROOT = Path(__file__).resolve().parent.parent
SUITE = tomllib.loads((ROOT / "suites/sample.toml").read_text())
BURNER = """
import sys, time
share, period = float(sys.argv[1]), 0.02
while True:
    begin, used = time.monotonic(), time.process_time()
    while time.process_time() - used < share * period: pass
    time.sleep(max(0.0, period - (time.monotonic() - begin)) if share < 1 else 0)
"""


@dataclass(frozen=True)
class Disturbance:
    """The disturbance of a trial: a process that uses this share of the core of the server or the driver."""

    core: str = ""
    share: float = 0.0

    def __str__(self) -> str:
        return f"{self.share:.0%} of the {self.core}'s core" if self.core else "no neighbour"


NEIGHBOURS = (
    Disturbance(),
    Disturbance("server", 0.05),
    Disturbance("server", 0.2),
    Disturbance("server", 1.0),
    Disturbance("driver", 0.2),
    Disturbance("driver", 1.0),
)


@dataclass(frozen=True)
class DisturbedTrial:
    outcome: LoadOutcome
    findings: Findings


@contextlib.contextmanager
def neighbour(kind: Disturbance, plan: Placement) -> Iterator[None]:
    if not kind.core:
        yield
        return
    with affinity(plan.server if kind.core == "server" else plan.driver):
        process = subprocess.Popen([sys.executable, "-c", BURNER, str(kind.share)])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def build(directory: Path) -> Path:
    """The newest commit of the sample server, built."""
    repository = directory / "sample"
    for command in (
        [sys.executable, "-m", "runners.sample", str(repository)],
        ["git", "clone", "-q", str(repository), str(directory / "tree")],
        ["make", "-s", "-C", str(directory / "tree")],
    ):
        subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    return directory / "tree" / str(SUITE["build"]["artifacts"][0])


class GateTrials:
    """The runner's own parts, assembled as in a run."""

    def __init__(self, directory: Path, options: argparse.Namespace) -> None:
        self.plan = placement.place()
        self.program = build(directory)
        self.processes = Processes(directory)
        self.launcher = Launcher(self.processes, directory, self.plan.server)
        self.driver = Driver(find_driver(os.environ), self.processes, self.plan.driver)
        self.gate, self.control, self.rng = QuietGate(self.plan), Control(), random.Random(options.seed)
        server = SUITE["server"]
        self.recipe = ServerRecipe(server["command"], {}, server["protocol"], server["ready_timeout_s"], 1)
        workload = {k: v for k, v in SUITE["benchmark"][0]["workload"].items() if k != "transport"}
        workload |= {"warmup_s": 0.2, "duration_s": options.seconds}
        self.benchmark = Benchmark(
            name="get-p1",
            digest="",
            driver="speedbench",
            transport="unix",
            workload=workload,
            command="",
            timeout_s=60.0,
            target=0.01,
            instructions="",
        )
        self.gave_up = 0

    def trial(self, kind: Disturbance, number: int) -> DisturbedTrial:
        self.gave_up += self.gate.await_quiet(self.control).gave_up
        artifacts = {self.program.name: self.program}
        with self.launcher.running(ServerSpec(self.recipe, "unix", artifacts), self.rng, self.control) as server:
            target = Target(self.recipe.protocol, server.address, server.pid, server.output.parent)

            def driver() -> int | None:
                return None if self.processes.latest == server.pid else self.processes.latest

            with neighbour(kind, self.plan), self.gate.watch([server.pid], driver) as watch:
                outcome = self.driver.run(self.benchmark, target, number, self.control)
            watch.window = outcome.window
            return DisturbedTrial(outcome, watch.findings)


def report(trials_by_kind: dict[Disturbance, list[DisturbedTrial]]) -> None:
    print(f"{'':24} {'gate':>6} {'driver':>6}  {'CPU/req':>8} {'req/s':>8}  flags (trials)")
    base = trials_by_kind[NEIGHBOURS[0]]
    for kind, trials in trials_by_kind.items():
        flags = Counter(flag for trial in trials for flag in (*trial.findings.flags, *trial.outcome.flags))
        gate = sum(bool(trial.findings.flags) for trial in trials) / len(trials)
        driver = sum(bool(trial.outcome.flags) for trial in trials) / len(trials)
        ratios = [ratio(trials, base, name) for name in ("server_cpu_ns_per_request", "throughput_rps")]
        counts = ", ".join(f"{flag} {count}" for flag, count in flags.most_common())
        print(f"{kind!s:24} {gate:6.0%} {driver:6.0%}  {ratios[0]:+8.1%} {ratios[1]:+8.1%}  {counts}")
    checked = [indicator for indicator in INDICATORS.values() if indicator.flag]
    print(f"\n{'median / greatest':24} " + " ".join(f"{indicator.name:>17}" for indicator in checked))
    print(f"{'limit':24} " + " ".join(f"{indicator.limit:17g}" for indicator in checked))
    for kind, trials in trials_by_kind.items():
        print(f"{kind!s:24} " + " ".join(f"{spread(trials, indicator.name):>17}" for indicator in checked))


def ratio(trials: list[DisturbedTrial], base: list[DisturbedTrial], metric: str) -> float:
    def middle(several: list[DisturbedTrial]) -> float:
        return median(trial.outcome.metrics[metric] for trial in several)

    return middle(trials) / middle(base) - 1


def spread(trials: list[DisturbedTrial], indicator: str) -> str:
    values = [float(v) for trial in trials if (v := trial.findings.values[indicator]) != UNKNOWN]
    return f"{median(values):.4g} / {max(values):.4g}" if values else UNKNOWN


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=12, help="of each kind")
    parser.add_argument("--seconds", type=float, default=1.0, help="the measured window of a trial")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        bench = GateTrials(Path(directory), options)
        os.sched_setaffinity(0, bench.plan.housekeeping)
        trials_by_kind: dict[Disturbance, list[DisturbedTrial]] = {kind: [] for kind in NEIGHBOURS}
        for number in range(options.trials):
            for kind in bench.rng.sample(NEIGHBOURS, len(NEIGHBOURS)):
                trials_by_kind[kind].append(bench.trial(kind, number))
        report(trials_by_kind)
        print(f"\nbefore {bench.gave_up} of {options.trials * len(NEIGHBOURS)} trials the machine did not become quiet")


if __name__ == "__main__":
    main()
