"""Delta debugging finds the set that a search through all sets finds, and keeps to its budget."""

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedtrack.stats.comparing import delta
from speedtrack.stats.comparing.delta import Pieces, SearchProgress

Measure = Callable[[Pieces], float | None]


def searched(
    keys: list[tuple[str, ...]], measure: Measure, budget: int = 10_000
) -> tuple[SearchProgress, dict[Pieces, float | None]]:
    """Search until nothing is wanted. Each set is wanted once, and none beyond the budget."""
    growths: dict[Pieces, float | None] = {}
    while wanted := (progress := delta.advance(keys, growths, budget)).wanted:
        assert not growths.keys() & set(wanted) and frozenset() not in wanted
        growths |= {pieces: measure(pieces) for pieces in wanted}
    assert len(growths) <= budget
    return progress, growths


def keys_of(count: int, files: int = 1) -> list[tuple[str, ...]]:
    return [(f"file{number * files // count}", f"function{number // 2}") for number in range(count)]


def sums(parts: dict[int, float]) -> Measure:
    return lambda pieces: sum(parts.get(piece, 0.0) for piece in pieces)


def subsets(count: int) -> list[Pieces]:
    return [frozenset(some) for size in range(1, count + 1) for some in combinations(range(count), size)]


@given(st.lists(st.integers(0, 100), min_size=1, max_size=7).filter(any), st.sampled_from([1.0, -0.5]))
def test_of_pieces_that_add_up_no_fewer_explain_the_change(costs: list[int], sign: float) -> None:
    measure = sums({piece: cost * sign for piece, cost in enumerate(costs)})
    progress, _ = searched(keys_of(len(costs)), measure)
    assert progress.is_minimal and progress.smallest is not None
    least = min(len(pieces) for pieces in subsets(len(costs)) if delta.tells(measure(pieces), sum(costs) * sign))
    assert len(progress.smallest) == least
    assert delta.tells(measure(progress.smallest), sum(costs) * sign)


@given(st.data(), st.integers(1, 6), st.floats(0.5, 100))
def test_whatever_pieces_do_to_each_other_none_of_the_answer_can_be_left_out(
    data: st.DataObject, count: int, total: float
) -> None:
    growth = st.none() | st.floats(-200, 200)
    growths = {pieces: data.draw(growth) for pieces in subsets(count)} | {frozenset(range(count)): total}
    progress, measured = searched(keys_of(count, files=2), growths.__getitem__)
    answer = progress.smallest
    assert progress.is_minimal and answer is not None and delta.tells(growths[answer], total)
    for piece in answer:
        rest = answer - {piece}
        assert not rest or not delta.tells(measured[rest], total)


@pytest.mark.parametrize("count", [4, 9, 20])
def test_pieces_that_only_act_together_are_found_together(count: int) -> None:
    def measure(pieces: Pieces) -> float:
        return 63.0 if {1, count - 1} <= pieces else 0.0

    progress, _ = searched(keys_of(count, files=3), measure)
    assert progress == SearchProgress((), frozenset({1, count - 1}), is_minimal=True)


@pytest.mark.parametrize("count", [4, 6, 12])
def test_pieces_that_cannot_be_taken_back_alone_are_taken_with_those_that_they_need(count: int) -> None:
    def measure(pieces: Pieces) -> float | None:
        has = {0, 2} & pieces
        return None if len(has) == 1 else 63.0 * bool(has)

    progress, _ = searched(keys_of(count), measure)
    assert progress.smallest == {0, 2} and progress.is_minimal


def test_a_use_is_named_whose_definition_cannot_be_taken_back() -> None:
    def measure(pieces: Pieces) -> float | None:
        return None if 0 in pieces and 3 not in pieces else 63.0 * (3 in pieces)

    assert searched(keys_of(5), measure)[0].smallest == {3}


def test_costs_that_cancel_out_are_told_apart() -> None:
    progress, growths = searched(keys_of(5), sums({1: 100.0, 4: -37.0}))
    assert progress.smallest == {1} and growths[frozenset({4})] == -37


def test_few_pieces_are_all_measured_alone() -> None:
    _, growths = searched(keys_of(5), sums({2: 63.0}))
    assert [len(pieces) for pieces in growths] == [5, 1, 1, 1, 1, 1]


@pytest.mark.parametrize(("piece", "within"), [(0, 8), (1, 8), (1999, 8), (2718, 8), (3999, 8)])
def test_of_4000_pieces_few_are_left_after_24_sets(piece: int, within: int) -> None:
    keys, measure = keys_of(4000, files=300), sums({piece: 63.0})
    progress, _ = searched(keys, measure, budget=24)
    assert progress.smallest is not None and piece in progress.smallest and len(progress.smallest) <= within
    assert searched(keys, measure, budget=28)[0] == SearchProgress((), frozenset({piece}), is_minimal=True)


@given(st.integers(0, 30), st.sets(st.integers(0, 39), min_size=1, max_size=3))
def test_a_budget_that_ends_leaves_the_smallest_set_so_far(budget: int, causes: set[int]) -> None:
    progress, growths = searched(keys_of(40, files=4), sums(dict.fromkeys(causes, 21.0)), budget)
    assert len(growths) <= budget
    if budget == 0:
        assert progress == SearchProgress((), None, is_minimal=False)
    else:
        assert progress.smallest is not None and causes <= progress.smallest


@pytest.mark.parametrize("total", [None, 0.0])
def test_nothing_is_searched_without_a_change(total: float | None) -> None:
    progress, growths = searched(keys_of(5), lambda pieces: total)
    assert progress == SearchProgress((), None, is_minimal=False) and len(growths) == 1


def test_parts_are_cut_at_files_then_at_functions_then_anywhere() -> None:
    keys = [("a.c", "f"), ("b.c", "f"), ("b.c", "f"), ("b.c", "g"), ("b.c", "g"), ("b.c", "g")]
    assert delta.halves(frozenset(range(6)), keys) == [{0}, {1, 2, 3, 4, 5}]
    assert delta.halves(frozenset(range(1, 6)), keys) == [{1, 2}, {3, 4, 5}]
    assert delta.halves(frozenset({3, 4, 5}), keys) == [{3}, {4, 5}]
