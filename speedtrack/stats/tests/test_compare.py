from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from speedtrack.stats.arrays import Array
from speedtrack.stats.comparing.compare import (
    Comparison,
    ComparisonAnswer,
    benjamini_hochberg,
    compare_exact,
    compare_samples,
    pairs_to_settle,
    settle_counts,
    settle_pairs,
    tail_share,
)
from speedtrack.stats.comparing.confirmed import least_size
from speedtrack.stats.comparing.resampling import RESAMPLES, resampled_interval, walsh_averages
from speedtrack.stats.comparing.sequential import change_evidence, level_evidence

CV = 0.017  # of one trial: CPU time per request of a fresh server process


def trials(rng: np.random.Generator, n: int, level: float = 100.0, cv: float = CV) -> list[float]:
    return [float(x) for x in level * np.exp(rng.normal(0, cv, n))]


def pairs_of(rng: np.random.Generator, n: int, ratio: float) -> list[tuple[float, float]]:
    return list(zip(trials(rng, n), trials(rng, n, 100 * ratio), strict=True))


def settled(pairs: list[tuple[float, float]], suspected: float = 1.0) -> Comparison:
    return settle_pairs(pairs, smallest_effect=0.01, level=0.01, seed=1, suspected=suspected)


class TestCompare:
    def test_a_large_step_is_different(self) -> None:
        rng = np.random.default_rng(1)
        found = compare_samples(trials(rng, 8), trials(rng, 8, 115), smallest_effect=0.01, seed=1)
        assert found.answer is ComparisonAnswer.DIFFERENT
        assert found.low < 1.15 < found.high
        assert found.n == (8, 8)

    def test_swapped_sides_give_the_inverse_ratio(self) -> None:
        rng = np.random.default_rng(2)
        before, after = trials(rng, 9), trials(rng, 7, 104)
        there = compare_samples(before, after, smallest_effect=0.01, seed=1)
        back = compare_samples(after, before, smallest_effect=0.01, seed=1)
        assert there.ratio == pytest.approx(1 / back.ratio)
        assert there.p == pytest.approx(back.p)

    def test_ratio_and_p_are_those_of_scipy(self) -> None:
        rng = np.random.default_rng(3)
        before, after = trials(rng, 9), trials(rng, 11, 101)
        found = compare_samples(before, after, smallest_effect=0.01, seed=1)
        assert found.ratio == pytest.approx(np.median(after) / np.median(before))
        assert found.p == pytest.approx(stats.mannwhitneyu(before, after, method="exact").pvalue)

    def test_interval_agrees_with_scipys_bootstrap(self) -> None:
        rng = np.random.default_rng(4)
        before, after = trials(rng, 60), trials(rng, 60, 102)
        found = compare_samples(before, after, smallest_effect=0.01, seed=1)
        logs = (np.log(before), np.log(after))
        reference = stats.bootstrap(
            logs, lambda a, b, axis: np.median(b, axis) - np.median(a, axis), method="percentile", rng=5
        ).confidence_interval
        width = reference.high - reference.low
        assert math.log(found.low) == pytest.approx(reference.low, abs=0.15 * width)
        assert math.log(found.high) == pytest.approx(reference.high, abs=0.15 * width)

    def test_many_equal_trials_are_the_same(self) -> None:
        rng = np.random.default_rng(5)
        assert (
            compare_samples(trials(rng, 400), trials(rng, 400), smallest_effect=0.02, seed=1).answer
            is ComparisonAnswer.SAME
        )

    def test_a_significant_trifle_is_not_different(self) -> None:
        rng = np.random.default_rng(6)
        found = compare_samples(trials(rng, 900), trials(rng, 900, 100.5), smallest_effect=0.02, seed=1)
        assert found.p < 0.01
        assert found.answer is ComparisonAnswer.SAME

    @pytest.mark.parametrize("ratio", [1.015, 1 / 1.015])
    def test_an_interval_that_leaves_the_smallest_effect_on_one_side_is_not_the_same(self, ratio: float) -> None:
        rng = np.random.default_rng(10)
        found = compare_samples(trials(rng, 100), trials(rng, 100, 100 * ratio), smallest_effect=0.016, seed=1)
        assert found.low < 1 / 1.016 or found.high > 1.016
        assert found.answer is not ComparisonAnswer.SAME

    def test_few_noisy_trials_are_unknown(self) -> None:
        rng = np.random.default_rng(7)
        assert (
            compare_samples(trials(rng, 5), trials(rng, 5), smallest_effect=0.001, seed=1).answer
            is ComparisonAnswer.UNKNOWN
        )

    @pytest.mark.parametrize("n", [1, 2, 4])
    def test_below_five_samples_nothing_is_known(self, n: int) -> None:
        assert (
            compare_samples([100.0] * n, [100.0] * 9, smallest_effect=0.01, seed=1).answer is ComparisonAnswer.UNKNOWN
        )
        assert (
            compare_samples([100.0] * 9, [200.0] * n, smallest_effect=0.01, seed=1).answer is ComparisonAnswer.UNKNOWN
        )

    def test_constant_metrics(self) -> None:
        assert compare_samples([7.0] * 5, [7.0] * 5, smallest_effect=0.01, seed=1).answer is ComparisonAnswer.SAME
        assert compare_samples([7.0] * 5, [8.0] * 5, smallest_effect=0.01, seed=1).answer is ComparisonAnswer.DIFFERENT

    def test_zeros_are_compared_by_difference(self) -> None:
        same = compare_samples([0.0] * 6, [0.0] * 6, smallest_effect=0.01, seed=1)
        assert (same.answer, same.ratio) == (ComparisonAnswer.SAME, 1.0)
        rise = compare_samples([0.0] * 6, [4.0] * 6, smallest_effect=0.01, seed=1)
        assert rise.answer is ComparisonAnswer.DIFFERENT
        assert rise.ratio > 1
        fall = compare_samples([-1.0, -1.1, -0.9, -1.0, -1.0, -1.05], [-2.0] * 6, smallest_effect=0.01, seed=1)
        assert fall.answer is ComparisonAnswer.DIFFERENT
        assert fall.ratio < 1

    def test_few_samples_have_the_interval_of_all_resamples(self) -> None:
        rng = np.random.default_rng(7)
        for n in (1, 3, 5):
            before, after = np.array(trials(rng, n)), np.array(trials(rng, n))
            old, new = (np.median([*product(side, repeat=n)], axis=1) for side in (np.log(before), np.log(after)))
            every = np.sort(np.subtract.outer(new, old).ravel())
            tail = tail_share(n)
            low, high = every[int(tail * len(every))], every[-1 - int(tail * len(every))]
            found = compare_samples(before.tolist(), after.tolist(), smallest_effect=0.01, seed=1)
            assert (found.low, found.high) == (pytest.approx(np.exp(low)), pytest.approx(np.exp(high)))

    def test_the_seed_alone_decides(self) -> None:
        rng = np.random.default_rng(8)
        before, after = trials(rng, 20), trials(rng, 20)
        first = compare_samples(before, after, smallest_effect=0.01, seed=3)
        assert first == compare_samples(before, after, smallest_effect=0.01, seed=3)
        assert first != compare_samples(before, after, smallest_effect=0.01, seed=4)

    def test_an_empty_side_is_refused(self) -> None:
        with pytest.raises(ValueError):
            compare_samples([], [1.0], smallest_effect=0.01, seed=1)

    def test_false_answers_are_rare_without_a_change(self) -> None:
        rng = np.random.default_rng(9)
        wrong = sum(
            compare_samples(trials(rng, 8), trials(rng, 8), smallest_effect=0.001, seed=i).answer
            is ComparisonAnswer.DIFFERENT
            for i in range(400)
        )
        assert wrong <= stats.binom.ppf(0.999, 400, 0.01)


class TestSettle:
    def test_estimate_is_hodges_lehmann(self) -> None:
        pairs = pairs_of(np.random.default_rng(1), 12, 1.03)
        steps = np.array([math.log(head / base) for base, head in pairs])
        walsh = [(steps[i] + steps[j]) / 2 for i in range(12) for j in range(i, 12)]
        assert settled(pairs).ratio == pytest.approx(math.exp(np.median(walsh)))

    def test_interval_covers_the_true_ratio(self) -> None:
        rng = np.random.default_rng(2)
        found = [settled(pairs_of(rng, 6, 1.03)) for _ in range(600)]
        covered = sum(one.low <= 1.03 <= one.high for one in found)
        assert stats.binom.cdf(covered, 600, 0.95) > 0.001

    @pytest.mark.parametrize(
        ("change", "spread", "suspicions"),
        [
            (0.01, 0.002, 200),
            (0.05, 0.002, 200),
            (0.01, 0.01, 200),
            (0.02, 0.017, 200),
            (0.1, 0.017, 200),
            (0.01, 0.04, 2500),
            (0.05, 0.04, 200),
            (0.02, 0.08, 2500),
        ],
    )
    def test_the_interval_of_a_confirmed_change_holds_the_true_one(
        self, change: float, spread: float, suspicions: int
    ) -> None:
        """Also where chance must have helped to confirm it, and the estimate is three times too large."""
        rng = np.random.default_rng([13, int(1e3 * change), int(1e3 * spread)])
        suspected = 1 + max(0.02, change)
        effect = max(math.log1p(0.01), math.log(suspected) / 3)
        rows = math.log1p(change) + spread * math.sqrt(2) * rng.normal(size=(suspicions, 120))
        covered = []
        for n in (7, 10, 15, 23, 35, 52, 80, 120):
            is_clear = change_evidence(rows[:, :n], effect) >= -math.log(0.01)
            for steps in rows[is_clear, :n]:
                found = settled([(1.0, math.exp(step)) for step in steps], suspected=suspected)
                covered.append(found.low <= 1 + change <= found.high)
            rows = rows[~is_clear & (level_evidence(rows[:, :n], effect) > math.log(0.15))]
        assert len(covered) >= 80
        assert sum(covered) >= stats.binom.ppf(0.001, len(covered), 0.94)

    def test_a_common_drift_of_both_sides_does_not_matter(self) -> None:
        rng = np.random.default_rng(3)
        pairs = pairs_of(rng, 16, 1.05)
        drifting = [(base * 1.1**k, head * 1.1**k) for k, (base, head) in enumerate(pairs)]
        assert settled(drifting).answer is ComparisonAnswer.DIFFERENT
        assert settled(drifting).ratio == pytest.approx(settled(pairs).ratio)

    def test_one_wild_pair_does_not_decide(self) -> None:
        pairs = pairs_of(np.random.default_rng(4), 20, 1.0)
        wild = [*pairs[:-1], (100.0, 300.0)]
        assert settled(wild).answer is not ComparisonAnswer.DIFFERENT
        assert abs(settled(wild).ratio - settled(pairs).ratio) < 0.01

    def test_equal_pairs_are_the_same_and_too_few_are_unknown(self) -> None:
        assert settled([(5.0, 5.0)] * 7).answer is ComparisonAnswer.SAME
        assert settled([(5.0, 5.0)] * 6).answer is ComparisonAnswer.UNKNOWN
        assert settled([(5.0, 9.0)]).answer is ComparisonAnswer.UNKNOWN

    def test_a_change_of_a_fifth_is_settled_by_the_first_seven_pairs(self) -> None:
        rng = np.random.default_rng(8)
        for ratio in (1.2, 1 / 1.2, 1.6):
            found = [settled(pairs_of(rng, 7, ratio), suspected=ratio).answer for _ in range(100)]
            assert found.count(ComparisonAnswer.DIFFERENT) >= 99

    def test_only_the_suspected_direction_is_confirmed(self) -> None:
        pairs = pairs_of(np.random.default_rng(9), 12, 1.06)
        assert settled(pairs, suspected=1.06).answer is ComparisonAnswer.DIFFERENT
        assert settled(pairs, suspected=0.94).answer is ComparisonAnswer.SAME
        assert settled(pairs).p == pytest.approx(2 * settled(pairs, suspected=1.03).p)

    def test_a_sure_but_too_small_change_is_refuted(self) -> None:
        rng = np.random.default_rng(10)
        pairs = list(zip(trials(rng, 40, cv=0.001), trials(rng, 40, 100.3, cv=0.001), strict=True))
        found = settled(pairs, suspected=1.02)
        assert found.p < 0.01 and found.answer is ComparisonAnswer.SAME

    def test_the_next_look_is_nearer_the_clearer_the_pairs_are(self) -> None:
        def wanted(ratio: float, n: int, cv: float) -> int:
            rng = np.random.default_rng(11)
            pairs = list(zip(trials(rng, n, cv=cv), trials(rng, n, 100 * ratio, cv=cv), strict=True))
            return pairs_to_settle(pairs, smallest_effect=0.01, level=0.01, suspected=1.02)

        assert wanted(1.0, 3, 0.01) == 7
        assert 2 <= wanted(1.0, 10, 0.01) <= wanted(1.0, 10, 0.03) <= 10
        assert wanted(1.005, 30, 0.02) > wanted(1.015, 30, 0.02)

    def test_values_of_zero_have_an_answer(self) -> None:
        assert settled([(0.0, 0.0)] * 8).answer is ComparisonAnswer.SAME
        assert settled([(0.0, 1.0)] * 8).answer is ComparisonAnswer.DIFFERENT

    def test_no_pairs_are_refused(self) -> None:
        with pytest.raises(ValueError):
            settled([])

    @pytest.mark.parametrize("suspected", [1.0, 1.02])
    @pytest.mark.parametrize("noise", [0.002, 0.0])
    def test_of_all_orders_in_slots_that_differ_at_most_the_level_is_confirmed(
        self, suspected: float, noise: float
    ) -> None:
        """Slots that differ by 3%, and hardly any other noise: of six equal signs one in 64 would be too many."""
        sizes = 0.03 + noise * np.random.default_rng(12).normal(size=9)
        confirmed = np.zeros(2 ** len(sizes), dtype=bool)
        for n in (6, 7, 9):
            orders = np.array(list(product([-1, 1], repeat=n)))
            found = [self.is_confirmed(order * sizes[:n], suspected) for order in orders]
            confirmed |= np.repeat(found, 2 ** (len(sizes) - n))
        assert confirmed.mean() <= 0.01

    @staticmethod
    def is_confirmed(steps: Array, suspected: float) -> bool:
        pairs = [(1.0, math.exp(step)) for step in steps]
        return settled(pairs, suspected=suspected).answer is ComparisonAnswer.DIFFERENT

    @pytest.mark.parametrize(("ratio", "n", "least"), [(1.05, 15, 0.9), (1.03, 27, 0.9), (1.02, 60, 0.9)])
    def test_power_within_some_pairs(self, ratio: float, n: int, least: float) -> None:
        rng = np.random.default_rng(6)
        found = [settled(pairs_of(rng, n, ratio), suspected=ratio).answer for _ in range(200)]
        assert found.count(ComparisonAnswer.DIFFERENT) / 200 >= least

    def test_a_change_a_third_of_what_was_suspected_is_not_refuted(self) -> None:
        """A fresh suspicion overstates the change: +4% at a spread of 4% first looked like +12%."""
        rng = np.random.default_rng(1)
        answers = []
        for _ in range(40):
            pairs = list(zip(trials(rng, 40, cv=0.04), trials(rng, 40, 104.0, cv=0.04), strict=True))
            for n in (6, 10, 20, 40):
                found = settled(pairs[:n], suspected=1.12).answer
                if found != ComparisonAnswer.UNKNOWN:
                    break
            answers.append(found)
        assert answers.count(ComparisonAnswer.SAME) <= 1
        assert answers.count(ComparisonAnswer.DIFFERENT) >= 28

    @settings(max_examples=30)
    @given(st.lists(st.tuples(st.floats(0.1, 1e3), st.floats(0.1, 1e3)), min_size=1, max_size=12))
    def test_swapping_the_sides_turns_the_answer_around(self, pairs: list[tuple[float, float]]) -> None:
        there, back = settled(pairs), settled([(head, base) for base, head in pairs])
        assert there.ratio == pytest.approx(1 / back.ratio)
        assert there.p == pytest.approx(back.p)
        assert there.low <= there.ratio * (1 + 1e-9) and there.ratio <= there.high * (1 + 1e-9)


class TestBenjaminiHochberg:
    @given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.sampled_from([0.01, 0.05, 0.2]))
    def test_is_that_of_scipy(self, p_values: list[float], level: float) -> None:
        adjusted = stats.false_discovery_control(p_values)
        if np.any(np.abs(adjusted - level) < 1e-12):
            return
        assert benjamini_hochberg(p_values, level) == (adjusted <= level).tolist()

    def test_one_clear_and_one_borderline(self) -> None:
        assert benjamini_hochberg([0.001, 0.04, 0.9], 0.05) == [True, False, False]
        assert benjamini_hochberg([0.001, 0.03, 0.9], 0.05) == [True, True, False]
        assert benjamini_hochberg([], 0.05) == []


@pytest.mark.parametrize(("n", "share"), [(1, 0.0), (5, 0.00095410), (10, 0.00855064), (1000, 0.02480431)])
def test_the_share_cut_from_each_end_is_smaller_for_few_pairs(n: int, share: float) -> None:
    assert tail_share(n) == pytest.approx(share, rel=1e-5)


@pytest.mark.parametrize("values", [[1.0, 2.0, 4.0, 9.0], [3.0] * 6, [1.0, 1.0, 2.0, 2.0, 2.0, 7.0, 7.5]])
def test_the_interval_of_resamples_is_that_of_their_estimates(values: list[float]) -> None:
    steps = np.sort(np.array([*values, *np.random.default_rng(1).normal(3, 2, 20).round(1)]))
    rng = np.random.default_rng(2)
    estimates = [float(np.median(walsh_averages(rng.choice(steps, len(steps))))) for _ in range(RESAMPLES)]
    low, high = resampled_interval(np.random.default_rng(3), steps, np.sort(walsh_averages(steps)))
    tail = tail_share(len(steps))
    assert low == pytest.approx(float(np.quantile(estimates, tail)), abs=0.15)
    assert high == pytest.approx(float(np.quantile(estimates, 1 - tail)), abs=0.15)


def test_the_interval_of_equal_steps_is_a_point() -> None:
    assert resampled_interval(np.random.default_rng(1), np.full(9, 0.3), np.full(45, 0.3)) == (0.3, 0.3)


@pytest.mark.parametrize(
    ("after", "answer"),
    [
        (100, ComparisonAnswer.SAME),
        (100.5, ComparisonAnswer.SAME),
        (101, ComparisonAnswer.DIFFERENT),
        (98, ComparisonAnswer.DIFFERENT),
    ],
)
def test_values_without_noise_need_no_second_sample(after: float, answer: ComparisonAnswer) -> None:
    found = compare_exact(100, after, smallest_effect=0.01)
    assert (found.answer, found.ratio, found.low, found.high) == (answer, after / 100, after / 100, after / 100)


@pytest.mark.parametrize(
    ("before", "after", "ratio"),
    [(0, 0, 1), (0, 5, 2), (5, 0, 0), (-4, 5, 2.8), (-4, -2, 1.5), (5e-324, 0, 0), (-1e308, 1e308, 3), (0, -1e-300, 0)],
)
def test_values_of_zero_and_below_are_compared_by_their_difference(before: float, after: float, ratio: float) -> None:
    found = compare_exact(before, after, smallest_effect=0.01)
    assert found.ratio == pytest.approx(ratio)
    assert found.answer is (ComparisonAnswer.SAME if before == after else ComparisonAnswer.DIFFERENT)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_finite_number_is_not_compared(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        compare_exact(1.0, value, smallest_effect=0.01)
    with pytest.raises(ValueError, match="finite"):
        compare_samples([1.0, value], [1.0, 2.0], smallest_effect=0.01, seed=1)


def counts(rng: np.random.Generator, n: int, ratio: float = 1.0, noise: float = 0.0003) -> list[tuple[float, float]]:
    """Counts of n processes of both sides."""
    return [(4000 * rng.normal(1, noise), 4000 * ratio * rng.normal(1, noise)) for _ in range(n)]


def settle_four(pairs: list[tuple[float, float]], suspected: float = 1.0) -> Comparison:
    return settle_counts(pairs, smallest_effect=0.002, level=0.002, suspected=suspected)


def test_four_counts_of_each_side_settle_a_small_change() -> None:
    rng = np.random.default_rng(5)
    found = [settle_four(counts(rng, 4, 1.01, 0.0001), 1.01) for _ in range(200)]
    assert sum(one.answer == ComparisonAnswer.DIFFERENT for one in found) >= 190
    assert found[0].ratio == pytest.approx(1.01, abs=0.0005) and found[0].n == (4, 4)


def test_counts_of_one_program_are_hardly_ever_different_and_mostly_the_same() -> None:
    rng = np.random.default_rng(6)
    found = [settle_four(counts(rng, 4), 1.01) for _ in range(3000)]
    assert sum(one.answer == ComparisonAnswer.DIFFERENT for one in found) <= 3  # stated: 0.2% of each look
    assert sum(one.answer == ComparisonAnswer.SAME for one in found) >= 2700


def test_a_process_with_bad_luck_confirms_nothing_and_keeps_no_question_open() -> None:
    """A name that shares its bucket with another one under one seed of four costs 2%, on one side only."""
    lucky = (4000.0, 4000.2)
    assert settle_four([(4000.0, 4080.0), lucky, lucky, lucky], 1.02).answer == ComparisonAnswer.SAME
    assert settle_four([(4000.0, 4080.0)] * 2 + [lucky] * 2, 1.02).answer == ComparisonAnswer.UNKNOWN
    assert settle_four([(4000.0, 4080.0)] * 4, 1.02).answer == ComparisonAnswer.DIFFERENT


def test_equal_counts_are_the_same_and_three_are_not_enough() -> None:
    assert settle_four([(4000.0, 4000.0)] * 4).answer == ComparisonAnswer.SAME
    with pytest.raises(ValueError, match="fewer than 4 counts"):
        settle_four([(4000.0, 4000.0)] * 3)


def test_counts_of_processes_that_take_one_of_two_levels_by_chance_are_confirmed_at_most_by_the_level() -> None:
    """Of all levels of eight processes. Three pairs would all show the higher one on the suspected side in 1 of 64."""
    wrong = 0
    for levels in product([4000.0, 4080.0], repeat=8):
        found = settle_four(list(zip(levels[::2], levels[1::2], strict=True)), 1.02)
        wrong += found.answer == ComparisonAnswer.DIFFERENT and found.ratio > 1
    assert wrong / 2**8 <= 0.01


def test_the_least_size_of_a_confirmed_change() -> None:
    assert least_size(0.2, 0.01, 0.15) == pytest.approx(0.2 - 1.96 * 0.01, abs=1e-4)
    assert least_size(0.032, 0.01, 0.0) == 0.0
    assert 0.0 < least_size(0.05, 0.01, 0.018) < 0.05 - 1.96 * 0.01
    assert least_size(0.3, 0.0, 0.1) == 0.3


@given(st.floats(0.02, 0.2), st.floats(0.0, 1.0))
def test_among_confirmed_estimates_one_in_forty_lies_above_the_least_size_by_as_much(
    error: float, share: float
) -> None:
    estimate, overshoot = 1.0, share
    least = least_size(estimate, error, overshoot)
    if least > 0:
        confirmed = stats.norm.sf((estimate - overshoot - least) / error)
        assert stats.norm.sf((estimate - least) / error) <= 0.0251 * confirmed
