"""What the layout of code costs and moves: the spread of random layouts, and what pairs say of code that only moves.

python research/layout.py REPOSITORY SUITE [--commit HEAD] [--minutes 240] [--home DIRECTORY]

SUITE: redis, valkey, memcached or sample; its build, server and workloads of GET and SET at P1 and P16 are measured by
the runner's own blocks. It takes `--minutes`, the builds and some minutes of computing, on a quiet machine,
and prints three tables:

1. Of each benchmark, the spread of the ratio of two sides of one build: of fresh processes of one program, and of fresh
   layouts; from both, the spread of the layouts of a side alone.
2. The pairs that a change of 1, 2 and 3% takes, settled as suspicions are, from those ratios drawn again.
3. Of commits that only move code, how many were confirmed as changes: measured as one program of each side, and in
   layouts.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import math
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import count, cycle
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from research import noise
from runners.build import Artifact, Build, CommitSource
from runners.build.layouts import keeping
from runners.documents import BuildRecipe, Job, ServerRecipe, parse
from runners.measuring import pairs
from runners.measuring.layouts import LayoutPool
from runners.measuring.trials import TrialRunner
from runners.processes.control import Control
from speedtrack.benchmarks.definitions import Definition
from speedtrack.stats.comparing.compare import ComparisonAnswer, pairs_to_settle, settle_pairs

SUITES = Path(__file__).resolve().parent.parent / "suites"
WANTED = ("get-p1", "set-p1", "get-p16", "set-p16")
EARLY = {"redis": "src/zmalloc.c", "valkey": "src/zmalloc.c", "memcached": "slabs.c", "sample": "src/dict.c"}
COLUMNS = {
    "server_cpu_ns_per_request": "CPU",
    "cycles_per_request": "cycles",
    "instructions_per_request": "instructions",
}
EFFECTS = (0.01, 0.02, 0.03)
SMALLEST, DRAWS, MOST = 0.01, 20, 300
Edit = Callable[[str], str]
SIDES = ("base", "head")


def unused_function(number: int) -> Edit:
    body = "x = x * 31 + 7; x ^= x >> 3; " * (1 + 7 * number % 40)
    return lambda text: f"{text}\n__attribute__((used, noinline)) int moved{number}(int x) {{ {body} return x; }}\n"


def longer_text(number: int) -> Edit:
    return lambda text: (
        f'{text}\n__attribute__((used)) const char moved_text{number}[] = "{"x" * (17 + 53 * number)}";\n'
    )


def unchanged(number: int) -> Edit:
    return lambda text: text


MOVES = {"function added": unused_function, "longer text": longer_text, "functions reordered": unchanged}


@dataclass
class EditBench:
    """A suite's job, and the tools of a local runner; builds of edited sources."""

    repository: Path
    suite: str
    commit: str
    job: Job
    local: noise.LocalRunner

    def source(self, edit: Edit) -> CommitSource:
        """The commit with one file edited."""
        argv = ["git", "-C", str(self.repository), "archive", self.commit]
        archive = subprocess.run(argv, check=True, capture_output=True, timeout=300).stdout

        def fetch(file: Path) -> None:
            with tarfile.open(fileobj=io.BytesIO(archive)) as old, tarfile.open(file, "w") as new:
                for member in old:
                    content = old.extractfile(member) if member.isfile() else None
                    data = content.read() if content else b""
                    if member.name == EARLY[self.suite]:
                        data = edit(data.decode()).encode()
                        member.size = len(data)
                    new.addfile(member, io.BytesIO(data))

        return CommitSource(hashlib.sha256(f"{self.commit}{edit('')}".encode()).hexdigest()[:40], fetch)

    def build(self, side: str, edit: Edit, relinkable: bool) -> Build:
        recipe = keeping(self.job.build) if relinkable else self.job.build
        log: list[str] = []
        build = self.local.tools.builder.build(side, self.source(edit), recipe, log.append, Control())
        if build.error:
            raise SystemExit("".join(log[-5:]) + build.error)
        return build

    def runner(self, builds: Mapping[str, Build], relinkable: Mapping[str, Build] | None, seed: int) -> TrialRunner:
        runner = self.local.runner(self.job, {}, seed)
        runner.builds |= builds
        if relinkable:
            files = {side: next(iter(build.artifacts.values())) for side, build in relinkable.items()}
            runner.layouts = LayoutPool(self.job, self.local.tools, Control(), runner.rng, files)
        return runner

    def reordered(self, side: str, relinkable: Build, seed: int) -> Build:
        """A build in one layout of it."""
        pool = self.runner({}, {side: relinkable}, seed).layouts
        assert pool is not None
        layout = pool.draw()[side]
        room = self.local.home / f"moved-{side}"
        room.mkdir(exist_ok=True)
        programs = {}
        for name, file in layout.programs.items():
            file.replace(room / name)
            programs[name] = Artifact(f"sha256:{side}{seed}", 0, 0, room / name)
        return replace(relinkable, artifacts=programs)


def job_of(suite: str) -> Job:
    definition = Definition.model_validate(tomllib.loads((SUITES / f"{suite}.toml").read_text()))
    benchmarks = [
        benchmark.work() | {"name": benchmark.name, "digest": "sha256:0"}
        for benchmark in definition.benchmark
        if benchmark.name in WANTED
    ]
    build, server = definition.build.model_dump() | {"trust": "research"}, definition.server.model_dump()
    job = noise.job("redis", SIDES, benchmarks)
    return replace(job, build=parse(BuildRecipe, build, "build"), server=parse(ServerRecipe, server, "server"))


Ratios = dict[tuple[str, str, str], list[float]]  # logarithms, by way, benchmark and metric


def ratios_of(bench: EditBench, until: float) -> Ratios:
    """Of one build on both sides: the ratios of blocks of fresh processes, and of fresh layouts, in turn."""
    same = unchanged(0)
    builds = {side: bench.build(side, same, relinkable=False) for side in SIDES}
    relinkable = {side: bench.build(side, same, relinkable=True) for side in SIDES}
    runners = {"processes": bench.runner(builds, None, 1), "layouts": bench.runner(builds, relinkable, 2)}
    ratios: Ratios = defaultdict(list)
    number = 0
    while time.monotonic() < until or number < 2:
        for benchmark in bench.job.benchmarks:
            for variant, runner in runners.items():
                trials = pairs.measure_pair(runner, benchmark, number)
                if variant == "layouts" and trials["head"].layout is None:
                    raise SystemExit(f"no layouts: {runner.layouts.refusal if runner.layouts else ''}")
                for metric in COLUMNS:
                    sides = [trials[side].metrics[metric] for side in SIDES if metric in trials[side].metrics]
                    if len(sides) == len(SIDES) and all(map(noise.clean, trials.values())):
                        ratios[variant, benchmark.name, metric].append(math.log(sides[1] / sides[0]))
        number += 1
    return ratios


def show_spreads(ratios: Ratios) -> None:
    print(f"\n{'benchmark':>10} {'of':>13} {'pairs':>6} {'processes':>10} {'layouts':>8} {'layout of a side':>17}")
    for _, name, metric in [key for key in ratios if key[0] == "processes"]:
        of = [ratios[variant, name, metric] for variant in ("processes", "layouts")]
        if min(map(len, of)) > 1:
            processes, layouts = map(statistics.stdev, of)
            alone = math.sqrt(max(0.0, layouts**2 - processes**2) / 2)
            figures = f"{processes:>10.2%} {layouts:>8.2%} {alone:>17.2%}"
            print(f"{name:>10} {COLUMNS[metric]:>13} {len(of[0]):>6} {figures}")


def show_pairs(ratios: Ratios) -> None:
    print(f"\n{'benchmark':>10} {'measured in':>12}" + "".join(f" {f'{effect:.0%}':>6}" for effect in EFFECTS))
    for (variant, name, metric), values in ratios.items():
        if metric == "server_cpu_ns_per_request" and len(values) > 1:
            print(
                f"{name:>10} {variant:>12}" + "".join(f" {pairs_to_find(values, effect):>6.0f}" for effect in EFFECTS)
            )


def pairs_to_find(values: list[float], effect: float) -> float:
    """The median of the pairs after which a change of this size is confirmed; infinity where MOST are too few."""
    rng, centre = Random(1), statistics.median(values)
    return statistics.median(
        pairs_of_draw([(1.0, math.exp(rng.choice(values) - centre) * (1 + effect)) for _ in range(MOST)])
        for _ in range(DRAWS)
    )


def pairs_of_draw(sampled_pairs: list[tuple[float, float]]) -> float:
    size = noise.FIRST
    while size < len(sampled_pairs):
        verdict = settle_pairs(sampled_pairs[:size], smallest_effect=SMALLEST, level=noise.LEVEL, seed=1)
        if verdict.answer is not ComparisonAnswer.UNKNOWN:
            return size if verdict.answer is ComparisonAnswer.DIFFERENT else math.inf
        size += pairs_to_settle(sampled_pairs[:size], smallest_effect=SMALLEST, level=noise.LEVEL)
    return math.inf


def show_moves(bench: EditBench, until: float, budget_s: float) -> None:
    """Settles commits that only move code against their parent, both ways, until the time is over."""
    confirmed: dict[tuple[str, str], list[bool]] = defaultdict(list)
    base = {relinkable: bench.build("base", unchanged(0), relinkable) for relinkable in (False, True)}
    benchmark = next(benchmark for benchmark in bench.job.benchmarks if benchmark.name == "get-p16")
    for number, kind in zip(count(1), cycle(MOVES), strict=False):
        if time.monotonic() > until:
            break
        edit = MOVES[kind](number)
        head = {relinkable: bench.build("head", edit, relinkable) for relinkable in (False, True)}
        plain = {"base": base[False], "head": head[False]}
        if kind == "functions reordered":
            plain = {
                side: bench.reordered(side, build[True], number) for side, build in (("base", base), ("head", head))
            }
        variants = {"one program": bench.runner(plain, None, number)}
        variants["layouts"] = bench.runner(plain, {"base": base[True], "head": head[True]}, number)
        for variant, runner in variants.items():
            settlement = noise.compare(runner, benchmark, {noise.CPU: SMALLEST}, number, budget_s)[noise.CPU]
            confirmed[kind, variant].append(settlement.verdict.answer is ComparisonAnswer.DIFFERENT)
    print(f"\n{'only moved':>20} {'measured in':>12} {'commits':>8} {'confirmed':>10}")
    for (kind, variant), answers in confirmed.items():
        print(f"{kind:>20} {variant:>12} {len(answers):>8} {sum(answers):>10}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path)
    parser.add_argument("suite", choices=sorted(EARLY))
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument("--minutes", type=float, default=240.0)
    parser.add_argument("--budget", type=float, default=300.0, help="seconds for a commit that moves code, each way")
    parser.add_argument("--home", type=Path, help="of the runner; it keeps builds (default: a new directory)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="layout-") as room:
        home = options.home or Path(room)
        home.mkdir(parents=True, exist_ok=True)
        local = noise.LocalRunner(home, Path("/bin/true"), "NONE")
        bench = EditBench(options.repository, options.suite, options.commit, job_of(options.suite), local)
        begin = time.monotonic()
        ratios = ratios_of(bench, begin + 30 * options.minutes)
        show_spreads(ratios)
        show_pairs(ratios)
        show_moves(bench, begin + 60 * options.minutes, options.budget)


if __name__ == "__main__":
    main()
