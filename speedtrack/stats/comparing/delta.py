"""Delta debugging: which pieces of a change explain its effect (Zeller and Hildebrandt 2002, ddmin).

Pieces are numbered from 0. The growth of a set is what the whole change has more than the same change without that set:
taking the set back saves so much. It is None if it cannot be measured, as where the rest does not compile. A set tells
if its growth is at least SHARE of that of all pieces. The answer tells, and none of its pieces can be left out.

ddmin asks only whether a set tells. Growths are numbers, mostly additive: so before it leaves out one subset after the
other, it tries the fewest subsets whose growths add up, and those subsets that cannot be taken back alone, together.
A subset is cut between two files if it has several, else between two functions, else in the middle.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

Pieces = frozenset[int]
Growths = Mapping[Pieces, float | None]
Asking = Generator[list[Pieces], list[float | None], Pieces]  #: yields sets to measure, is sent their growths

SHARE = 0.9
FEW = 8  # so many pieces are measured one by one
SLIGHT = 0.02  # of the whole growth: subsets with less are left out where others may need each other


@dataclass(frozen=True)
class SearchProgress:
    """How far the search is.

    ``wanted``: sets to measure next; without any it has ended. ``smallest``: the smallest measured set that tells; None
    if none does. ``is_minimal``: it is the answer, from which nothing can be left out.
    """

    wanted: tuple[Pieces, ...]
    smallest: Pieces | None
    is_minimal: bool


def advance(keys: Sequence[tuple[str, ...]], growths: Growths, budget: int) -> SearchProgress:
    """Continue the search with the measurements so far. Equal growths give equal progress.

    ``keys``: of each piece, in the order of the pieces: such as its file and function. ``budget``: how many sets are
    measured in all, at most.
    """
    search = ddmin(keys)
    requested = next(search)
    while not (missing := [pieces for pieces in requested if pieces not in growths]):
        try:
            requested = search.send([growths[pieces] for pieces in requested])
        except StopIteration as end:
            return SearchProgress((), end.value or None, bool(end.value))
    next_sets = tuple(dict.fromkeys(missing))[: max(0, budget - len(growths))]
    return SearchProgress(next_sets, smallest_telling(growths, len(keys)), is_minimal=False)


def smallest_telling(growths: Growths, count: int) -> Pieces | None:
    total = growths.get(frozenset(range(count)))
    telling = [pieces for pieces, growth in growths.items() if tells(growth, total)]
    return min(telling, key=lambda pieces: (len(pieces), sorted(pieces)), default=None)


def tells(growth: float | None, total: float | None) -> bool:
    return growth is not None and bool(total) and growth / total >= SHARE  # type: ignore[operator]


def ddmin(keys: Sequence[tuple[str, ...]]) -> Asking:
    """Search the smallest set that explains the change; empty if all pieces together have no effect, or none known."""
    everything = frozenset(range(len(keys)))
    (total,) = yield [everything]
    if not total:
        return frozenset()
    subsets = [everything]
    while any(len(subset) > 1 for subset in subsets):
        subsets = finer(subsets, keys)
        while fewer := (yield from some_that_tell(subsets, total)):
            subsets = fewer
            if len(subsets) == 1:
                break
    return union(subsets)


def some_that_tell(subsets: list[Pieces], total: float) -> Generator[list[Pieces], list[float | None], list[Pieces]]:
    """Some of these subsets (at least two), not all, that tell together; none if all are needed."""
    growths = yield from growths_of(subsets, total)
    for subset, growth in growths.items():
        if tells(growth, total):
            return [subset]
    for selection in guesses(subsets, growths, total):
        (growth,) = yield [union(selection)]
        if tells(growth, total):
            return selection
    return []


def growths_of(
    subsets: list[Pieces], total: float
) -> Generator[list[Pieces], list[float | None], dict[Pieces, float | None]]:
    """The growth of each subset. Single pieces are all measured, larger subsets only until one tells."""
    if any(len(subset) == 1 for subset in subsets):
        measured_growths = yield subsets
        return dict(sorted(zip(subsets, measured_growths, strict=True), key=lambda row: -((row[1] or 0.0) / total)))
    growths: dict[Pieces, float | None] = {}
    for subset in subsets:
        (growths[subset],) = yield [subset]
        if tells(growths[subset], total):
            break
    return growths


def guesses(subsets: list[Pieces], growths: Growths, total: float) -> Iterator[list[Pieces]]:
    """Selections of at least two subsets, not all, that may tell; each once."""
    shares = {subset: growth / total for subset, growth in growths.items() if growth is not None}
    largest = sorted(shares, key=lambda subset: -shares[subset])
    enough = next((n for n in range(len(largest)) if sum(shares[subset] for subset in largest[:n]) >= SHARE), 0)
    refusals = {subset for subset in subsets if growths[subset] is None}
    selections = [
        set(largest[:enough]),
        refusals and refusals | {subset for subset in shares if shares[subset] > SLIGHT},
        *({*subsets} - {subset} for subset in subsets),
    ]
    tested: list[set[Pieces]] = []
    for selection in selections:
        if 1 < len(selection) < len(subsets) and selection not in tested:
            tested.append(selection)
            yield [subset for subset in subsets if subset in selection]


def finer(subsets: list[Pieces], keys: Sequence[tuple[str, ...]]) -> list[Pieces]:
    """The same pieces in smaller subsets: one by one if they are few, else halves."""
    pieces = sorted(union(subsets))
    if len(pieces) <= FEW:
        return [frozenset([piece]) for piece in pieces]
    return [half for subset in subsets for half in halves(subset, keys)]


def halves(subset: Pieces, keys: Sequence[tuple[str, ...]]) -> list[Pieces]:
    """The subset, cut near its middle where the first differing items of the keys change."""
    pieces = sorted(subset)
    if len(pieces) == 1:
        return [subset]
    for depth in range(1, max(len(keys[piece]) for piece in pieces) + 1):
        begins = [keys[piece][:depth] for piece in pieces]
        cuts = [at for at in range(1, len(pieces)) if begins[at] != begins[at - 1]]
        if cuts:
            break
    middle = min(cuts or range(1, len(pieces)), key=lambda at: abs(2 * at - len(pieces)))
    return [frozenset(pieces[:middle]), frozenset(pieces[middle:])]


def union(subsets: Sequence[Pieces]) -> Pieces:
    return frozenset().union(*subsets)
