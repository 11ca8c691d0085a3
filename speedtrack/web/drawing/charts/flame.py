"""Differential flame graphs: two profiles as one drawing, and the functions whose cost differs most.

A cost is CPU time per request, or instructions per request, as a share of the base's total: with shares of each
profile's own total, one slower function would make all others look faster. The server draws the graph, with lengths in
per cent: it fits any width without a style, and each frame is a link to the same page zoomed in.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from speedtrack.benchmarks import numbers
from speedtrack.stats.comparing.compare import LEVEL
from speedtrack.stats.comparing.samples import differing_counts

ROW = 19  # height of a frame in pixels, with its gap
MOST_ROWS, MOST_FRAMES, LEAST_WIDTH = 48, 500, 0.15  # per cent
LABELLED = 2.0  # per cent: narrower frames show no name
STEPS = (0.01, 0.04, 0.12)  # above each a difference gets a stronger colour; below the first it is noise
FUNCTIONS, LEAST_DIFFERENCE = 15, 0.0005


@dataclass(frozen=True)
class Quantity:
    """What the widths of a graph's boxes mean, and its unit."""

    unit: str
    of_request: str
    more: str
    less: str


TIME = Quantity("ns", "CPU time", "more time", "less")
INSTRUCTIONS = Quantity("instructions", "instructions", "more instructions", "fewer")


@dataclass(frozen=True)
class Stacks:
    """One side: its folded stacks, and the ns of CPU time or instructions per request (None: unknown)."""

    folded: str
    per_request: float | None


@dataclass
class FlameNode:
    """A function in a stack, with all that it called.

    Costs are shares of the base's total. ``number``: its place in the tree.
    """

    name: str
    base: float = 0.0
    head: float = 0.0
    number: int = 0
    children: dict[str, "FlameNode"] = field(default_factory=dict)

    def walk(self) -> Iterator["FlameNode"]:
        yield self
        for child in self.ordered():
            yield from child.walk()

    def ordered(self) -> list["FlameNode"]:
        return sorted(self.children.values(), key=lambda node: (-node.head, node.name))


@dataclass(frozen=True)
class Frame:
    """One box of the drawing; ``x`` and ``width`` in per cent, ``y`` in pixels."""

    number: str
    name: str
    title: str
    x: str
    width: str
    y: int
    colour: str
    labelled: bool


@dataclass(frozen=True)
class Function:
    """The cost of a function itself, without the functions that it calls."""

    name: str
    before: str
    after: str
    difference: str
    growth: float  #: as a share of the base's total

    @property
    def is_slowdown(self) -> bool:
        return self.growth > 0


@dataclass(frozen=True)
class Flame:
    """``functions``: those that changed, of ``function_count`` that either side has."""

    frames: list[Frame]
    functions: list[Function]
    function_count: int
    zoomed: str
    height: int
    quantity: Quantity
    unit: str

    @classmethod
    def of(cls, base: Stacks, head: Stacks, zoom: int = 0, quantity: Quantity = TIME) -> "Flame":
        """The drawing of two profiles; ``zoom``: the number of the frame that fills the width."""
        costs = SampleCosts.of(base, head, quantity)
        root = tree(base, head, costs)
        path = path_to(root, zoom) or [root]
        frames = list(frames_of(path, costs))
        height = max(frame.y for frame in frames) + ROW
        zoomed = path[-1].name if len(path) > 1 else ""
        return cls(frames, *changed_functions(base, head, costs), zoomed, height, quantity, costs.unit)


@dataclass(frozen=True)
class SampleCosts:
    """The cost of one sample of each side, as a share of the base's total; and that total per request, if known."""

    base: float
    head: float
    ratio: float
    base_total: float | None
    quantity: Quantity

    @classmethod
    def of(cls, base: Stacks, head: Stacks, quantity: Quantity) -> "SampleCosts":
        has_totals = base.per_request and head.per_request
        ratio = head.per_request / base.per_request if has_totals else 1.0  # type: ignore[operator]
        totals = [sum(count for _, count in parse_folded(side.folded)) or 1 for side in (base, head)]
        return cls(1 / totals[0], ratio / totals[1], ratio, base.per_request if has_totals else None, quantity)

    def function(self, name: str, before: float, after: float) -> Function:
        """A function's own costs in the unit of the quantity; without known totals as shares."""
        growth = after - before
        if self.base_total is None:
            return Function(name, f"{before:.1%}", f"{after:.1%}", signed_percent(growth), growth)
        old, new = (f"{cost * self.base_total:,.0f}" for cost in (before, after))
        difference = f"{growth * self.base_total:+,.0f}".replace("-", numbers.MINUS)
        return Function(name, old, new, f"{difference} ({signed_percent(growth)})", growth)

    @property
    def unit(self) -> str:
        return self.quantity.unit if self.base_total else "share"

    def cost_text(self, cost: float, total: float) -> str:
        """A cost as a share of its own side's total, and in the unit if the total is known."""
        amount = "" if self.base_total is None else f", {cost * self.base_total:,.0f} {self.quantity.unit}"
        return f"{cost / total:.1%}{amount}"

    def before(self, cost: float) -> str:
        return self.cost_text(cost, 1.0)

    def after(self, cost: float) -> str:
        return self.cost_text(cost, self.ratio)


def parse_folded(folded: str) -> Iterator[tuple[list[str], int]]:
    for line in folded.splitlines():
        stack, _, count = line.rpartition(" ")
        if stack and count.isdigit():
            yield stack.split(";"), int(count)


def tree(base: Stacks, head: Stacks, costs: SampleCosts) -> FlameNode:
    root = FlameNode("all")
    for stack, count in parse_folded(base.folded):
        for node in nodes_along(root, stack):
            node.base += count * costs.base
    for stack, count in parse_folded(head.folded):
        for node in nodes_along(root, stack):
            node.head += count * costs.head
    for number, node in enumerate(root.walk()):
        node.number = number
    return root


def nodes_along(root: FlameNode, stack: Iterable[str]) -> Iterator[FlameNode]:
    """The nodes of a stack, from the root on; those that are missing are made."""
    yield root
    for name in stack:
        root = root.children.setdefault(name, FlameNode(name))
        yield root


def path_to(root: FlameNode, number: int) -> list[FlameNode] | None:
    """The nodes from the root to the one with this number; None if the head has none with it."""
    path = [root]
    while path[-1].number != number:
        below = [child for child in path[-1].ordered() if child.number <= number]
        if not below:
            return None
        path.append(below[-1])
    return path if path[-1].head > 0 else None


def frames_of(path: list[FlameNode], costs: SampleCosts) -> Iterator[Frame]:
    """The frames, row by row: those of the path over the whole width, then what the last of them called."""
    for depth, node in enumerate(path):
        yield frame(node, costs, 0.0, 100.0, depth)
    row = [(path[-1], 0.0)]
    budget = MOST_FRAMES
    per_cost = 100 / path[-1].head if path[-1].head else 0.0
    for depth in range(len(path), len(path) + MOST_ROWS):
        below = []
        for node, x in row:
            for child in node.ordered():
                width = child.head * per_cost
                if width >= LEAST_WIDTH and budget:
                    budget -= 1
                    yield frame(child, costs, x, width, depth)
                    below.append((child, x))
                x += width
        row = below


def frame(node: FlameNode, costs: SampleCosts, x: float, width: float, depth: int) -> Frame:
    title = (
        f"{node.name}: after {costs.after(node.head)}; before {costs.before(node.base)}; "
        f"{signed_percent(node.head - node.base)} of a request's {costs.quantity.of_request} before"
    )
    return Frame(
        str(node.number),
        node.name,
        title,
        f"{x:.3f}%",
        f"{width:.3f}%",
        depth * ROW,
        colour(node.head - node.base),
        width >= LABELLED,
    )


def signed_percent(cost: float) -> str:
    return f"{100 * cost:+.1f}%".replace("-", numbers.MINUS)


def colour(difference: float) -> str:
    strength = sum(abs(difference) >= step for step in STEPS)
    return f"{'more' if difference > 0 else 'less'}{strength}" if strength else "same"


def changed_functions(base: Stacks, head: Stacks, costs: SampleCosts) -> tuple[list[Function], int]:
    """The functions whose own cost differs most, by more than the noise of the samples; and how many there are in all.

    Counted instructions have no such noise.
    """
    before, after = own_samples(base), own_samples(head)
    names = sorted(before | after)
    old, new = ([side[name] for name in names] for side in (before, after))
    is_sampled = costs.quantity is TIME
    differences = differing_counts(old, new, costs.base, costs.head, LEVEL) if is_sampled else [True] * len(names)
    functions = [
        costs.function(name, before[name] * costs.base, after[name] * costs.head)
        for name, is_shown in zip(names, differences, strict=True)
        if is_shown
    ]
    grown = [function for function in functions if abs(function.growth) >= LEAST_DIFFERENCE]
    return sorted(grown, key=lambda function: (-abs(function.growth), function.name))[:FUNCTIONS], len(names)


def own_samples(side: Stacks) -> "Counter[str]":
    samples: Counter[str] = Counter()
    for stack, count in parse_folded(side.folded):
        samples[stack[-1]] += count
    return samples
