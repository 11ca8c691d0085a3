"""How steady the exact series is, and what it sees: instructions per request by fresh processes of one or two programs.

python research/exact.py SUITE PROGRAM [--other PROGRAM] [--processes 20] [--benchmarks get-p1 ...] [--seeds] [--save F]

SUITE: sample, redis, valkey or memcached; PROGRAM: its server. Counts the benchmarks of the suite as a run does, in
another order in each process, and prints for each benchmark the median, and the range and standard deviation as shares
of it. With --other the processes of both programs alternate, and the functions that cost more or less are listed. With
--seeds each process of a program has other random bytes, as when a suspicion is settled; without, all have those of a
commit's own count. --save keeps the counts in a file, and continues one.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import statistics
import sys
import tempfile
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from research.noise import LocalRunner, job
from runners.build import Artifact, Build
from runners.documents import Job, ServerRecipe, parse
from runners.measuring.counting import count_costs
from runners.measuring.countingprocess import Costs, Count
from runners.measuring.trials import TrialRunner
from speedtrack.benchmarks.definitions import Definition

SUITES = Path(__file__).resolve().parent.parent / "suites"
#: One process of a program: the count of each benchmark, and the CPU seconds that counting took.
Process = tuple[dict[str, Count], float]


def job_of(suite: str, names: list[str]) -> Job:
    """A job that counts these benchmarks of a suite; by default its whole default set."""
    definition = Definition.model_validate_json(json.dumps(tomllib.loads((SUITES / f"{suite}.toml").read_text())))
    server = definition.server.model_dump()
    server["command"] = re.sub(r"\{artifact:[^}]+\}", "{artifact:server}", server["command"])
    benchmarks = [
        section.work() | {"name": section.name, "digest": "sha256:0", "inside": inside}
        for section in definition.benchmark
        if (inside := definition.functions_of(section)) and (section.name in names or not names)
    ]
    for benchmark in benchmarks:
        benchmark["workload"].pop("rate", None)  # a share of another benchmark's, which a count does not have
    return replace(job("redis", ("head",), benchmarks), server=parse(ServerRecipe, server, "suite"))


def with_program(runner: TrialRunner, program: Path) -> TrialRunner:
    artifact = Artifact("sha256:0", 0, 0, program)
    runner.builds["head"] = Build("head", "0" * 40, True, 0.0, "", {"server": artifact})
    return runner


def cpu_s() -> float:
    """The CPU seconds of this process and of all that it has waited for."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def process_of(runner: TrialRunner, number: int, seed: int) -> Process:
    """Counts all benchmarks of the job in an order of this process's own."""
    benchmarks, began_s = runner.job.benchmarks, cpu_s()
    order = Random(number).sample(benchmarks, len(benchmarks))
    costs = count_costs(runner, order, "head", seed)
    for name, cause in costs.items():
        if not isinstance(cause, Costs):
            print(f"process {number}: {name} is not countable, because {cause}", flush=True)
    return {name: cost.count() for name, cost in costs.items() if isinstance(cost, Costs)}, cpu_s() - began_s


def report(program: Path, processes: list[Process]) -> None:
    seconds = statistics.median(seconds for _, seconds in processes)
    print(f"{program.name}: {len(processes)} processes, {seconds:.1f} s of CPU each")
    print("| benchmark | instructions | range | standard deviation |\n|---|---|---|---|")
    for name in sorted(processes[0][0]):
        values = [counts[name].per_request for counts, _ in processes if name in counts]
        middle = statistics.median(values)
        widest, spread = (max(values) - min(values)) / middle, statistics.pstdev(values) / middle
        print(f"| {name} | {middle:.1f} | {widest:.3%} | {spread:.3%} |")


def compare(base: list[Process], head: list[Process]) -> None:
    for name in sorted(base[0][0]):
        old, new = (
            statistics.median(counts[name].per_request for counts, _ in processes) for processes in (base, head)
        )
        print(f"{name}: other against program {new / old - 1:+.3%}")
        growth: dict[str, float] = {}
        for sign, processes in ((-1, base), (1, head)):
            for function, cost in processes[0][0][name].functions.items():
                growth[function] = growth.get(function, 0.0) + sign * cost
        for function in sorted(growth, key=lambda function: -abs(growth[function]))[:8]:
            print(f"  {function}: {growth[function]:+.1f}")


def saved(file: Path | None) -> dict[str, list[Process]]:
    """The counts of a file, by program."""
    if file is None or not file.exists():
        return {}
    by_program = json.loads(file.read_text())
    return {
        program: [({name: Count(**count) for name, count in counts.items()}, seconds) for counts, seconds in processes]
        for program, processes in by_program.items()
    }


def save(file: Path, by_program: dict[str, list[Process]]) -> None:
    document = {
        program: [({name: asdict(count) for name, count in counts.items()}, seconds) for counts, seconds in processes]
        for program, processes in by_program.items()
    }
    file.write_text(json.dumps(document))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", choices=["sample", "redis", "valkey", "memcached"])
    parser.add_argument("program", type=Path)
    parser.add_argument("--other", type=Path)
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--benchmarks", nargs="*", default=[])
    parser.add_argument("--seeds", action="store_true")
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    programs = [path.resolve() for path in (options.program, options.other) if path]
    by_program = saved(options.save)
    job_counted = job_of(options.suite, options.benchmarks)
    with tempfile.TemporaryDirectory() as room:
        local = LocalRunner(Path(room), options.program, "")
        for number in range(options.processes):
            for program in programs:
                processes = by_program.setdefault(str(program), [])
                if len(processes) <= number:
                    runner = with_program(local.runner(job_counted, {}, 1), program)
                    processes.append(process_of(runner, number, number if options.seeds else 0))
                    print(f"{program.name} {number + 1}: {processes[-1][1]:.1f} s of CPU", flush=True)
                    if options.save:
                        save(options.save, by_program)
    for program in programs:
        report(program, by_program[str(program)])
    if options.other:
        compare(*(by_program[str(program)] for program in programs))


if __name__ == "__main__":
    main()
