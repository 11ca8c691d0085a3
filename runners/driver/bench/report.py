"""The tables of a benchmark, as Markdown: all of them, and the short one of a page."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from machine import FOREIGN_LIMIT, STEAL_LIMIT, Quiet
from trials import BenchTrial

OURS, AGAIN, NULL = "speedbench", "speedbench again", "null server"
AS_MEMTIER = "speedbench memtier-benchmark"
# The largest allowed share of another client's CPU time per request, by pipeline.
CPU_TARGETS = {
    "redis-benchmark": {1: 0.65, 16: 0.60, 100: 0.50},
    "valkey-benchmark": {1: 0.65, 16: 0.60, 100: 0.50},
    "memtier": {1: 0.65, 16: 0.45, 100: 0.20},
}
# The smallest allowed multiples of redis-benchmark's rate over TCP, and of the real server's rate.
RATE_TARGETS = {("resp", "tcp", 1): 1.15}
CEILING_TARGET = 2.0
MEMORY_TARGET_BYTES = 200e6
MISSED = "MISS"


@dataclass(frozen=True)
class BenchResult:
    """The trials of one load, by client."""

    protocol: str
    transport: str
    pipeline: int
    trials: Mapping[str, Sequence[BenchTrial]]

    @property
    def server(self) -> str:
        return "redis" if self.protocol == "resp" else "memcached"

    @property
    def load(self) -> str:
        return f"{self.server}, {self.transport}, P{self.pipeline}"

    def others(self) -> list[str]:
        return [name for name in self.trials if name not in (OURS, NULL)]

    def middle(self, name: str, of: Callable[[BenchTrial], float]) -> float:
        return statistics.median(map(of, self.trials[name]))

    def ratios(self, name: str, beside: str, of: Callable[[BenchTrial], float]) -> list[float]:
        """The ratio of each round, without runs that took no longer than the start of their process."""
        pairs = (
            (of(subject), of(reference))
            for subject, reference in zip(self.trials[name], self.trials[beside], strict=True)
        )
        return sorted(subject / reference for subject, reference in pairs if subject > 0 and reference > 0)


@dataclass(frozen=True)
class Memory:
    """Peak resident memory of our client."""

    load: str
    connections: int
    peak_bytes: int
    target_bytes: float | None = None


def client_ns(trial: BenchTrial) -> float:
    return trial.client_ns


def rate(trial: BenchTrial) -> float:
    return trial.rate


def render(
    results: Sequence[BenchResult], memories: Sequence[Memory], facts: Mapping[str, str], method: str, quiet: Quiet
) -> str:
    sections = [
        f"{_machine(facts, quiet)}\n\n{method}",
        _section(
            "CPU time of the client per request", CPU_HEAD, (row for result in results for row in _cpu_rows(result))
        ),
        _section(
            "Rate drawn from the same server", RATE_HEAD, (row for result in results for row in _rate_rows(result))
        ),
        _section("The client's own ceiling", CEILING_HEAD, map(_ceiling_row, results)),
        _section("Memory of the client", MEMORY_HEAD, map(_memory_row, memories)),
    ]
    return "\n\n".join(sections) + "\n"


def summarise(results: Sequence[BenchResult], facts: Mapping[str, str], method: str, quiet: Quiet) -> str:
    """The table for docs/driver.md: CPU time per request and the ceiling, a missed target in bold."""
    head = (
        "load",
        "speedbench, ns",
        *(f"to {peer}" for peer in CPU_TARGETS),
        "as memtier, to itself",
        "null server's rate to the real server's",
    )
    table = _section("Client CPU time per request, and its ceiling", head, map(_summary_row, results))
    noise = [statistics.median(again) for result in results if (again := result.ratios(OURS, AGAIN, client_ns))]
    span = f"`{AGAIN}` gave {min(noise, default=math.nan):.2f} to {max(noise, default=math.nan):.2f}."
    return f"{_machine(facts, quiet)}\n\n{method}\n\n{table}\n\n{span} Bold: a target of `report.py` is missed.\n"


def _summary_row(result: BenchResult) -> Sequence[str]:
    peers = (
        _bold_if_missed(result.ratios(OURS, peer, client_ns), targets.get(result.pipeline), at_most=True)
        if peer in result.trials
        else ""
        for peer, targets in CPU_TARGETS.items()
    )
    as_memtier = result.ratios(AS_MEMTIER, OURS, client_ns) if AS_MEMTIER in result.trials else []
    front_end = f"{statistics.median(as_memtier):.2f}" if as_memtier else ""
    ceiling = _bold_if_missed(result.ratios(NULL, OURS, rate), CEILING_TARGET, at_most=False)
    return result.load, f"{result.middle(OURS, client_ns):.0f}", *peers, front_end, ceiling


def _bold_if_missed(ratios: Sequence[float], target: float | None, at_most: bool) -> str:
    middle, *_, verdict = _judged(ratios, target, at_most)
    return middle if verdict == MISSED else middle.strip("*")


JUDGED = ("ratio", "of rounds", "target", "")
CPU_HEAD = ("load", "other", "speedbench, ns", "other, ns", *JUDGED)
RATE_HEAD = (
    *("load", "other", "speedbench, req/s", "other, req/s", *JUDGED),
    *("server ns/req, speedbench", "server ns/req, other"),
)
CEILING_HEAD = ("load", "real server, req/s", "null server, req/s", *JUDGED, "real server's CPU time / client's")
MEMORY_HEAD = ("load", "connections", "peak, MB", "target", "")


def _cpu_rows(result: BenchResult) -> Iterable[Sequence[str]]:
    for peer in result.others():
        ours, theirs = (result.middle(name, client_ns) for name in (OURS, peer))
        target = CPU_TARGETS.get(peer, {}).get(result.pipeline)
        ratios = result.ratios(OURS, peer, client_ns)
        yield result.load, peer, f"{ours:.0f}", f"{theirs:.0f}", *_judged(ratios, target, at_most=True)


def _rate_rows(result: BenchResult) -> Iterable[Sequence[str]]:
    for peer in result.others():
        ours, theirs = (result.middle(name, rate) for name in (OURS, peer))
        key = (result.protocol, result.transport, result.pipeline)
        target = RATE_TARGETS.get(key) if peer == "redis-benchmark" else None
        server = [f"{result.middle(name, lambda trial: trial.server_ns):.0f}" for name in (OURS, peer)]
        cells = _judged(result.ratios(OURS, peer, rate), target, at_most=False)
        yield result.load, peer, f"{ours:,.0f}", f"{theirs:,.0f}", *cells, *server


def _ceiling_row(result: BenchResult) -> Sequence[str]:
    real, null = (result.middle(name, rate) for name in (OURS, NULL))
    cells = _judged(result.ratios(NULL, OURS, rate), CEILING_TARGET, at_most=False)
    cores = result.middle(OURS, lambda trial: trial.server_ns / trial.client_ns)
    return result.load, f"{real:,.0f}", f"{null:,.0f}", *cells, f"{cores:.1f}"


def _memory_row(memory: Memory) -> Sequence[str]:
    target = memory.target_bytes
    cells = ("", "") if target is None else (f"< {target / 1e6:.0f}", _word(memory.peak_bytes < target))
    return memory.load, f"{memory.connections:,}", f"{memory.peak_bytes / 1e6:.1f}", *cells


def _judged(ratios: Sequence[float], target: float | None, at_most: bool) -> tuple[str, str, str, str]:
    """The median of the rounds' ratios, their range, the target, and whether the median meets it."""
    if not ratios:
        return "unknown", "", "", ""
    middle = statistics.median(ratios)
    cells = (f"**{middle:.2f}**", f"{ratios[0]:.2f} to {ratios[-1]:.2f}")
    if target is None:
        return *cells, "", ""
    met = middle <= target if at_most else middle >= target
    return *cells, f"{'≤' if at_most else '≥'} {target:.2f}", _word(met)


def _word(met: bool) -> str:
    return "pass" if met else MISSED


def _section(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    rule = "|".join("---" for _ in head)
    lines = [f"| {' | '.join(cells)} |" for cells in rows]
    return "\n".join([f"**{title}**", "", f"| {' | '.join(head)} |", f"|{rule}|", *lines])


def _machine(facts: Mapping[str, str], quiet: Quiet) -> str:
    description = "; ".join(f"{name} {value}" for name, value in facts.items())
    state = (
        f"Load average {quiet.load_before:.1f} before, {quiet.load_after:.1f} after; other programs had "
        f"{quiet.foreign:.1%} of the two cores, the hypervisor {quiet.steal:.1%}."
    )
    if not quiet.is_quiet:
        state += (
            f" **Not a quiet machine** (limits {FOREIGN_LIMIT:.0%} and {STEAL_LIMIT:.0%}): rates and their ratios "
            "are not to be trusted, those of CPU time by a few percent."
        )
    return f"{description}.\n\n{state}"
