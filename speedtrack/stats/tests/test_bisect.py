"""The search for the commit of a change: any change is found, in as few steps as halving needs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speedtrack.stats.comparing import bisect
from speedtrack.stats.comparing.bisect import CommitLevel, CommitRange

OLD, NEW, UNKNOWN = CommitLevel.OLD, CommitLevel.NEW, CommitLevel.UNKNOWN


def search(length: int, cause: int, silent: frozenset[int] = frozenset()) -> tuple[CommitRange, int]:
    """The range that is left of a path, and how many commits were measured. ``silent``: those without an answer."""
    levels = [OLD, *[None] * (length - 2), NEW]
    steps = 0
    while (place := bisect.next_place(levels, bisect.range_left(levels))) is not None:
        levels[place] = UNKNOWN if place in silent else NEW if place >= cause else OLD
        steps += 1
    return bisect.range_left(levels), steps


@given(st.integers(2, 300), st.data())
def test_the_commit_is_found_in_as_many_steps_as_halving_takes(length: int, data: st.DataObject) -> None:
    cause = data.draw(st.integers(1, length - 1))
    left, steps = search(length, cause)
    assert left == (cause - 1, cause) and left.is_one_commit
    assert steps <= math.ceil(math.log2(length - 1))


@given(st.integers(2, 60), st.data())
def test_commits_without_an_answer_only_widen_what_is_left(length: int, data: st.DataObject) -> None:
    cause = data.draw(st.integers(1, length - 1))
    silent = data.draw(st.frozensets(st.integers(1, length - 1)))
    left, _ = search(length, cause, silent - {length - 1})
    assert left.first < cause <= left.last
    assert all(place in silent for place in range(left.first + 1, left.last))


@given(st.integers(3, 100), st.data())
def test_what_comes_after_either_answer_is_known_before_it(length: int, data: st.DataObject) -> None:
    levels: list[CommitLevel | None] = [OLD, *[None] * (length - 2), NEW]
    left = bisect.range_left(levels)
    place = bisect.next_place(levels, left)
    assert place is not None
    ahead = bisect.places_after(levels, left, place)
    for answer in (OLD, NEW):
        levels[place] = answer
        after = bisect.next_place(levels, bisect.range_left(levels))
        assert after is None or after in ahead


def test_of_several_changes_the_oldest_that_was_seen_is_found() -> None:
    assert bisect.range_left([OLD, None, NEW, None, OLD, NEW]) == (0, 2)
    assert bisect.range_left([OLD, OLD, UNKNOWN, NEW, OLD, NEW]) == (1, 3)


@pytest.mark.parametrize("untried, steps", [(0, 0), (1, 1), (2, 2), (3, 2), (7, 3), (8, 4)])
def test_how_many_steps_are_left(untried: int, steps: int) -> None:
    levels = [OLD, *[None] * untried, NEW]
    assert bisect.steps_left(levels, bisect.range_left(levels)) == steps


@given(st.integers(1, 40), st.data())
def test_the_middles_are_the_nearest_places_of_all(last: int, data: st.DataObject) -> None:
    places = sorted(data.draw(st.frozensets(st.integers(-5, 50))))
    found = bisect.middles(places, CommitRange(0, last))
    distances = {place: abs(place - last / 2) for place in places if 0 < place < last}
    assert found == [place for place in distances if distances[place] == min(distances.values())]


def test_of_an_even_number_of_places_two_are_in_the_middle() -> None:
    assert bisect.middles(range(1, 5), CommitRange(0, 5)) == [2, 3]
    assert bisect.middles(range(1, 4), CommitRange(0, 4)) == [2]
    assert bisect.middles([], CommitRange(0, 4)) == []


@pytest.mark.parametrize("besides", [1, 3])
def test_all_steps_together_rarely_end_at_a_wrong_commit(besides: int) -> None:
    for inside in (0, 1, 6, 7, 4095):
        error = bisect.error_per_step(inside, besides)
        assert (besides + bisect.halvings(inside)) * error == pytest.approx(bisect.WRONG_COMMIT)


@pytest.mark.parametrize(
    ("values", "sign", "index"),
    [
        ([10, 10.1, 9.9, 13, 13.1, 12.9], 1, 3),
        ([10, 13], 1, None),  # a scatter is not known
        ([10, 10.1, 9.9, 13, 13.1, 12.9], -1, None),
        ([1.6, 2.6, 2.6, 2.7, 1.5, 1.5], -1, 4),  # the rise is another change
        ([10, 11, 9, 10, 11, 9.5, 10.5, 11.5], 1, None),
        ([10, 10, 14, 10, 10, 10, 12, 12, 12], 1, 6),  # a single high value is no step
        ([0, 0, 0, 3], 1, 3),
        ([5.0] * 6, 1, None),
        ([], 1, None),
    ],
)
def test_a_step_is_seen_where_it_stands_out_of_the_scatter(values: list[float], sign: int, index: int | None) -> None:
    assert bisect.clear_step(values, sign) == index
