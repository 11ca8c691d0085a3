"""What machine time buys: trials per commit, their windows and warm-ups, and pairs where a change is suspected.

python -m research.machine_time measure SUITE PROGRAM FILE [--rounds 8]
python -m research.machine_time planned
python -m research.machine_time stopping
python -m research.machine_time split FILE [--lines 40] [--commits 200]

`measure` loads a server in every benchmark of a suite's default set with the runner's own trials, and appends each
trial to FILE as a line of JSON, with the CPU time and the requests of its slices: so `split` also knows what shorter
windows of the same trials would have measured. `planned` prints how long the shipped suites take per commit where
nothing disturbs them. `stopping` plays the runner's stopping rule with and without the end of benchmarks that cannot
meet their target. `split` plays lines of commits with that noise to the code that suspects
changes and settles them, and prints recall, precision, delay and machine time of each way to split that time.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from research.exact import job_of, with_program
from research.noise import LocalRunner
from runners.errors import Permanent, Transient
from runners.measuring import stopping
from runners.measuring.trials import measure_trial
from speedtrack.benchmarks.workloads import LEAST_JUDGED_S
from speedtrack.stats.arrays import Array
from speedtrack.stats.changes.changepoint import Point, SettledShift, suspect_shifts
from speedtrack.stats.comparing import sequential
from speedtrack.stats.comparing.compare import ComparisonAnswer, settle_pairs

WINDOWS_S = (0.3, 0.6, 1.0, 1.5)
TARGET, FEWEST, MOST = 0.01, 5, 15  # of a benchmark, unless its suite says otherwise
SPREADS = (0.005, 0.01, 0.015, 0.02, 0.03, 0.05)
BLOCK_S, LOOKS, LEVEL = 2.0, (sequential.FEWEST, 14, 28, 56, 80), 0.01
BESIDE = 5  # commits by which a finding may miss its change
BRACKET = 3  # commits on each side of a suspicion that pairs compare
APART = 25  # commits between two changes, at least
SUITES = Path(__file__).parents[1] / "suites"
SHIPPED = ("redis", "valkey", "memcached")
BENCHMARKS = 13  # of the shipped suites' default set
COUNT_S = 1.9  # of a benchmark's counted instructions: 24 s for the set (docs/methodology.md)
WORK = 0.5  # share of changes that counts show
BETWEEN = 0.008  # between runs of one commit, besides what their trials show
SIDE = 0.0085  # spread of a side of a block (docs/methodology.md: 0.7 to 1.0%)
SWEEP_EVERY, SWEEP_PAIRS, SWEEP_DOUBT = 20, 14, 0.2  # as alerts/settling/sweeps.py has them
NARROWING = 10  # pairs of a commit that halves the range of a confirmed change
OUTSIDE_S = 0.4  # of a trial on an idle machine: starting server and driver, prefill


def main() -> None:
    options = arguments()
    if options.command == "measure":
        measure(options.suite, options.program, options.file, options.rounds)
    elif options.command == "planned":
        print_planned()
    elif options.command == "stopping":
        print_stopping(options.repeats, options.seed)
    else:
        print_split(recorded(options.file), options)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="record the trials of a suite")
    measuring.add_argument("suite")
    measuring.add_argument("program", type=Path)
    measuring.add_argument("file", type=Path)
    measuring.add_argument("--rounds", type=int, default=8)
    commands.add_parser("planned", help="how long the shipped suites take")
    playing = commands.add_parser("stopping", help="play the rule that ends trials")
    playing.add_argument("--repeats", type=int, default=1000)
    playing.add_argument("--seed", type=int, default=1)
    splitting = commands.add_parser("split", help="play splits of machine time")
    splitting.add_argument("file", type=Path)
    splitting.add_argument("--lines", type=int, default=40)
    splitting.add_argument("--spreads", type=float, nargs="+", default=[0.02, 0.05])
    splitting.add_argument("--commits", type=int, default=200)
    splitting.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


# -- recorded trials --


def measure(suite: str, program: Path, file: Path, rounds: int) -> None:
    """Append the trials of the default set, round by round; loops with another benchmark's rate are left out."""
    job = job_of(suite, [])
    closed = [benchmark for benchmark in job.benchmarks if benchmark.workload.get("mode") != "open"]
    with tempfile.TemporaryDirectory(prefix="speedtrack-") as home, file.open("a") as out:
        runner = with_program(LocalRunner(Path(home), program.resolve(), "").runner(job, {}, seed=1), program.resolve())
        for number in range(rounds):
            for benchmark in closed:
                try:
                    trial = measure_trial(runner, benchmark, "head", number)
                except (Permanent, Transient) as error:
                    print(f"{benchmark.name}: {error}", file=sys.stderr)
                    continue
                test = trial.driver["tests"][-1]
                row = {"benchmark": benchmark.name, "seconds": trial.seconds, "flags": trial.flags}
                row |= {"warmup_s": test["warmup"]["seconds"], "window_s": test["window_s"], "slices": test["slices"]}
                print(json.dumps(row), file=out, flush=True)


@dataclass(frozen=True)
class RecordedTrial:
    """One trial: the seconds outside of warm-up and window, and CPU time per request of each window from its start."""

    outside_s: float
    warmup_s: float
    cpu: dict[float, float]


def recorded(file: Path) -> dict[str, list[RecordedTrial]]:
    """The trials of a file by benchmark."""
    trials: dict[str, list[RecordedTrial]] = defaultdict(list)
    for line in file.read_text().splitlines():
        row = json.loads(line)
        slices = row["slices"]
        cpu, requests = np.cumsum(slices["server_cpu_ns"]), np.cumsum(slices["requests"])
        ends = {window_s: round(1000 * window_s / slices["width_ms"]) - 1 for window_s in WINDOWS_S}
        by_window = {window_s: float(cpu[end] / requests[end]) for window_s, end in ends.items() if end < len(cpu)}
        outside_s = row["seconds"] - row["warmup_s"] - row["window_s"]
        trials[row["benchmark"]].append(RecordedTrial(outside_s, row["warmup_s"], by_window))
    return trials


@dataclass(frozen=True)
class Deviations:
    """The logarithms of what trials measured in a window, less the median of their benchmark, by window."""

    by_window: dict[float, Array]

    @classmethod
    def of(cls, trials: Mapping[str, Sequence[RecordedTrial]]) -> Deviations:
        pooled = {}
        for window_s in WINDOWS_S:
            values = [np.log([trial.cpu[window_s] for trial in own]) for own in trials.values()]
            pooled[window_s] = np.concatenate([own - np.median(own) for own in values])
        return cls(pooled)

    def spread(self, window_s: float) -> float:
        """By the middle two thirds: a few disturbed trials do not set the scale."""
        low, high = np.quantile(self.by_window[window_s], [0.159, 0.841])
        return float(high - low) / 2

    def scaled_to(self, spread: float) -> Deviations:
        """The same noise of a machine on which trials of the longest window have this spread."""
        factor = spread / self.spread(WINDOWS_S[-1])
        return Deviations({window_s: factor * values for window_s, values in self.by_window.items()})


# -- the stopping rule --


def trials_until(values: Array, doubt: float, fewest: int = FEWEST, most: int = MOST) -> int:
    """How many of these values the runner's rule takes; ``doubt`` infinite: futile trials are not ended."""
    for count in range(fewest, most):
        width = stopping.half_width(values[:count].tolist())
        assert width is not None
        if width <= TARGET or stopping.narrowed(width, count, most) > doubt * TARGET:
            return count
    return most


def print_stopping(repeats: int, seed: int) -> None:
    """How many trials each spread takes, how often the target is met, and how far medians scatter."""
    rng = np.random.default_rng(seed)
    doubts = (math.inf, 1.0, stopping.DOUBT, 2.0)
    print("| spread of trials |", " | ".join("never futile" if math.isinf(d) else f"factor {d}" for d in doubts), "|")
    print("|--:|" + "---|" * len(doubts))
    for spread in SPREADS:
        rows = np.exp(spread * rng.normal(size=(repeats, MOST)))
        cells = [stopping_cell(rows, doubt) for doubt in doubts]
        print(f"| {spread:.1%} |", " | ".join(cells), "|")


def stopping_cell(rows: Array, doubt: float) -> str:
    counts = [trials_until(row, doubt) for row in rows]
    samples = [row[:count] for row, count in zip(rows, counts, strict=True)]
    met = np.mean([(stopping.half_width(sample.tolist()) or 0.0) <= TARGET for sample in samples])
    scatter = np.std([math.log(float(np.median(sample))) for sample in samples])
    return f"{np.mean(counts):.1f} trials, {met:.0%} within, ±{scatter:.2%}"


# -- a suite --


def planned_s(suite: str, trials: int) -> float:
    """The seconds after the build that so many trials of a suite's default set take where nothing disturbs them."""
    job = job_of(suite, [])
    return sum(trials * (OUTSIDE_S + load_s(benchmark.workload)) + COUNT_S for benchmark in job.benchmarks)


def fewest_trials(suite: str) -> int:
    """What the file of a shipped suite sets."""
    return int(tomllib.loads((SUITES / f"{suite}.toml").read_text())["trials"])


def load_s(workload: Mapping[str, Any]) -> float:
    """Warm-up and window; a load that warms up until it is steady is steady at the first look."""
    steady = LEAST_JUDGED_S if "warmup_most_s" in workload else 0.0
    return float(max(workload.get("warmup_s", 0.0), steady) + workload["duration_s"])


def print_planned() -> None:
    print("| suite | benchmarks | fewest trials | most trials |", "|---|--:|--:|--:|", sep="\n")
    for suite in SHIPPED:
        cells = (f"{trials}: {planned_s(suite, trials):.0f} s" for trials in (fewest_trials(suite), MOST))
        print(f"| {suite} | {len(job_of(suite, []).benchmarks)} |", " | ".join(cells), "|")


# -- splits --


@dataclass(frozen=True)
class Split:
    """A way to spend machine time on a benchmark of a commit. ``doubt``: as in `trials_until`.

    ``sweeps``: after every SWEEP_EVERY commits the newest is compared in pairs with the one so many before it.
    """

    name: str
    window_s: float
    warmup_s: float
    fewest: int = FEWEST
    doubt: float = math.inf
    sweeps: bool = False


END = stopping.DOUBT
SPLITS = (
    Split("1.5 s, 5 to 15 trials (before)", 1.5, 1.1),
    Split("1.5 s, futile ones end", 1.5, 1.1, doubt=END),
    Split("0.6 s, warm-up 0.2 s, futile ones end", 0.6, 0.2, doubt=END),
    Split("0.6 s, warm-up 0.2 s, 10 to 15 trials", 0.6, 0.2, doubt=END, fewest=10),
    Split("0.3 s, warm-up 0.2 s, futile ones end", 0.3, 0.2, doubt=END),
    Split("0.3 s, warm-up 0.2 s, 6 to 15 trials", 0.3, 0.2, doubt=END, fewest=6),
    Split("0.3 s, warm-up 0.2 s, 10 to 15 trials", 0.3, 0.2, doubt=END, fewest=10),
    Split("0.3 s, warm-up 0.2 s, 6 to 15 trials, sweeps", 0.3, 0.2, doubt=END, fewest=6, sweeps=True),
)


@dataclass
class SplitResult:
    """What a split found on all lines, and what it took."""

    changes: int = 0
    hits: int = 0
    false: int = 0
    delays: list[int] = field(default_factory=list)
    trials: int = 0
    commits: int = 0
    pairs: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class PlantedChange:
    """A true change of the level, as a logarithm. ``is_work``: instructions change with it, so that counts show it."""

    index: int
    step: float
    is_work: bool


def changes_of(rng: np.random.Generator, commits: int) -> list[PlantedChange]:
    """Changes of 1 to 20%, log-uniform, three of five slower; half of them are work."""
    earliest = range(APART, commits - APART, 2 * APART)
    return [
        PlantedChange(
            start + int(rng.integers(0, APART)),
            (1 if rng.random() < 0.6 else -1) * math.log1p(math.exp(rng.uniform(math.log(0.01), math.log(0.2)))),
            bool(rng.random() < WORK),
        )
        for start in earliest
    ]


def play(split: Split, noise: Deviations, seed: int, commits: int, outcome: SplitResult) -> None:
    """Play one line of a benchmark's noise to detection and settling; the same seed has the same changes.

    Counts show the changes that are work, at once and without error, as on real servers (docs/methodology.md).
    """
    rng = np.random.default_rng(seed)
    changes = changes_of(rng, commits)
    level = np.zeros(commits)
    for change in changes:
        level[change.index :] += change.step
    scatter = BETWEEN * rng.normal(size=(commits, 1)) + rng.choice(noise.by_window[split.window_s], (commits, MOST))
    values = 100 * np.exp(level[:, None] + scatter)
    counts = [trials_until(row, split.doubt, split.fewest) for row in values]
    points = [Point(tuple(row[:count])) for row, count in zip(values, counts, strict=True)]
    works = {change.index: change.index for change in changes if change.is_work}
    outcome.pairs += 2 * sequential.FEWEST * len(works)  # counted ones and those of the headline
    outcome.seconds += sum(counts) * (OUTSIDE_S + split.warmup_s + split.window_s) + commits * COUNT_S
    outcome.trials += sum(counts)
    outcome.commits += commits
    findings = settled_findings(points, level, rng, outcome) | works
    if split.sweeps:
        findings |= swept_findings(changes, findings, level, rng, outcome)
    add_findings(outcome, changes, findings)


def add_findings(outcome: SplitResult, changes: Sequence[PlantedChange], confirmed: Mapping[int, int]) -> None:
    """Match confirmed places (index -> the point that raised its suspicion) with the true changes."""
    hits = {
        change: suspected_at
        for index, suspected_at in confirmed.items()
        for change in changes
        if abs(index - change.index) <= BESIDE
    }
    outcome.changes += len(changes)
    outcome.hits += len(hits)
    outcome.delays += [max(0, suspected_at - change.index) for change, suspected_at in hits.items()]
    outcome.false += sum(all(abs(index - change.index) > BESIDE for change in changes) for index in confirmed)


def settled_findings(
    points: Sequence[Point], level: Array, rng: np.random.Generator, outcome: SplitResult
) -> dict[int, int]:
    """Index -> the point that raised its suspicion, of all that pairs confirm."""
    settled_shifts: list[SettledShift] = []
    confirmed: dict[int, int] = {}
    last = -1
    while True:
        shifts = [shift for shift in suspect_shifts(points, settled=settled_shifts) if shift.seen > last]
        if not shifts:
            return confirmed
        shift = shifts[0]
        last = shift.seen
        ends = max(0, shift.index - 1 - BRACKET), min(len(points) - 1, shift.seen, shift.index + BRACKET)
        ratio = level[ends[1]] - level[ends[0]]
        is_different = settle(ratio, shift.ratio, rng, outcome)
        settled_shifts.append(SettledShift(shift.index, shift.index, shift.ratio > 1, is_different))
        if is_different:
            confirmed[shift.index] = shift.seen


def swept_findings(
    changes: Sequence[PlantedChange],
    history: Mapping[int, int],
    level: Array,
    rng: np.random.Generator,
    outcome: SplitResult,
) -> dict[int, int]:
    """Index -> the last commit of its sweep, of the changes that sweeps and pairs add to ``history``.

    Narrowing is taken to find the right commit.
    """
    findings: dict[int, int] = {}
    for head in range(SWEEP_EVERY, len(level), SWEEP_EVERY):
        within = range(head - SWEEP_EVERY + 1, head + 1)
        step = level[head] - level[head - SWEEP_EVERY]
        outcome.pairs += SWEEP_PAIRS
        comparison = settle_pairs(pairs_of(step, SWEEP_PAIRS, rng), smallest_effect=0.01, level=LEVEL, seed=1)
        if any(index in within for index in history) or comparison.p > SWEEP_DOUBT:
            continue
        if settle(step, comparison.ratio, rng, outcome):
            outcome.pairs += NARROWING * math.ceil(math.log2(SWEEP_EVERY))
            findings[next((change.index for change in changes if change.index in within), head)] = head
    return findings


def pairs_of(step: float, count: int, rng: np.random.Generator) -> list[tuple[float, float]]:
    """So many pairs of two commits with this change between them, as a logarithm."""
    noise = SIDE * math.sqrt(2) * rng.normal(size=count)
    return [(100.0, 100.0 * math.exp(step + deviation)) for deviation in noise]


def settle(step: float, suspected: float, rng: np.random.Generator, outcome: SplitResult) -> bool:
    """Whether pairs confirm a suspicion, of a true ``step``, by the looks of the workers."""
    pairs = pairs_of(step, LOOKS[-1], rng)
    for count in LOOKS:
        comparison = settle_pairs(pairs[:count], smallest_effect=0.01, level=LEVEL, seed=1, suspected=suspected)
        if comparison.answer is not ComparisonAnswer.UNKNOWN:
            break
    outcome.pairs += count
    return comparison.answer is ComparisonAnswer.DIFFERENT


def print_split(trials: Mapping[str, Sequence[RecordedTrial]], options: argparse.Namespace) -> None:
    noise = Deviations.of(trials)
    print("spread by window:", ", ".join(f"{window_s} s {noise.spread(window_s):.2%}" for window_s in WINDOWS_S))
    for spread in options.spreads:
        columns = ("trials", "s per commit", "hours per 100", "pairs of them", "recall", "precision", "delay")
        print(f"\n| trials of 1.5 s scatter by {spread:.0%} |", " | ".join(columns), "|")
        print("|---|" + "--:|" * len(columns))
        for split in SPLITS:
            outcome = SplitResult()
            for line in range(options.lines):
                play(split, noise.scaled_to(spread), options.seed + line, options.commits, outcome)
            print(row_of(split, outcome), flush=True)


def row_of(split: Split, outcome: SplitResult) -> str:
    """Of a whole suite of BENCHMARKS."""
    per_commit = BENCHMARKS * outcome.seconds / outcome.commits
    pairs_s = BENCHMARKS * BLOCK_S * outcome.pairs / outcome.commits
    confirmed = outcome.hits + outcome.false
    cells = (
        f"{outcome.trials / outcome.commits:.1f}",
        f"{per_commit:.0f}",
        f"{(per_commit + pairs_s) / 36:.1f}",
        f"{pairs_s / 36:.1f}",
        f"{outcome.hits} of {outcome.changes}",
        f"{outcome.hits / confirmed:.0%}" if confirmed else "–",
        f"{median(outcome.delays):.0f}" if outcome.delays else "–",
    )
    return f"| {split.name} | " + " | ".join(cells) + " |"


if __name__ == "__main__":
    main()
