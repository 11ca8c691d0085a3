"""How every function that judges series or pairs handles values that no healthy benchmark gives."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from speedtrack.stats.changes import drift
from speedtrack.stats.changes.changepoint import Point, SettledShift, suspect_shifts
from speedtrack.stats.changes.explain import clearest_place, explain_place
from speedtrack.stats.changes.history import history_verdicts
from speedtrack.stats.comparing import narrow
from speedtrack.stats.comparing.compare import compare_exact, compare_samples, settle_pairs
from speedtrack.stats.noise import canary
from speedtrack.stats.noise.floor import noise_floor
from speedtrack.stats.summary import summarize

Values = Sequence[float]


def points(values: Values) -> list[Point]:
    return [Point((value,)) for value in values]


def halves(values: Values) -> tuple[Values, Values]:
    return values[: len(values) // 2], values[len(values) // 2 :]


def pairs(values: Values) -> list[tuple[float, float]]:
    return list(zip(*halves(values), strict=False))


def settled(values: Values) -> Any:
    return settle_pairs(pairs(values), smallest_effect=0.01, level=0.01, seed=1)


OF_SERIES: dict[str, Callable[[Values], Any]] = {
    "suspect": lambda values: suspect_shifts(points(values), smallest_effect=0.01, spread=0.01),
    "suspect beside a confirmed change": lambda values: suspect_shifts(
        points(values), settled=[SettledShift(3, 5, upwards=True, confirmed=True)]
    ),
    "history": lambda values: history_verdicts(points(values), smallest_effect=0.01),
    "explain": lambda values: explain_place(points(values), 2, since=0, smallest_effect=0.01),
    "clearest": lambda values: clearest_place(points(values), smallest_effect=0.01),
    "drift": lambda values: drift.drift_since(*halves(values), smallest_effect=0.01),
    "canary": lambda values: canary.judge_canary(values[:-1], values[-1], 0.01),
    "summary": summarize,
    "compare": lambda values: compare_samples(*halves(values), smallest_effect=0.01, seed=1),
    "settle": settled,
    "narrow": lambda values: narrow.place_commit(pairs(values), ratio=1.1, error=0.005),
    "narrow by counts": lambda values: narrow.place_counts(pairs(values), ratio=1.1, error=0.005),
    "floor": lambda values: noise_floor(pairs(values), level=0.01, planned_pairs=10, seed=1),
}
FINDINGS = ("suspect", "suspect beside a confirmed change", "history", "drift")  # empty where there is no change


def numbers_in(answer: object) -> list[float]:
    """All numbers of an answer at any depth."""
    if isinstance(answer, bool | str) or answer is None:
        return []
    if isinstance(answer, int | float):
        return [float(answer)]
    parts = answer if isinstance(answer, list | tuple) else vars(answer).values()
    return [number for part in parts for number in numbers_in(part)]


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", OF_SERIES)
def test_what_is_no_finite_number_is_refused_wherever_it_stands(name: str, wrong: float) -> None:
    for place in (0, 7, 15):
        values = [100.0] * 16
        values[place] = wrong
        with pytest.raises(ValueError, match="finite"):
            OF_SERIES[name](values)


@pytest.mark.parametrize("level", [1e-300, 5.0, 0.0, -3.0, 1e300])
@pytest.mark.parametrize("name", OF_SERIES)
def test_a_constant_series_shows_nothing(name: str, level: float) -> None:
    answer = OF_SERIES[name]([level] * 40)
    if name in FINDINGS:
        assert not answer
    assert not any(math.isnan(number) for number in numbers_in(answer))


@pytest.mark.parametrize(
    "values",
    [
        [0.0] * 20 + [5.0] * 20,
        [5.0] * 20 + [0.0] * 20,
        [-5.0] * 20 + [5.0] * 20,
        [0.0, 1.0] * 20,
        [1e-9] * 39 + [1e9],
        [-1.0, 0.0, 1.0, 2.0] * 10,
    ],
)
@pytest.mark.parametrize("name", OF_SERIES)
def test_values_of_zero_and_below_have_an_answer_in_numbers(name: str, values: Values) -> None:
    assert not any(math.isnan(number) for number in numbers_in(OF_SERIES[name](values)))


@pytest.mark.parametrize("name", ["suspect", "history", "drift", "clearest", "explain"])
def test_one_point_is_no_series(name: str) -> None:
    assert not OF_SERIES[name]([7.0])


def test_a_change_to_zero_is_found_settled_and_narrowed() -> None:
    gone = [5.0] * 20 + [0.0] * 20
    assert [(shift.index, shift.ratio) for shift in suspect_shifts(points(gone))] == [(20, 0.0)]
    assert [(verdict.index, verdict.ratio) for verdict in history_verdicts(points(gone), smallest_effect=0.01)] == [
        (20, 0.0)
    ]
    change = settled([5.0] * 10 + [0.0] * 10)
    assert (change.answer, change.ratio) == ("different", 0.0)
    assert compare_exact(5.0, 0.0, smallest_effect=0.01).ratio == 0.0
    ratio = narrow.cautious_ratio(change.ratio, change.low, change.high)
    sides = [narrow.place_commit([(5.0, head)] * 10, ratio=ratio, error=0.005).side for head in (5.0, 0.0)]
    assert sides == ["old", "new"]
    assert narrow.pairs_needed([(5.0, 0.0)] * 10, ratio=ratio, error=0.005) == narrow.fewest_pairs(0.005)


def test_a_step_to_zero_explains_no_drift_between_positive_levels() -> None:
    assert drift.drift_since([5.0] * 8, [6.0] * 8, smallest_effect=0.01, explained=0.0) is None


def test_a_hundred_thousand_points_are_judged_by_the_last_of_them_alone() -> None:
    noise = np.random.default_rng(1).normal(0, 0.01, 100_000)
    noise[99_950:] += math.log(1.05)
    line = points((100 * np.exp(noise)).tolist())
    shifts = suspect_shifts(line, smallest_effect=0.01)
    late = [shift for shift in shifts if shift.seen >= 99_950]
    assert [abs(shift.index - 99_950) <= 2 for shift in late] == [True]
    assert len(shifts) < 200  # 2 per 1000
    window = line[-1000:]
    skipped = len(line) - len(window)
    whole = history_verdicts(line, smallest_effect=0.01, settled=[shift.index for shift in shifts[:-1]], since=99_950)
    last = history_verdicts(window, smallest_effect=0.01, since=99_950 - skipped)
    assert [(one.index, one.ratio, one.seen) for one in whole] == [
        (one.index + skipped, one.ratio, one.seen + skipped) for one in last
    ]
    assert [abs(one.index - 99_950) <= 2 for one in whole] == [True]
