import math

import pytest

from speedtrack.stats.changes.common import MoveCause, cause_by_votes, is_common, log_shift, took_part

FIVE = math.log(1.05)


def test_two_fifths_of_the_series_and_at_least_five_move_together() -> None:
    assert is_common([FIVE] * 5 + [0.0] * 7, FIVE)
    assert not is_common([FIVE] * 5 + [0.0] * 8, FIVE)
    assert not is_common([FIVE] * 4, FIVE)
    assert not is_common([-FIVE] * 10, FIVE)


def test_evidence_that_contradicts_itself_leaves_the_cause_open() -> None:
    assert cause_by_votes([]) == MoveCause.UNKNOWN
    assert cause_by_votes([MoveCause.UNKNOWN, MoveCause.MACHINE]) == MoveCause.MACHINE
    assert cause_by_votes([MoveCause.CODE, MoveCause.MACHINE]) == MoveCause.UNKNOWN


@pytest.mark.parametrize(("move", "answer"), [(FIVE, True), (0.0, False), (-FIVE, False), (0.4 * FIVE, None)])
def test_what_moved_as_far_took_part(move: float, answer: bool | None) -> None:
    assert took_part(move, FIVE) is answer


def test_a_shift_needs_values_above_zero_on_both_sides() -> None:
    assert log_shift([1.0], [math.e]) == pytest.approx(1.0)
    assert log_shift([], [1.0]) is None
    assert log_shift([0.0], [1.0]) is None
