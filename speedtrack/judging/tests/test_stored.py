"""Answers that detection stored: whichever way a judgement takes, it is the same."""

import math
from random import Random

from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.judging.evidence import OF_INITIALS, Ends, Evidence, JudgedSeries, TwoSides, stored_answers
from speedtrack.judging.judge import judged, judged_as_stored, stored_finding
from speedtrack.judging.verdicts import Basis, Ruling
from speedtrack.stats.comparing.compare import ComparisonAnswer

BASE, HEAD, DISTANCE = 7, 9, 3


def random_row(random: Random, count: int) -> tuple[list[int], list[str], list[list[float]]]:
    """A row of EVIDENCE: the stored answers of so many series."""
    ratios = [random.choice([random.uniform(0.5, 2), 1.0, math.inf, 0.0]) for _ in range(count)]
    numbers = [[random.uniform(1, 9) for _ in ratios], ratios, [r * 0.9 for r in ratios], [r * 1.1 for r in ratios]]
    return [BASE, HEAD, DISTANCE, *range(count)], random.choices([*OF_INITIALS], k=count), numbers


def test_what_the_answer_alone_decides_is_judged_as_with_all_evidence() -> None:
    random, metrics = Random(3), [*METRICS.values()]
    row = random_row(random, 300)
    series = {pk: JudgedSeries(pk % 2, pk, f"b{pk}", random.choice(metrics), None, None) for pk in range(300)}
    flagged = [([pk, commit], [], []) for pk, commit in ((3, HEAD), (4, BASE), (5, 8))]
    changes = [([6, HEAD, width], ["d"], [2.0, 1.9, 2.1]) for width in (1, 4)]
    stored = stored_answers([row], flagged, changes)
    for same_program in (frozenset[Ends](), frozenset({Ends(1, BASE, HEAD)})):
        evidence = Evidence(series, stored, same_program=same_program)
        judgements = {side: judged_as_stored(side, evidence) for side in stored}
        assert judgements == {side: judged(stored_finding(side, evidence), evidence) for side in stored}
    verdicts = {side.series_id: judgement.verdict for side, judgement in judgements.items()}
    assert set(verdicts.values()) == set(Ruling)
    assert all(verdicts[pk] == Ruling.SAME_PROGRAM for pk in range(1, 300, 2) if math.isfinite(row[2][1][pk]))
    assert judgements[TwoSides(6, BASE, HEAD)].basis == Basis.CHANGE


def test_flags_and_changes_belong_to_their_commits() -> None:
    """A change whose range is longer than the way between both commits is not one between them."""
    row = ([BASE, HEAD, DISTANCE, 1, 2, 3, 4], ["s", "d", "u", "s"], [[1.0] * 4, [1.1] * 4, [1.0] * 4, [1.2] * 4])
    flagged = [([1, HEAD], [], []), ([2, BASE], [], []), ([3, 8], [], []), ([9, HEAD], [], [])]
    changes = [([4, HEAD, width], ["d"], [ratio, 1.0, 2.0]) for width, ratio in ((3, 1.3), (2, 1.4), (4, 1.5))]
    changes.append(([3, HEAD, 4], ["d"], [1.6, 1.0, 2.0]))
    stored = {side.series_id: answer for side, answer in stored_answers([row], flagged, changes).items()}
    assert [stored[pk].flagged for pk in (1, 2, 3, 4)] == [True, True, False, False]
    assert [stored[pk].change is not None for pk in (1, 2, 3, 4)] == [False, False, False, True]
    assert stored[4].change == Answer(1.4, 1.0, 2.0, ComparisonAnswer.DIFFERENT)
    assert stored[2] == (DISTANCE, 1.0, Answer(1.1, 1.0, 1.2, ComparisonAnswer.DIFFERENT), True, None)
