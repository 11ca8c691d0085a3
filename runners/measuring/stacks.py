"""Folded stacks, the input of a flame graph.

The form is that of Brendan Gregg's FlameGraph: one line per stack, its frames from the root on, joined by `;`, then a
space and its cost. Kernel functions end in `_[k]`.
"""

import re
from collections import Counter

MOST_STACKS, DEEPEST, LONGEST_NAME = 4_000, 120, 200
RARE = "(rare stacks)"
_CLONE = re.compile(r"(?:\.(?:isra|constprop|part|cold|lto_priv)(?:\.\d+)?)+$")  # differs from build to build

Stack = tuple[str, ...]


def function_frame(name: str) -> str:
    """The name of a function as a frame has it: the same for all copies that the compiler made of it."""
    return _CLONE.sub("", name).replace(";", ":")[:LONGEST_NAME]


def folded_text(stacks: Counter[Stack]) -> str:
    """The folded text, the costliest stack first; those beyond MOST_STACKS are combined in one line."""
    ordered = sorted(stacks.items(), key=lambda item: (-item[1], item[0]))
    rest = sum(cost for _, cost in ordered[MOST_STACKS:])
    lines = [f"{';'.join(stack)} {cost}\n" for stack, cost in ordered[:MOST_STACKS]]
    return "".join(lines) + (f"{RARE} {rest}\n" if rest else "")
