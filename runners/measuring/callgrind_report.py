"""The reports of callgrind: how many instructions each function executed itself, and below which callers.

The format is that of `callgrind.out` (valgrind manual, "Callgrind Format Specification"). Names are compressed: `(12)
name` gives a name its number, `(12)` uses it. A line after `calls=` is the cost of the callee, which its own lines have
already. With `--separate-callers` a name has the function and, after `'`, its callers from the nearest on; a number
after `'` is the depth of a recursion.
"""

import os
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from runners.errors import BenchmarkFailed
from runners.foreign import UnusableFile, read_lines
from runners.measuring.stacks import Stack, StackTable

PART = re.compile(r"\.(\d+)$")
_NAME = re.compile(r"(c?fn)=\((\d{1,18})\)(?: (.*))?")
_COST = re.compile(r"[+*\d-]\S* (\d{1,18})")
_ADDRESS = re.compile(r"0x[0-9a-f]+")  # of code without a symbol: it differs from build to build
UNKNOWN = "(unknown)"
# Of one load; a limit because a server may write there, too.
PARTS_LIMIT_BYTES, MOST_PARTS, MOST_NUMBERS, MOST_FRAMES = 32 << 20, 20_000, 100_000, 200


def stack_costs(lines: Iterable[str], table: StackTable) -> Counter[Stack]:
    """The instructions by stack: those of the last function alone, without its callees.

    Stacks begin at the outermost caller that the report has and end with the function; without `--separate-callers`
    they have only the function. Raises UnusableFile for more stacks than a server's report has.
    """
    stacks: dict[int, Stack] = {}
    costs: Counter[Stack] = Counter()
    stack: Stack = (UNKNOWN,)
    inclusive = False
    for line in lines:
        if match := _NAME.match(line):
            kind, number, name = match[1], int(match[2]), match[3]
            if name:
                stacks[number] = table.stack(stack_of(name))
                if len(stacks) > MOST_NUMBERS:
                    raise UnusableFile(f"it has more than {MOST_NUMBERS} stacks")
            if kind == "fn":
                stack = stacks.get(number, (UNKNOWN,))
        elif line.startswith("calls="):
            inclusive = True
        elif match := _COST.match(line):
            costs[stack] += 0 if inclusive else int(match[1])
            inclusive = False
    return +costs


def stack_of(name: str) -> Stack:
    frames = (frame for frame in reversed(name.split("'", MOST_FRAMES)[:MOST_FRAMES]) if not frame.isdecimal())
    return tuple(UNKNOWN if _ADDRESS.fullmatch(frame) else frame for frame in frames) or (UNKNOWN,)


def function_costs(stacks: Counter[Stack]) -> Counter[str]:
    """The instructions of each function, over all its callers."""
    costs: Counter[str] = Counter()
    for stack, cost in stacks.items():
        costs[stack[-1]] += cost
    return costs


def parts_of(report: Path) -> list[Path]:
    """The parts of a report so far, the oldest first:

    `report.1`, `report.2`, and in the end `report`. Raises BenchmarkFailed for more than a count can have.
    """
    numbered: list[tuple[int, Path]] = []
    with os.scandir(report.parent) as entries:
        for entry in entries:
            if entry.name.startswith(f"{report.name}.") and (match := PART.search(entry.name)):
                numbered.append((int(match[1]), Path(entry.path)))
                if len(numbered) > MOST_PARTS:
                    raise BenchmarkFailed(f"callgrind's report has more than {MOST_PARTS} parts")
    return [file for _, file in sorted(numbered)] + ([report] if report.is_file() and report.stat().st_size else [])


def cost_of_parts(files: Iterable[Path], table: StackTable) -> Counter[Stack]:
    """The instructions by stack over several parts of a report. Raises BenchmarkFailed."""
    total: Counter[Stack] = Counter()
    remaining = PARTS_LIMIT_BYTES
    try:
        for file in files:
            size = file.lstat().st_size
            total.update(stack_costs(read_lines(file, max(0, remaining)), table))
            remaining -= size
    except OSError as error:
        raise BenchmarkFailed(f"callgrind's report cannot be read: {error}") from error
    return total
