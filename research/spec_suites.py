"""Play suites of redis-benchmarks-specification with memtier and with ``speedbench``, and compare what a server counts.

``python -m research.spec_suites FOLDER --memtier PROGRAM --redis-server PROGRAM``. The folder is
``redis_benchmarks_specification/test-suites`` of a checkout. Each suite that needs one server and memtier alone is
played twice on a new server, scaled down (LARGEST): its first commands, its preload and its load. The same is: equal
exit codes; and of each command calls and failures, and of the database keys, that differ by DRAWN at most, because the
programs draw keys of their own.
"""

import argparse
import shlex
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import redis
import yaml
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from research.memtier_lines import TOOL
from research.peer_suites import SPEEDBENCH
from runners.servers.server import free_port

REQUESTS = 40  # of each connection
LIMIT_S = 60
DRAWN = 0.1
FEW = 3  # so many more or fewer say nothing
SHOWN = 300  # characters of an error
PHASES = ("preload", "load")
#: The largest value of an option; each name with its short form.
LARGEST = {
    ("--key-maximum",): 1000,
    ("--key-minimum",): 1,
    ("--clients", "-c"): 10,
    ("--threads", "-t"): 2,
    ("--data-size", "-d"): 10_000,
    ("--requests", "-n"): REQUESTS,
}
LIMITS = {name: largest for names, largest in LARGEST.items() for name in names}
UNLIMITED = {"--test-time", "--rate-limiting"}  # what bounds a load in time
#: What a server counts, but no load calls.
OWN_COMMANDS = {"info", "config|resetstat", "client|setinfo"}


@dataclass(frozen=True)
class Served:
    """What a server had counted in the end: by command, of the preload and of the load, ``(calls, failures)``."""

    exit_codes: tuple[int, ...]
    counts: dict[str, tuple[int, int]] = field(default_factory=dict)
    keys: int = 0


def scaled(arguments: str) -> list[str]:
    """The options of a line of memtier with small numbers. Raises ValueError for what no shell could split."""
    options, remaining = [], iter(shlex.split(arguments))
    for argument in remaining:
        name, equals, value = argument.partition("=")
        if name not in LIMITS and name not in UNLIMITED:
            options.append(argument)
            continue
        value = value if equals else next(remaining, "")
        if name in LIMITS:
            options += [name, str(min(int(value), LIMITS[name])) if value.isdecimal() else value]
    return options if {"-n", "--requests"} & set(options) else [*options, "-n", str(REQUESTS)]


def lines_of(suite: dict[str, Any]) -> list[str] | None:
    """The lines of memtier of a suite: of its preload, if it has one, and of its load; None if it needs more."""
    database, load = suite.get("dbconfig", {}), suite.get("clientconfig", {})
    tools = [database["preload_tool"], load] if "preload_tool" in database else [load]
    is_playable = "dataset" not in database and all(tool.get("tool") == TOOL for tool in tools)
    return [str(tool["arguments"]) for tool in tools] if is_playable else None


def first_commands(suite: dict[str, Any]) -> Iterator[list[str]]:
    for command in suite.get("dbconfig", {}).get("init_commands") or ():
        yield shlex.split(command) if isinstance(command, str) else list(map(str, command))


def play(suite: dict[str, Any], lines: list[str], program: list[str], server: Path) -> Served:
    """Play a suite on a server of its own. Raises subprocess.TimeoutExpired."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="spec-suites-") as room:
        command = [str(server), "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", room]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            try:
                return play_on(port, suite, [[*program, *scaled(line), "-p", str(port)] for line in lines])
            finally:
                process.kill()


def play_on(port: int, suite: dict[str, Any], runs: list[list[str]]) -> Served:
    retry = Retry(ConstantBackoff(0.1), 50)  # until it listens
    with redis.Redis(port=port, retry=retry) as client:
        client.ping()
        for command in first_commands(suite):
            client.execute_command(*command)
        counts: dict[str, tuple[int, int]] = {}
        exit_codes = []
        for phase, argv in zip(PHASES[-len(runs) :], runs, strict=True):
            client.config_resetstat()
            process = subprocess.run(
                [*argv, "-s", "127.0.0.1"], stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False
            )
            exit_codes.append(process.returncode)
            counts |= {f"{command} of the {phase}": numbers for command, numbers in command_counts(client)}
        return Served(tuple(exit_codes), counts, client.dbsize())


def command_counts(client: "redis.Redis") -> Iterator[tuple[str, tuple[int, int]]]:
    for name, stats in client.info("commandstats").items():
        command = name.removeprefix("cmdstat_")
        if command not in OWN_COMMANDS:
            yield command, (stats["calls"], stats["rejected_calls"] + stats["failed_calls"])


def differences(real: Served, own: Served) -> Iterator[str]:
    """What the server saw otherwise, as ``GET of the load: 400 calls, 300``."""
    if real.exit_codes != own.exit_codes:
        yield f"exit codes: {real.exit_codes}, {own.exit_codes}"
    for name in sorted(real.counts | own.counts):
        (calls, failures), (own_calls, own_failures) = (side.counts.get(name, (0, 0)) for side in (real, own))
        for kind, there, here in (("calls", calls, own_calls), ("failures", failures, own_failures)):
            if not is_alike(there, here):
                yield f"{name}: {there} {kind}, {here}"
    if not is_alike(real.keys, own.keys):
        yield f"keys: {real.keys}, {own.keys}"


def is_alike(there: int, here: int) -> bool:
    return abs(there - here) <= max(FEW, DRAWN * max(there, here))


def compare(file: Path, programs: tuple[list[str], list[str]], server: Path) -> str:
    """Print in what a suite differs. Returns ``alike``, ``differ``, ``left out`` or ``broken``, for counting."""
    suite = yaml.safe_load(file.read_text())
    lines = lines_of(suite)
    if lines is None:
        return "left out"
    try:
        real, own = (play(suite, lines, program, server) for program in programs)
    except (ValueError, subprocess.TimeoutExpired, redis.ResponseError) as error:
        print(f"{file.name}: {' '.join(str(error).split())[:SHOWN]}", flush=True)
        return "broken"
    messages = list(differences(real, own))
    for message in messages:
        print(f"{file.name}: {message}", flush=True)
    return "differ" if messages else "alike"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the suites")
    parser.add_argument("--memtier", type=Path, required=True, metavar="PROGRAM", help="the real one")
    parser.add_argument("--redis-server", type=Path, required=True, metavar="PROGRAM")
    parser.add_argument("--speedbench", type=Path, default=SPEEDBENCH, metavar="PROGRAM", help="the program to try")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only each N-th suite")
    arguments = parser.parse_args()
    programs = [str(arguments.memtier.resolve())], [str(arguments.speedbench.resolve()), "memtier-benchmark"]
    files = sorted(arguments.folder.glob("*.yml"))[:: arguments.every]
    outcomes = Counter(compare(file, programs, arguments.redis_server.resolve()) for file in files)
    print(", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common()))


if __name__ == "__main__":
    main()
