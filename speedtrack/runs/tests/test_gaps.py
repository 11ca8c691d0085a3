from hypothesis import given
from hypothesis import strategies as st

from speedtrack.runs.planning.gaps import halved, halving, widest_first


def test_each_is_from_the_middle_of_the_widest_gap() -> None:
    assert widest_first([0, 10, 14], range(15), 4) == [5, 8, 3, 12]


def test_candidates_bound_the_gaps_before_and_after() -> None:
    assert widest_first([100], [90, 95, 110, 120], 3) == [110, 120, 95]


def test_nothing_is_taken_twice_and_all_are_found() -> None:
    assert sorted(widest_first([3, 4], range(9), 100)) == [0, 1, 2, 5, 6, 7, 8]
    assert widest_first([1, 2], [1, 2], 5) == [] == widest_first([], [], 5)


def test_halving_begins_with_the_ends() -> None:
    assert halving(9)[:5] == [8, 0, 4, 6, 2]
    assert [sorted(halving(count)) for count in (0, 1, 2, 5)] == [[], [0], [0, 1], [0, 1, 2, 3, 4]]


@given(st.sets(st.integers(0, 10_000), max_size=60))
def test_halved_ranks_are_the_same_ones_and_begin_with_the_ends(positions: set[int]) -> None:
    ranks = halved(sorted(positions))
    assert sorted(ranks) == sorted(positions)
    in_turn = sorted(range(len(ranks)), key=ranks.__getitem__, reverse=True)
    assert in_turn == halving(len(ranks))
