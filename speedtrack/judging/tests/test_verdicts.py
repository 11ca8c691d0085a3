"""Verdicts and totals, as functions of numbers."""

import math

import pytest

from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.judging.totals import total_of
from speedtrack.judging.verdicts import Basis, Circumstances, Judgement, Ruling, ruling_of, words_of, worst_of

CPU, RATE = METRICS["server_cpu_ns_per_request"], METRICS["throughput_rps"]
SLOWER = Answer(1.2, 1.19, 1.21, "different")


def judgement(verdict: Ruling, ratio: float = 1.0, reach: float = 0.01) -> Judgement:
    return Judgement(CPU, verdict, ratio, ratio * (1 - reach), ratio * (1 + reach), Basis.SAMPLES)


def test_a_difference_is_judged_by_the_direction_of_the_metric() -> None:
    assert ruling_of(CPU, SLOWER) == Ruling.WORSE and ruling_of(RATE, SLOWER) == Ruling.BETTER
    assert ruling_of(CPU, SLOWER._replace(answer="same")) == Ruling.SAME
    assert ruling_of(CPU, SLOWER._replace(answer="unknown")) == Ruling.UNCERTAIN
    assert words_of(Ruling.WORSE, CPU) == "slower" and words_of(Ruling.SAME_PROGRAM, CPU) == "same program"


@pytest.mark.parametrize(
    ("circumstances", "verdict"),
    [
        (Circumstances(flagged=True), Ruling.FLAGGED),
        (Circumstances(flagged=True, same_program=True), Ruling.SAME_PROGRAM),
        (Circumstances(same_program=True, comparable=False), Ruling.NOT_COMPARABLE),
    ],
)
def test_what_voids_a_difference_takes_its_colour(circumstances: Circumstances, verdict: Ruling) -> None:
    assert ruling_of(CPU, SLOWER, circumstances) == verdict
    assert judgement(verdict).look == "same" and judgement(verdict).sign == ""


def test_a_ratio_that_is_no_number_is_not_comparable() -> None:
    assert ruling_of(CPU, Answer(math.inf, 1.0, math.inf, "different")) == Ruling.NOT_COMPARABLE


def test_a_total_says_what_it_rests_on_and_leaves_out_what_is_void() -> None:
    """p99 of one clean benchmark of three; a flagged one fell to 0.41 in its only trial."""
    void = Judgement(CPU, Ruling.FLAGGED, 0.41, 0.41, 0.41, Basis.SAMPLES)
    total = total_of(CPU, [judgement(Ruling.SAME), void], of=3)
    assert total.rests_on == "1 of 3 benchmarks" and total.mean and total.mean.ratio == pytest.approx(1.0)
    assert (total.verdict, total.look) == (Ruling.SAME, "same")
    alone = total_of(CPU, [void], of=3)
    assert (alone.mean, alone.verdict, alone.look, alone.interval) == (None, Ruling.FLAGGED, "same", None)


def test_one_value_has_no_interval() -> None:
    single = Judgement(CPU, Ruling.UNCERTAIN, 0.41, 0.41, 0.41, Basis.SAMPLES)
    total = total_of(CPU, [single])
    assert single.interval is None and total.interval is None and total.mean and total.look == "same"


def test_a_total_has_a_colour_only_if_a_member_is_certain() -> None:
    """Ten benchmarks that are each 5% slower, none of which is certain, make a mean that is far from 1."""
    unsure = [judgement(Ruling.UNCERTAIN, 1.05) for _ in range(10)]
    assert total_of(CPU, unsure).verdict == Ruling.UNCERTAIN
    assert total_of(CPU, [*unsure, judgement(Ruling.WORSE, 1.2)]).verdict == Ruling.WORSE
    assert total_of(CPU, [*unsure, judgement(Ruling.BETTER, 0.9)]).verdict == Ruling.UNCERTAIN, "the other way"


def test_a_total_of_one_benchmark_is_its_judgement() -> None:
    for verdict in Ruling:
        assert total_of(CPU, [judgement(verdict, 1.2)]).verdict == verdict


def test_a_mean_that_may_be_chance_at_the_1_percent_level_has_no_colour() -> None:
    """A mean of 5%: a standard error of 2.1% excludes 0 at the 5% level, and not at the 1% level."""
    for error, verdict in ((0.005, Ruling.WORSE), (0.021, Ruling.UNCERTAIN)):
        reach = 1.96 * error * math.sqrt(2)
        member = Judgement(CPU, Ruling.WORSE, 1.05, 1.05 * math.exp(-reach), 1.05 * math.exp(reach), Basis.SAMPLES)
        assert total_of(CPU, [member, member._replace(verdict=Ruling.UNCERTAIN)]).verdict == verdict


def test_a_benchmark_of_the_same_program_counts_as_unchanged() -> None:
    total = total_of(CPU, [judgement(Ruling.SAME_PROGRAM, 10.73)])
    assert total.mean and (total.mean.ratio, total.verdict, total.look) == (1.0, Ruling.SAME_PROGRAM, "same")


def test_the_worst_of_several_is_one_that_says_something() -> None:
    assert worst_of({Ruling.FLAGGED, Ruling.SAME}) == Ruling.SAME
    assert worst_of({Ruling.BETTER, Ruling.UNCERTAIN}) == Ruling.UNCERTAIN
    assert worst_of(set()) is None
