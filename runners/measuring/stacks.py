"""Folded stacks, the input of a flame graph.

The form is that of Brendan Gregg's FlameGraph: one line per stack, its frames from the root on, joined by `;`, then a
space and its cost. Kernel functions end in `_[k]`.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable

from runners.foreign import UnusableFile, size_text

MOST_STACKS, DEEPEST, LONGEST_NAME = 4_000, 120, 200
MOST_TEXT = 8_000_000 - 100  # characters of a folded text: the server's limit, less the line of RARE
RARE = "(rare stacks)"
TABLE_BYTES = 64 << 20  # of a table of stacks: the 22,451 stacks of a report of Redis need less than 40 MB
ENTRY_BYTES, COSTS_BYTES = 100, 400  # of a dict for one key, and of the costs of a stack in four loads
_CLONE = re.compile(r"(?:\.(?:isra|constprop|part|cold|lto_priv)(?:\.\d+)?)+$")  # differs from build to build

Stack = tuple[str, ...]


def function_frame(name: str) -> str:
    """The name of a function in a frame: the same for all copies that the compiler made of it."""
    return _CLONE.sub("", name).replace(";", ":")[:LONGEST_NAME]


class StackTable:
    """The distinct stacks of reports on foreign code; each stack and each frame is stored once, up to TABLE_BYTES."""

    def __init__(self) -> None:
        self._frames: dict[str, str] = {}
        self._stacks: dict[Stack, Stack] = {}
        self._size_bytes = 0

    def stack(self, frames: Iterable[str]) -> Stack:
        """The stack of these frames. Raises UnusableFile when the table would be larger than TABLE_BYTES."""
        stack = tuple(self._frame(frame) for frame in frames)
        if (existing := self._stacks.get(stack)) is not None:
            return existing
        self._grow(sys.getsizeof(stack) + ENTRY_BYTES + COSTS_BYTES)
        self._stacks[stack] = stack
        return stack

    def _frame(self, frame: str) -> str:
        if frame not in self._frames:
            self._grow(sys.getsizeof(frame) + ENTRY_BYTES)
            self._frames[frame] = frame
        return self._frames[frame]

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        if self._size_bytes > TABLE_BYTES:
            raise UnusableFile(f"its different stacks take more than {size_text(TABLE_BYTES)}")


def folded_text(stacks: Counter[Stack]) -> str:
    """The folded text, the costliest stack first; those beyond MOST_STACKS and MOST_TEXT are combined in one line."""
    lines: list[str] = []
    room, rare_cost = MOST_TEXT, 0
    for stack, cost in sorted(stacks.items(), key=lambda item: (-item[1], item[0])):
        line = f"{';'.join(stack)} {cost}\n"
        if len(lines) < MOST_STACKS and len(line) <= room:
            lines.append(line)
            room -= len(line)
        else:
            rare_cost += cost
    return "".join(lines) + (f"{RARE} {rare_cost}\n" if rare_cost else "")
