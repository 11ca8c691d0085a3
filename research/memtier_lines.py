"""Count the memtier lines of a suite in YAML that ``speedbench`` takes: ``python -m research.memtier_lines FOLDER``.

The folder is ``redis_benchmarks_specification/test-suites`` of a checkout of redis-benchmarks-specification. Each line
is shown to the front end with a server that is not there: what it does not understand it refuses before it connects.
"""

import argparse
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from research.peer_suites import SPEEDBENCH

TOOL = "memtier_benchmark"
NO_SERVER = ("--unix-socket", "/nonexistent/socket")
REFUSED, UNREACHABLE = 2, 1  # exit codes
LIMIT_S = 60


def lines_in(node: Any) -> Iterator[str]:
    """The arguments of memtier anywhere in a document, in its order."""
    if isinstance(node, dict):
        if node.get("tool") == TOOL and "arguments" in node:
            yield str(node["arguments"])
        for inner in node.values():
            yield from lines_in(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from lines_in(inner)


def refusal(line: str, program: Path = SPEEDBENCH) -> str | None:
    """Why the front end of memtier does not take a line; None if it does. Raises ValueError for other ends."""
    try:
        options = shlex.split(line)
    except ValueError as error:
        return f"no shell could split it: {error}"
    argv = [str(program), "memtier-benchmark", *options, *NO_SERVER]
    process = subprocess.run(
        argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=False
    )
    last_line = (process.stderr.strip().splitlines() or [""])[-1]
    if process.returncode == REFUSED:
        return last_line
    if process.returncode != UNREACHABLE or "cannot connect" not in last_line:
        raise ValueError(f"exit code {process.returncode} of {shlex.join(argv)}: {last_line}")
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="of the suites")
    parser.add_argument("--speedbench", type=Path, default=SPEEDBENCH, metavar="PROGRAM", help="the program to try")
    arguments = parser.parse_args()
    line_count = accepted_count = 0
    for file in sorted(arguments.folder.glob("*.yml")):
        for line in lines_in(yaml.safe_load(file.read_text())):
            line_count += 1
            if cause := refusal(line, arguments.speedbench.resolve()):
                print(f"{file.name}: {cause}\n    {line}")
            else:
                accepted_count += 1
    print(f"{accepted_count} of {line_count} lines are taken")


if __name__ == "__main__":
    main()
