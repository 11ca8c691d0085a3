"""The native driver `speedbench`: its workload document, its command line, its exit status."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runners.documents import Benchmark
from runners.errors import BenchmarkFailed, Permanent, Transient
from runners.loads.driver_document import EVENTS, check_tests, read_document, read_duel, read_outcome
from runners.loads.recordings import Recordings, recording_options
from runners.loads.target import NO_CPU, LoadOutcome, Target, last_line
from runners.machine.kernel_files import cpu_list
from runners.processes.children import ChildCommand, Processes
from runners.processes.control import Control

WORKLOAD = "workload.json"
COUNTED = "count"  # how the names of phases begin whose answers matter
GRACE_S = 30.0  # to start, to drain and to write the document, on a slow machine
SLOWEST_CONNECTIONS_PER_S = 500.0  # opened, and answered once: a tenth of what a machine with ten times its work does
PREFILL_KEYS_PER_S = 5_000.0  # far below any server worth measuring
SLOWEST_REQUESTS_PER_S = 1_000.0
CLIENTS_PER_ADDRESS = 8_000  # over TCP: an address has some 28000 ports, and closed connections keep theirs for a while


@dataclass(frozen=True)
class Driver:
    """The driver program on its CPUs."""

    binary: Path
    processes: Processes
    cpus: frozenset[int]
    nodes: frozenset[int] = frozenset()
    recordings: Recordings = field(default=Recordings(Path("recordings")))

    def run(self, benchmark: Benchmark, target: Target, seed: int, control: Control) -> LoadOutcome:
        """Loads the server once.

        Raises BenchmarkFailed if the answers are wrong, or the driver refuses its workload or cannot measure,
        Transient if it was killed, crashed or hung or the server did not run in the window, Permanent if its document
        does not fit this runner.
        """
        (target.directory / WORKLOAD).write_text(json.dumps(workload_document(benchmark, target, self.cpus)))
        recording = recording_options(benchmark.workload, str(self.recordings.folder))
        argv = [str(self.binary), *driver_arguments(benchmark, target, seed, self.cpus), *recording]
        output, server_before = target.directory / "driver.json", target.cpu_ns()
        timeout_s = deadline_s(benchmark.workload) + self.recordings.reading_s(benchmark.workload)
        self._run(argv, target, output, timeout_s, control)
        if target.cpu_ns() == server_before:
            raise BenchmarkFailed(NO_CPU)
        return read_outcome(read_document(output), benchmark, len(phases(benchmark.workload, 1)))

    def send(
        self, benchmark: Benchmark, phases: list[dict[str, Any]], target: Target, seed: int, control: Control
    ) -> None:
        """Sends these phases for a benchmark. Answers to those that are not COUNTED may be errors. Raises as `run`."""
        (target.directory / WORKLOAD).write_text(json.dumps({"protocol": target.protocol, "phase": phases}))
        argv = [str(self.binary), *driver_arguments(benchmark, target, seed, self.cpus), "--allow-errors"]
        output = target.directory / "driver.json"
        self._run(argv, target, output, GRACE_S + benchmark.timeout_s, control)
        check_tests(read_document(output), benchmark, checked=COUNTED)

    def duel(self, benchmark: Benchmark, targets: Sequence[Target], seed: int, control: Control) -> list[LoadOutcome]:
        """Loads two servers, base and head, in slices that alternate; the outcome of each. Raises as `run`."""
        base, head = targets
        document = {"protocol": base.protocol, "phase": phases(benchmark.workload, 1)}
        (base.directory / WORKLOAD).write_text(json.dumps(document))
        argv = [str(self.binary), *duel_arguments(benchmark, base, head, seed, self.cpus)]
        output = base.directory / "driver.json"
        self._run(argv, base, output, 2 * deadline_s(benchmark.workload), control)
        return read_duel(read_document(output), benchmark)

    def prefill(self, benchmark: Benchmark, target: Target, seed: int, control: Control) -> None:
        """Sets every key of a workload once, and does nothing else. Raises as `run`."""
        self.run(only_prefill(benchmark), target, seed, control)

    def _run(self, argv: list[str], target: Target, output: Path, timeout_s: float, control: Control) -> None:
        directory, errors = target.directory, target.directory / "driver.err"
        environment, network = {"LANG": "C.UTF-8"}, target.address.network
        command = ChildCommand(argv, environment, directory, self.cpus, self.nodes, network=network)
        with output.open("wb") as stdout, errors.open("wb") as stderr:
            try:
                status = self.processes.run(command, control, timeout_s, stdout, stderr)
            except OSError as error:
                raise Permanent(f"the driver cannot be started: {error}: build it or set SPEEDTRACK_DRIVER") from error
        check_exit(status, timeout_s, last_line(errors))


def only_prefill(benchmark: Benchmark) -> Benchmark:
    """A benchmark that sets every key of another one's workload once, and does nothing else."""
    items = {key: benchmark.workload[key] for key in ("keys", "values", "prefill_request") if key in benchmark.workload}
    one_request = {"test": "get", "prefill": True, "clients": 1, "requests": 1, "warmup_s": 0.0}
    return replace(benchmark, workload=one_request | items)


def workload_document(benchmark: Benchmark, target: Target, cpus: frozenset[int]) -> dict[str, Any]:
    """The driver's input for a benchmark."""
    return {"protocol": target.protocol, "phase": phases(benchmark.workload, len(cpus))}


def phases(workload: Mapping[str, Any], cpus: int) -> list[dict[str, Any]]:
    """The phases of the driver's input: the set-up of the server, if any, and the measured phase."""
    phase = {"threads": min(cpus, workload["clients"])} | dict(workload)
    if "replay" in phase:  # the runner itself judges the errors of a recording
        phase["expect"] = {key: value for key, value in phase["expect"].items() if key != "errors"}
    setup = phase.pop("setup", None)
    if setup is None:
        return [phase]
    command = {"commands": [{"request": setup["request"]}], "requests": setup["times"]}
    return [
        {"name": "setup", "clients": 1, **command, "keys": workload["keys"], "values": workload["values"]},
        phase,
    ]


def driver_arguments(benchmark: Benchmark, target: Target, seed: int, cpus: frozenset[int]) -> list[str]:
    """The driver's command line; the workload is in a file in its directory."""
    server = ["--server-pid", str(target.pid), "--server-events", ",".join(EVENTS)]
    options = ["--seed", str(seed), "--cpus", cpu_list(cpus), *server, "--json"]
    return ["run", "--workload", WORKLOAD, *target.options, *source_options(benchmark, target), *options]


def source_options(benchmark: Benchmark, target: Target) -> list[str]:
    """Options with the source addresses of the connections, if one address has too few ports."""
    addresses = -(-benchmark.workload["clients"] // CLIENTS_PER_ADDRESS)
    if target.address.transport == "unix" or addresses < 2:
        return []
    return ["--source", f"127.0.0.1-127.0.0.{addresses}"]


def duel_arguments(benchmark: Benchmark, base: Target, head: Target, seed: int, cpus: frozenset[int]) -> list[str]:
    """The driver's command line for two servers; the workload is in a file in its directory."""
    servers = ["--base", base.place, "--head", head.place, "--base-pid", str(base.pid), "--head-pid", str(head.pid)]
    options = ["--server-events", ",".join(EVENTS), "--seed", str(seed), "--cpus", cpu_list(cpus), "--json"]
    return ["duel", "--workload", WORKLOAD, *servers, *source_options(benchmark, base), *options]


def deadline_s(workload: Mapping[str, Any]) -> float:
    """The time limit of the driver in seconds; a driver that runs longer hangs."""
    connecting_s = workload["clients"] / SLOWEST_CONNECTIONS_PER_S
    prefill_s = workload["keys"]["count"] / PREFILL_KEYS_PER_S if workload.get("prefill") else 0.0
    counted_s = workload.get("requests", 0) / SLOWEST_REQUESTS_PER_S
    warmup_s = workload.get("warmup_most_s", workload["warmup_s"])
    return float(GRACE_S + connecting_s + prefill_s + warmup_s + workload.get("duration_s", 0.0) + counted_s)


def check_exit(status: int | None, timeout_s: float, line: str) -> None:
    """Raises the error for the exit status of the driver process. A `status` of None is a timeout."""
    message = f": {line}" if line else "; it printed no message"
    match status:
        case 0:
            return
        case None:
            raise Transient(f"the driver did not end within {timeout_s:g} s{message}")
        case 1:
            raise BenchmarkFailed(f"the driver cannot measure{message}")
        case 2:
            raise BenchmarkFailed(f"the driver refuses its workload{message}: correct the suite")
        case negative if negative < 0:
            raise Transient(f"the driver was killed by signal {-negative}{message}")
        case code:
            raise Transient(f"the driver crashed with exit status {code}{message}")
