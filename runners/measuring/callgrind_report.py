"""The reports of callgrind: how many instructions each function executed itself.

The format is that of `callgrind.out` (valgrind manual, "Callgrind Format Specification"). Names are compressed:
`(12) name` gives a name its number, `(12)` uses it. A line after `calls=` is what the callee cost, which is in the
callee's own costs already.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

PART = re.compile(r"\.(\d+)$")
_NAME = re.compile(r"(c?fn)=\((\d+)\)(?: (.*))?")
_COST = re.compile(r"[+*\d-]\S* (\d+)")
_CYCLE = re.compile(r"'\d+$")  # the depth of a recursion
UNKNOWN = "(unknown)"


def function_costs(lines: Iterable[str]) -> Counter[str]:
    """The instructions of each function, without those of the functions that it called."""
    names: dict[str, str] = {}
    costs: Counter[str] = Counter()
    function, inclusive = UNKNOWN, False
    for line in lines:
        if match := _NAME.match(line):
            kind, number, name = match.groups()
            if name:
                names[number] = _CYCLE.sub("", name)
            if kind == "fn":
                function = names.get(number, UNKNOWN)
        elif line.startswith("calls="):
            inclusive = True
        elif match := _COST.match(line):
            costs[function] += 0 if inclusive else int(match[1])
            inclusive = False
    return +costs


def parts_of(report: Path) -> list[Path]:
    """The parts of a report that were written so far, the oldest first: `report.1`, `report.2`, at the end `report`."""
    numbered = [
        (int(match[1]), file) for file in report.parent.glob(f"{report.name}.*") if (match := PART.search(file.name))
    ]
    return [file for _, file in sorted(numbered)] + ([report] if report.exists() and report.stat().st_size else [])


def cost_of_parts(parts: Iterable[Path]) -> Counter[str]:
    """The instructions of each function over several parts of a report."""
    total: Counter[str] = Counter()
    for part in parts:
        with part.open(errors="replace") as lines:
            total.update(function_costs(lines))
    return total
