"""The reports of callgrind: how many instructions each function executed itself, and below which callers.

The format is that of `callgrind.out` (valgrind manual, "Callgrind Format Specification"). Names are compressed:
`(12) name` gives a name its number, `(12)` uses it. A line after `calls=` is what the callee cost, which is in the
callee's own costs already. With `--separate-callers` a name is that of the function and, after `'`, of its callers from
the nearest on; a number after `'` is the depth of a recursion.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from runners.errors import BenchmarkFailed
from runners.foreign import UnusableFile, read_lines
from runners.measuring.stacks import Stack

PART = re.compile(r"\.(\d+)$")
_NAME = re.compile(r"(c?fn)=\((\d+)\)(?: (.*))?")
_COST = re.compile(r"[+*\d-]\S* (\d{1,18})")
_ADDRESS = re.compile(r"0x[0-9a-f]+")  # of code without a symbol: another one in each build
UNKNOWN = "(unknown)"
# Of one load: a server may write there, too.
PARTS_LIMIT_BYTES, MOST_STACKS, MOST_FRAMES = 32 << 20, 50_000, 200


def stack_costs(lines: Iterable[str]) -> Counter[Stack]:
    """The instructions by stack: of the last function alone, without those of what it called.

    Stacks begin at the outermost caller that the report has and end with the function; without `--separate-callers`
    they are only the function.
    """
    stacks: dict[str, Stack] = {}
    costs: Counter[Stack] = Counter()
    stack: Stack = (UNKNOWN,)
    inclusive = False
    for line in lines:
        if match := _NAME.match(line):
            kind, number, name = match.groups()
            if name:
                stacks[number] = stack_of(name)
                if len(stacks) > MOST_STACKS:
                    raise UnusableFile(f"it has more than {MOST_STACKS} stacks")
            if kind == "fn":
                stack = stacks.get(number, (UNKNOWN,))
        elif line.startswith("calls="):
            inclusive = True
        elif match := _COST.match(line):
            costs[stack] += 0 if inclusive else int(match[1])
            inclusive = False
    return +costs


def stack_of(name: str) -> Stack:
    frames = (one for one in reversed(name.split("'", MOST_FRAMES)[:MOST_FRAMES]) if not one.isdecimal())
    return tuple(UNKNOWN if _ADDRESS.fullmatch(one) else one for one in frames) or (UNKNOWN,)


def function_costs(stacks: Counter[Stack]) -> Counter[str]:
    """The instructions of each function, over all its callers."""
    costs: Counter[str] = Counter()
    for stack, cost in stacks.items():
        costs[stack[-1]] += cost
    return costs


def parts_of(report: Path) -> list[Path]:
    """The parts of a report that were written so far, the oldest first:

    `report.1`, `report.2`, and in the end `report`.
    """
    numbered = [
        (int(match[1]), file) for file in report.parent.glob(f"{report.name}.*") if (match := PART.search(file.name))
    ]
    return [file for _, file in sorted(numbered)] + ([report] if report.is_file() and report.stat().st_size else [])


def cost_of_parts(parts: Iterable[Path]) -> Counter[Stack]:
    """The instructions by stack over several parts of a report."""
    total: Counter[Stack] = Counter()
    left = PARTS_LIMIT_BYTES
    try:
        for part in parts:
            size = part.lstat().st_size
            total.update(stack_costs(read_lines(part, max(0, left))))
            left -= size
    except UnusableFile as error:
        raise BenchmarkFailed(f"callgrind's report cannot be read: {error}") from error
    return total
