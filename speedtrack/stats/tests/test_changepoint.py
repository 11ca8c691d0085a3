from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from speedtrack.stats.changes.changepoint import (
    Point,
    SettledShift,
    Shift,
    _agreement,
    _place,
    placed_lines,
    suspect_shifts,
    suspect_shifts_in,
)
from speedtrack.stats.levels import Trials


def single(levels: list[float], cv: float = 0.0, seed: int = 1) -> list[Point]:
    """One trial per commit, log-normal noise."""
    noise = np.random.default_rng(seed).normal(0, cv, len(levels))
    return [Point((float(level * math.exp(e)),)) for level, e in zip(levels, noise, strict=True)]


def five(levels: list[float], cv: float, seed: int = 1) -> list[Point]:
    """Five trials per commit."""
    noise = np.random.default_rng(seed).normal(0, cv, (len(levels), 5))
    return [Point(tuple((level * np.exp(e)).tolist())) for level, e in zip(levels, noise, strict=True)]


def found(shifts: list[Shift]) -> list[tuple[int, int]]:
    return [(shift.index, 1 if shift.ratio > 1 else -1) for shift in shifts]


class TestEstablishedHistory:
    @pytest.mark.parametrize("ratio", [1.1, 1 / 1.1])
    def test_a_clear_step_is_seen_at_once_and_placed_exactly(self, ratio: float) -> None:
        for seed in range(10):
            shifts = suspect_shifts(single([100.0] * 60 + [100 * ratio] * 60, 0.01, seed))
            (step,) = [shift for shift in shifts if shift.index == 60]
            assert step.seen == 60
            assert step.score > 1

    def test_the_interval_mostly_holds_the_true_ratio(self) -> None:
        levels = [100.0] * 60 + [110.0] * 60
        steps = [s for seed in range(60) for s in suspect_shifts(single(levels, 0.01, seed)) if s.index == 60]
        assert 51 <= sum(step.low <= 1.1 <= step.high for step in steps) <= 60
        assert max(step.high - step.low for step in steps) < 0.025

    def test_a_step_of_two_sigma_is_found_near_its_place(self) -> None:
        near = [
            any(abs(shift.index - 80) <= 5 and shift.ratio > 1 for shift in suspect_shifts(single(levels, 0.015, seed)))
            for seed in range(30)
            for levels in [[100.0] * 80 + [103.0] * 60]
        ]
        assert sum(near) >= 27

    def test_a_step_far_below_the_noise_of_a_point_shows_in_the_long_windows(self) -> None:
        levels = [100.0] * 150 + [101.5] * 100
        seen = [
            shift.seen - shift.index
            for seed in range(20)
            for shift in suspect_shifts(single(levels, 0.015, seed))
            if abs(shift.index - 150) <= 10
        ]
        assert len(seen) >= 12
        assert np.median(seen) > 4

    def test_quiet_noise_raises_few_suspicions(self) -> None:
        count = sum(len(suspect_shifts(single([100.0] * 300, 0.015, seed))) for seed in range(20))
        assert count <= 0.004 * 20 * 300

    @pytest.mark.parametrize("kind", ["heavy tails", "serial correlation", "outliers", "louder"])
    def test_rough_noise_raises_few_suspicions(self, kind: str) -> None:
        count = 0
        for seed in range(15):
            rng = np.random.default_rng(seed)
            e = rng.standard_t(4, 300) if kind == "heavy tails" else rng.normal(size=300)
            if kind == "serial correlation":
                for i in range(1, 300):
                    e[i] = 0.5 * e[i - 1] + math.sqrt(0.75) * e[i]
            elif kind == "outliers":
                e = np.where(rng.random(300) < 0.05, rng.uniform(5, 20, 300), e)
            elif kind == "louder":
                e[150:] *= 3
            points = [Point((float(x),)) for x in 100 * np.exp(0.015 * e)]
            count += sum(not shift.returns for shift in suspect_shifts(points))
        assert count <= 0.012 * 15 * 300

    def test_two_steps_are_two_shifts(self) -> None:
        levels = [100.0] * 50 + [120.0] * 50 + [110.0] * 50
        assert found(suspect_shifts(single(levels, 0.01, 3))) == [(50, 1), (100, -1)]

    def test_a_single_outlier_and_its_return_are_told_apart_from_a_step(self) -> None:
        levels = [100.0] * 40 + [150.0] + [100.0] * 40
        spike, back = suspect_shifts(single(levels, 0.01, 4))
        assert (spike.index, spike.returns) == (40, False)
        assert (back.index, back.returns) == (41, True)

    def test_outliers_that_are_usual_for_a_series_raise_nothing(self) -> None:
        levels = [100.0 + 50 * (i % 7 == 3) for i in range(150)]
        late = [shift for shift in suspect_shifts(single(levels, 0.01, 5)) if shift.index > 40]
        assert late == []

    def test_a_later_point_takes_no_suspicion_back(self) -> None:
        points = single([100.0] * 40 + [106.0] * 3 + [100.0] * 40, 0.015, 6)
        seen = {(s.index, s.seen) for n in range(2, len(points) + 1) for s in suspect_shifts(points[:n])}
        assert seen == {(s.index, s.seen) for s in suspect_shifts(points)}
        assert seen

    def test_a_new_baseline_after_a_step_keeps_the_known_noise(self) -> None:
        levels = [100.0] * 60 + [110.0] * 6 + [125.0] * 20
        shifts = suspect_shifts(single(levels, 0.01, 7))
        assert [(shift.index, shift.seen) for shift in shifts] == [(60, 60), (66, 66)]

    def test_a_rounded_metric_is_not_suspected_for_its_rounding(self) -> None:
        rng = np.random.default_rng(8)
        points = [Point((float(x),)) for x in rng.integers(10, 12, 200)]
        assert suspect_shifts(points) == []
        assert found(suspect_shifts([*points, *[Point((14.0,))] * 3])) == [(200, 1)]

    def test_a_shift_below_the_smallest_effect_is_none(self) -> None:
        points = single([100.0] * 60 + [103.0] * 60, 0.001, 9)
        assert found(suspect_shifts(points, smallest_effect=0.01)) == [(60, 1)]
        assert suspect_shifts(points, smallest_effect=0.05) == []

    def test_noisy_trials_of_one_commit_weigh_less(self) -> None:
        calm = five([100.0] * 40, 0.005, 10)
        sure = Point((105.0, 105.1, 104.9, 105.2, 104.8))
        wild = Point((105.0, 70.0, 140.0, 99.0, 128.0))
        assert found(suspect_shifts([*calm, sure])) == [(40, 1)]
        assert suspect_shifts([*calm, wild]) == []

    def test_ten_thousand_points(self) -> None:
        levels = [100.0] * 3000 + [110.0] * 3000 + [95.0] * 4000
        shifts = suspect_shifts(single(levels, 0.01, 11))
        places = [place for place, _ in found(shifts)]
        assert 3000 in places
        assert 6000 in places
        assert len(shifts) < 80


class TestYoungHistory:
    @pytest.mark.parametrize("cv", [0.01, 0.02])
    @pytest.mark.parametrize("ratio", [1.15, 1 / 1.15])
    def test_a_step_anywhere_is_found_by_its_first_commit(self, cv: float, ratio: float) -> None:
        for n in range(3, 15):
            for place in range(1, n):
                shifts = suspect_shifts(five([100.0] * place + [100 * ratio] * (n - place), cv, seed=n))
                assert (place, place) in {(s.index, s.seen) for s in shifts}, (n, place)

    @pytest.mark.parametrize("second", [1.2, 1 / 1.2])
    def test_a_later_second_step_is_found_too(self, second: float) -> None:
        for n in range(4, 15):
            for place in range(1, n - 2):
                levels = [100.0] * place + [120.0] * 2 + [120 * second] * (n - place - 2)
                shifts = suspect_shifts(five(levels, 0.015, seed=n))
                assert {(place, place), (place + 2, place + 2)} <= {(s.index, s.seen) for s in shifts}, (n, place)

    def test_a_small_step_takes_some_commits_to_show(self) -> None:
        points = five([100.0] * 5 + [105.0] * 4, 0.015, 1)
        (shift,) = suspect_shifts(points)
        assert shift.index == 5

    def test_quiet_trials_raise_few_suspicions(self) -> None:
        assert sum(len(suspect_shifts(five([100.0] * 12, 0.02, seed))) for seed in range(60)) <= 5

    def test_one_wild_trial_hides_no_step(self) -> None:
        points = five([100.0] * 3 + [115.0] * 3, 0.01, 2)
        points[1] = Point((*points[1].values[:4], 300.0))
        assert found(suspect_shifts(points)) == [(3, 1)]

    def test_single_trials_say_nothing_yet(self) -> None:
        assert suspect_shifts(single([100.0] * 5 + [200.0] * 5)) == []

    def test_constant_trials_show_any_step_above_the_smallest_effect(self) -> None:
        points = [Point((size,) * 5) for size in (7000.0, 7000.0, 7200.0, 7200.0, 7210.0)]
        (shift,) = suspect_shifts(points)
        assert shift.index == 2
        assert [shift.low, shift.high] == pytest.approx([7200 / 7000] * 2)


class TestSettled:
    def test_a_confirmed_shift_is_not_suspected_again_wherever_the_noise_places_it(self) -> None:
        for seed in range(20):
            points = single([100.0] * 60 + [105.0] * 60, 0.015, seed)
            for place in (59, 60, 61):
                again = suspect_shifts(points, settled=[SettledShift(place, place, upwards=True, confirmed=True)])
                assert [s for s in again if abs(s.index - place) <= 2 and s.ratio > 1] == [], (seed, place)

    def test_after_a_confirmed_shift_too_small_to_be_seen_the_level_is_the_new_one(self) -> None:
        """Without the boundary the base would be a mixture of both levels."""
        points = single([100.0] * 60 + [101.5] * 25 + [107.0] * 3, 0.01, 12)
        (shift,) = suspect_shifts(points, settled=[SettledShift(60, 60, upwards=True, confirmed=True)])
        assert (shift.index, shift.ratio > 1.035) == (85, True)

    def test_a_return_from_a_confirmed_shift_is_a_shift_of_its_own(self) -> None:
        points = single([100.0] * 60 + [110.0] * 5 + [100.0] * 10, 0.01, 13)
        (shift,) = suspect_shifts(points, settled=[SettledShift(60, 60, upwards=True, confirmed=True)])
        assert (shift.index, shift.returns) == (65, False)

    def test_a_step_beside_a_confirmed_one_is_another_where_no_noise_moves_places(self) -> None:
        points = single([100.0] * 20 + [107.0] * 2 + [113.0] * 3, 0.00005, 21)
        settled = [SettledShift(20, 20, upwards=True, confirmed=True)]
        assert suspect_shifts(points, smallest_effect=0.002, settled=settled) == []
        exact = [replace(settled[0], near=0)]
        (shift,) = suspect_shifts(points, smallest_effect=0.002, settled=exact)
        assert (shift.index, shift.seen, round(shift.ratio, 3)) == (22, 22, 1.056)

    def test_the_place_of_a_range_is_where_two_levels_fit(self) -> None:
        points = single([100.0] * 60 + [110.0] * 60, 0.01, 14)
        assert suspect_shifts(points, settled=[SettledShift(56, 64, upwards=True, confirmed=True)]) == []

    def test_a_refuted_shift_joins_the_segments_that_it_had_cut(self) -> None:
        """An episode of noise: neither it nor its end is suspected, and the old level goes on."""
        points = single([100.0] * 60 + [106.0] * 6 + [100.0] * 60, 0.01, 15)
        assert found(suspect_shifts(points))[0] == (60, 1)
        assert suspect_shifts(points, settled=[SettledShift(57, 63, upwards=True, confirmed=False)]) == []

    def test_a_refuted_shift_hides_neither_the_other_direction_nor_a_later_one(self) -> None:
        down = single([100.0] * 60 + [90.0] * 20, 0.01, 16)
        refuted = [SettledShift(60, 60, upwards=True, confirmed=False)]
        assert found(suspect_shifts(down, settled=refuted)) == [(60, -1)]
        later = single([100.0] * 60 + [103.0] * 6 + [100.0] * 20 + [115.0] * 5, 0.01, 17)
        assert found(suspect_shifts(later, settled=refuted)) == [(86, 1)]

    def test_a_refuted_shift_to_another_unit_starts_a_line_that_is_watched(self) -> None:
        points = single([5000.0] * 60 + [5.0] * 40 + [5.5] * 5, 0.01, 18)
        assert found(suspect_shifts(points)) == [(60, -1), (100, 1)]
        assert found(suspect_shifts(points, settled=[SettledShift(57, 63, upwards=False, confirmed=False)])) == [
            (100, 1)
        ]

    def test_a_later_point_takes_no_suspicion_back(self) -> None:
        points = single([100.0] * 40 + [106.0] * 20 + [100.0] * 20 + [104.0] * 20, 0.015, 19)
        settled = [
            SettledShift(40, 40, upwards=True, confirmed=True),
            SettledShift(60, 60, upwards=False, confirmed=False),
        ]
        seen = {
            (s.index, s.seen) for n in range(61, len(points) + 1) for s in suspect_shifts(points[:n], settled=settled)
        }
        assert seen == {(s.index, s.seen) for s in suspect_shifts(points, settled=settled)}

    @pytest.mark.parametrize("place", [-5, 0, 1, 29, 30, 99])
    def test_what_lies_at_the_edges_or_beyond_changes_nothing_else(self, place: int) -> None:
        points = single([100.0] * 15 + [120.0] * 15, 0.01, 20)
        for confirmed in (True, False):
            settled = [SettledShift(place, place, upwards=True, confirmed=confirmed)]
            assert (15, 1) in found(suspect_shifts(points, settled=settled))


class TestSpread:
    """Runs that differ by more than their trials show: a level of its own for each run."""

    @staticmethod
    def runs(levels: list[float], between: float, seed: int) -> list[Point]:
        rng = np.random.default_rng(seed)
        own = np.array(levels) * np.exp(between * rng.normal(size=len(levels)))
        return [Point(tuple((level * np.exp(0.005 * rng.normal(size=5))).tolist())) for level in own]

    def test_young_lines_are_suspected_for_little_when_the_spread_is_known(self) -> None:
        lines = [self.runs([100.0] * 12, 0.017, seed) for seed in range(80)]
        unknown = sum(len(suspect_shifts(points)) for points in lines)
        known = sum(len(suspect_shifts(points, spread=0.017)) for points in lines)
        assert unknown > 0.2 * 80 * 12
        assert known < 0.03 * 80 * 12

    def test_young_lines_show_by_their_own_moves_that_they_scatter_more_than_others(self) -> None:
        """What was suspected at the first six points has been refuted, in either direction."""
        refuted = [SettledShift(1, 5, up, confirmed=False) for up in (True, False)]
        lines = [self.runs([100.0] * 12, 0.05, seed) for seed in range(80)]
        seen = [shift.seen for points in lines for shift in suspect_shifts(points, spread=0.01, settled=refuted)]
        assert len(seen) < 0.15 * 80 * 6  # 136 by the spread of others alone

    def test_a_step_of_a_young_line_is_no_move_by_which_it_scatters(self) -> None:
        lines = [self.runs([100.0] * 4 + [120.0] * 3 + [144.0] * 3, 0.01, seed) for seed in range(40)]
        hits = [{4, 7} <= {s.index for s in suspect_shifts(points, spread=0.01)} for points in lines]
        assert sum(hits) >= 0.9 * 40

    def test_a_step_of_three_times_the_noise_is_still_found(self) -> None:
        lines = [self.runs([100.0] * 6 + [106.0] * 6, 0.017, seed) for seed in range(80)]
        hits = [any(abs(s.index - 6) <= 2 for s in suspect_shifts(points, spread=0.017)) for points in lines]
        assert sum(hits) >= 0.85 * 80

    def test_with_a_known_spread_single_trials_say_something(self) -> None:
        assert found(suspect_shifts(single([100.0] * 5 + [200.0] * 5), spread=0.02)) == [(5, 1)]


class TestDegenerate:
    @pytest.mark.parametrize("n", [0, 1])
    def test_fewer_than_two_points_have_no_shift(self, n: int) -> None:
        assert suspect_shifts([Point((1.0, 2.0))] * n) == []

    @pytest.mark.parametrize("value", [5.0, 0.0, -3.0])
    def test_a_constant_series_has_no_shift(self, value: float) -> None:
        assert suspect_shifts([Point((value,))] * 100) == []

    def test_a_constant_series_that_moves(self) -> None:
        assert found(suspect_shifts([Point((5.0,))] * 30 + [Point((6.0,))] * 30)) == [(30, 1)]

    def test_zeros_and_negative_values_are_judged_by_difference(self) -> None:
        rng = np.random.default_rng(1)
        values = [*rng.normal(0, 1, 60), *rng.normal(20, 1, 60)]
        (shift,) = [s for s in suspect_shifts([Point((float(v),)) for v in values]) if s.index == 60]
        assert shift.ratio > 1
        (rise,) = suspect_shifts([Point((0.0,))] * 30 + [Point((4.0,))] * 30)
        assert rise.index == 30
        assert rise.ratio > 1

    def test_what_is_not_a_number_is_refused(self) -> None:
        with pytest.raises(ValueError):
            suspect_shifts([Point((1.0,)), Point((math.nan,))])

    @settings(max_examples=60)
    @given(
        st.lists(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=5), max_size=40),
        st.sampled_from([0.001, 0.01, 0.2]),
    )
    def test_any_input_has_finite_shifts_inside_the_series(self, values: list[list[float]], effect: float) -> None:
        for shift in suspect_shifts([Point(tuple(v)) for v in values], smallest_effect=effect):
            assert 1 <= shift.index <= shift.seen < len(values)
            assert all(map(math.isfinite, (shift.low, shift.ratio, shift.high, shift.score)))
            assert shift.low <= shift.ratio <= shift.high

    @settings(max_examples=20)
    @given(st.floats(1e-3, 1e3), st.integers(0, 1000))
    @example(7.3, 182)
    @example(59.5, 22)
    def test_the_unit_of_a_metric_does_not_matter(self, unit: float, seed: int) -> None:
        points = single([100.0] * 30 + [108.0] * 20, 0.02, seed)
        scaled = [Point(tuple(unit * v for v in point.values)) for point in points]
        assert found(suspect_shifts(points)) == found(suspect_shifts(scaled))


def test_agreement_counts_pairs() -> None:
    assert _agreement(np.array([1.0, 2.0]), np.array([1.5, 3.0]), 1.0) == 0.75
    assert _agreement(np.array([1.0, 2.0]), np.array([1.5, 3.0]), -1.0) == 0.25


def test_place_is_the_split_of_least_deviation() -> None:
    level = np.array([0.0, 1.0, 0.0, 1.0, 0.0, 9.0, 8.0, 9.0])
    assert _place(level, 0, 7, 7) == 5


@pytest.mark.parametrize("seed", range(5))
def test_many_lines_at_once_show_exactly_what_each_shows_by_itself(seed: int) -> None:
    """Shorter lines are filled up to the longest one; bit for bit, as stored suspicions are compared with new ones."""
    rng = random.Random(seed)
    lines = []
    for length in (1, 2, 11, 40, 64, 65, 130, 300, 420):
        levels = [100.0 * rng.choice((1, 1.1)) ** (i > length // 2) - 100 * (seed == 4) for i in range(length)]
        lines.append([Point(tuple(level + rng.gauss(0, 1) for _ in range(rng.choice((1, 5))))) for level in levels])
    trials = [Trials.of([point.values for point in line]) for line in lines]
    together = [suspect_shifts_in(line, smallest_effect=0.01, spread=0.01) for line in placed_lines(trials * 3)]
    assert together == 3 * [suspect_shifts(line, smallest_effect=0.01, spread=0.01) for line in lines]
    assert any(together)
