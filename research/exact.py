"""How steady the exact series is, and what it sees: instructions per request by fresh processes of one or two programs.

python research/exact.py SERVER PROGRAM [--other PROGRAM] [--processes 20] [--test get] [--keys 100000] [--seeds]

SERVER: kvd, redis, valkey or memcached; PROGRAM: its binary. Counts as a run does, with the functions of the server's
suite. With --other the processes of both programs alternate, and the functions that cost more or less are listed. With
--seeds each process of a program has other random bytes, as when a suspicion is settled; without, all have those of a
commit's own count.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import tomllib
from dataclasses import replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from research.noise import LocalRunner, benchmark, job
from runners.build import Artifact, Build
from runners.measuring.counting import Count, count_instructions
from runners.measuring.trials import TrialRunner

SUITES = Path(__file__).resolve().parent.parent / "suites"
SUITE = {"kvd": "sample"}  # where the suite has another name than the server
STARTED_AS = {"valkey": "redis"}  # where a server takes the options of another one


def functions_of(server: str) -> tuple[str, ...]:
    """The functions that the server's suite counts inside."""
    name = SUITE.get(server, server)
    suite = tomllib.loads((SUITES / f"{name}.toml").read_text())
    return tuple(suite.get("instructions", {}).get("inside", ()))


def with_programs(runner: TrialRunner, programs: dict[str, Path]) -> TrialRunner:
    for side, path in programs.items():
        runner.builds[side] = Build(side, "0" * 40, True, 0.0, "", {"server": Artifact(f"sha256:{side}", 0, 0, path)})
    return runner


def report(name: str, counts: list[Count], seconds: list[float]) -> None:
    values = [one.per_request for one in counts]
    middle = statistics.median(values)
    spread = statistics.stdev(values) / middle if len(values) > 1 else 0.0
    print(
        f"{name}: {len(values)} processes, median {middle:.2f} instructions per request inside of {counts[0].inside}, "
        f"range {(max(values) - min(values)) / middle:.3%}, standard deviation {spread:.3%}, "
        f"{statistics.median(seconds):.1f} s each"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server", choices=["kvd", "redis", "valkey", "memcached"])
    parser.add_argument("program", type=Path)
    parser.add_argument("--other", type=Path)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--test", default="get")
    parser.add_argument("--seeds", action="store_true")
    parser.add_argument("--keys", type=int, default=100_000)
    options = parser.parse_args()
    options.warmup, options.seconds = 0.0, 1.0
    server = STARTED_AS.get(options.server, options.server)
    asked = job(server, ("base", "head"), [benchmark(options.test, options.test, 16, options)])
    if options.server == "memcached":  # in valgrind it cannot lower its limit of open files
        asked = replace(asked, server=replace(asked.server, command=f"{asked.server.command} -c 4096"))
    one = replace(asked.benchmarks[0], inside=functions_of(options.server))
    programs = {"base": options.program.resolve()}
    if options.other:
        programs["head"] = options.other.resolve()
    counts: dict[str, list[Count]] = {side: [] for side in programs}
    seconds: dict[str, list[float]] = {side: [] for side in programs}
    with tempfile.TemporaryDirectory() as room:
        runner = with_programs(LocalRunner(Path(room), options.program, "").runner(asked, {}, 1), programs)
        order = Random(1)
        for number in range(options.processes):
            for side in order.sample(list(programs), len(programs)):
                begin = time.monotonic()
                counts[side].append(count_instructions(runner, one, side, number if options.seeds else 0))
                seconds[side].append(time.monotonic() - begin)
                print(f"{side} {counts[side][-1].per_request:.2f}", flush=True)
    for side in programs:
        report(str(programs[side].name), counts[side], seconds[side])
    if options.other:
        compare(counts)


def compare(counts: dict[str, list[Count]]) -> None:
    base, head = (statistics.median(one.per_request for one in counts[side]) for side in ("base", "head"))
    ratios = [b.per_request / a.per_request - 1 for a, b in zip(counts["base"], counts["head"], strict=True)]
    print(f"head against base: {head / base - 1:+.3%}, pairs {min(ratios):+.3%} to {max(ratios):+.3%}")
    names = {name for side in counts.values() for one in side for name in one.functions}
    cost = {
        side: {name: statistics.median(one.functions.get(name, 0.0) for one in counts[side]) for name in names}
        for side in counts
    }
    for name in sorted(names, key=lambda name: -abs(cost["head"][name] - cost["base"][name]))[:8]:
        print(f"  {name}: {cost['base'][name]:.1f} to {cost['head'][name]:.1f}")


if __name__ == "__main__":
    main()
