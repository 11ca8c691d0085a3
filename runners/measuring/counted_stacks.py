"""The instructions of a request by stack, for machines on which perf has no hardware counters or may not sample.

They are counted like the exact series, with `--separate-callers`: callgrind then separates the costs of a function by
chain of callers, so the stacks are whole and exact, not joined from pairs of caller and callee. The server takes about
twice as long.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from runners.documents import Benchmark
from runners.measuring import counting, countingprocess
from runners.measuring.perf import Profile
from runners.measuring.stacks import DEEPEST, Stack, folded_text, function_frame
from runners.measuring.trials import TrialRunner

INSTRUCTIONS: Final = "instructions"
CALLERS = 80
FOLDED_REQUESTS = 100  # a cost in the folded text is for so many requests, so that it is an integer
DEEPER = "(outer callers)"


def count_stacks(runner: TrialRunner, benchmark: Benchmark, side: str) -> Profile:
    """The profile by counted instructions, or the reason why there is none. Raises what ends the run."""
    costs = counting.count_costs(runner, [benchmark], side, callers=CALLERS)[benchmark.name]
    if not isinstance(costs, countingprocess.Costs):
        return Profile(kind=INSTRUCTIONS, event=INSTRUCTIONS, unavailable=f"instructions are not counted: {costs}")
    stacks: Counter[Stack] = Counter()
    for stack, cost in costs.stacks.items():
        stacks[frames_inside(costs.inside, stack)] += cost
    folded = per_requests(stacks.items(), costs.requests)
    return Profile(kind=INSTRUCTIONS, event=INSTRUCTIONS, samples=folded.total(), folded=folded_text(folded))


def per_requests(costs: Iterable[tuple[Stack, int]], requests: int) -> Counter[Stack]:
    """Costs of so many requests converted to FOLDED_REQUESTS. Those that round to 0 or less are left out."""
    return +Counter({stack: round(cost * FOLDED_REQUESTS / requests) for stack, cost in costs})


def frames_inside(inside: str, stack: Stack) -> Stack:
    """The frames of a stack from the function `inside` on."""
    frames = [function_frame(name) for name in stack]
    begin = (inside,) if inside in frames else (inside, DEEPER)
    inner = frames[frames.index(inside) + 1 :] if inside in frames else frames
    return (*begin, *inner)[:DEEPEST]
