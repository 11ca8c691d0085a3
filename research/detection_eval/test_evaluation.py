from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from research.detection_eval.__main__ import MARKS, write
from research.detection_eval.cells import f1, per_thousand, share
from research.detection_eval.detectors import peers, tracker
from research.detection_eval.detectors.beside import PeerScore
from research.detection_eval.detectors.cost import CostCase, DetectionCost, of_a_point
from research.detection_eval.detectors.settling import Case, NarrowingResult, Rounds, narrowings_of, rounds_of
from research.detection_eval.findings import EvaluationFindings
from research.detection_eval.goals import of_settling
from research.detection_eval.lines import noise
from research.detection_eval.lines.datasets import SAP
from research.detection_eval.lines.lines import Line
from research.detection_eval.report import summary, tables
from research.detection_eval.scores import Record, TrackedChange, match, score, sum_at_first
from research.detection_eval.store import Store

STEP = 40
PAGE = Path(__file__).resolve().parents[2] / "docs" / "detection.md"


def line_of(change: float, seed: int) -> Line:
    """60 commits of 1% noise with one step."""
    level = np.where(np.arange(60) < STEP, 100.0, 100.0 * (1 + change))
    values = level * np.exp(0.01 * np.random.default_rng(seed).normal(size=60))
    truth, size = ([(STEP, 1)], [change]) if change else ([], [])
    return Line(f"step of {change:.0%}", [[float(v)] for v in values], truth, size, level.tolist())


@pytest.mark.django_db
def test_a_planted_slowdown_is_confirmed_at_its_commit() -> None:
    record = tracker.track(line_of(0.1, seed=1), seed=1)
    found = score([record])
    assert (found.hits, found.false, found.exact, found.wrong) == (1, 0, 1, 0)
    assert [one.range for one in record.confirmed] == [(STEP - 1, STEP)]
    assert record.pairs > 0
    assert record.error == ""


@pytest.mark.django_db
def test_a_line_without_a_change_has_none_confirmed() -> None:
    record = tracker.track(line_of(0.0, seed=2), seed=1)
    assert record.confirmed == []
    assert score([record]).false_rate == 0
    assert record.error == ""


def test_losses_are_told_by_the_stage_at_which_they_happened() -> None:
    line = Line("five", [[1.0]] * 200, [(20, 1), (60, 1), (100, -1), (140, 1), (180, 1)], [0.1] * 5)
    found = [
        TrackedChange(61, 1, [60], "refuted", (56, 61), (56, 61)),
        TrackedChange(101, -1, [104], "refuted", (101, 106), (101, 106)),
        TrackedChange(141, 1, [140], "confirmed", (136, 141), (139, 140), 141),
        TrackedChange(181, 1, [180], "unsettled", (176, 181), (176, 181)),
    ]
    total = score([Record(line, found)])
    assert total.losses == {
        "never suspected": 1,
        "refuted, though in the bracket": 1,
        "beside the bracket": 1,
        "unsettled": 1,
    }
    assert (total.suspected, total.hits, total.exact) == (4, 1, 1)


def test_one_report_answers_for_one_change_of_its_direction() -> None:
    twice = [
        TrackedChange(21, 1, [20], "confirmed", None, (19, 20), 21),
        TrackedChange(25, 1, [22], "confirmed", None, (21, 22), 25),
    ]
    assert match([(20, 1)], twice, 5) == {0: 0}
    assert match([(20, -1)], twice, 5) == {}
    assert score([Record(Line("one", [[1.0]] * 50, [(20, 1)], [0.1]), twice)]).false == 1


def test_pairs_are_as_noisy_as_the_line_around_them() -> None:
    (line,) = noise.of_kind("variance shift", 1, 3, n=600)
    rng = np.random.default_rng(1)
    early, late = (np.std(np.log(line.noise(now).draw(rng, 100.0, 4000))) for now in (100, 599))
    assert 0.012 < early < 0.018
    assert late > 2.5 * early


def test_a_clear_change_is_settled_and_narrowed_to_its_commit() -> None:
    assert [answer for answer, _ in rounds_of(Case(0.1, 0.01), 3, seed=1)] == ["different"] * 3
    assert [answer for answer, _ in narrowings_of(Case(0.1, 0.01), 3, seed=1)] == ["right"] * 3


def test_every_kind_of_noise_has_the_spread_that_it_states() -> None:
    for name in ("Gaussian", "heavy tails", "AR 0.35", "AR 0.7"):
        deviation = noise.draw(np.random.default_rng(5), 20_000, noise.KINDS[name])
        assert np.std(deviation) == pytest.approx(0.015, rel=0.1), name


def test_the_tables_replace_those_between_the_marks_of_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{MARKS[0]}\nold\n{MARKS[1]}\nafter\n")
    write(page, "new")
    assert page.read_text() == f"before\n{MARKS[0]}\nnew\n{MARKS[1]}\nafter\n"
    page.write_text("no marks")
    with pytest.raises(SystemExit, match="must have each of the lines"):
        write(page, "new")


def test_what_was_found_is_kept_and_not_worked_out_again(tmp_path: Path) -> None:
    made: list[str] = []

    def make() -> Rounds:
        made.append("once more")
        return Rounds(Case(0.02, 0.017), 10, 1.0, 0.0, 0.0, 24.0)

    first = Store(tmp_path / "here", resume=False).made("settling 2%", make)
    again = Store(tmp_path / "here", resume=True)
    assert again.made("settling 2%", make) == first
    assert again.get("settling 3%") is None
    Store(tmp_path / "here", resume=False).made("settling 2%", make)
    assert made == ["once more"] * 2


def test_the_tables_are_of_what_is_there() -> None:
    settled = [Rounds(Case(0.0, 0.01), 300, 0.01, 0.9, 0.09, 20.0), Rounds(Case(0.0, 0.04), 100, 0.02, 0, 0.98, 150.0)]
    nothing = EvaluationFindings({}, [], [], {}, [], [], [])
    assert [part.splitlines()[0] for part in tables(nothing)] == ["### Against the targets"]
    titles = [part.splitlines()[0] for part in tables(replace(nothing, settlings=settled))]
    assert titles == ["### All answers of settling", "### Against the targets", "### Settling"]
    wrong = next(row for row in of_settling(replace(nothing, settlings=settled)))
    assert (wrong.job, wrong.now) == ("of 400 suspicions without a change, confirmed", "1.25% [0.41%, 2.89%]")


def test_the_page_shows_the_short_tables_alone() -> None:
    """Each heading and head of a table of the page is one that the summary makes."""
    settled = [Rounds(Case(0.0, 0.01), 300, 0.0036, 0.9, 0.09, 20.4), Rounds(Case(0.02, 0.017), 9, 1.0, 0, 0, 30.0)]
    found = EvaluationFindings(
        records={},
        settlings=settled,
        narrowed=[NarrowingResult(Case(0.02, 0.017), 250, 0.95, 0.008, 0.042, 214.0)],
        young={},
        costs=[DetectionCost(CostCase(260), 10.0, 8.5, 100.0)],
        history=[PeerScore("SpeedTrack, from history alone", SAP, score([]), 0.3, 0.0)],
        peers=[],
    )
    text = "\n".join(summary(found))
    assert "| none (A/A) | 0.36%, 20 |  |\n| 2% |  | 100%, 30 |" in text
    assert "| 2% | 1.7% | 95% | 214 | 250 |" in "\n".join(tables(found))
    assert "right; wrong | ≥ 98%; ≤ 1% | 95% [92%, 97%]; 0.8% [0.1%, 2.9%] |" in text
    shown = PAGE.read_text().partition(MARKS[0])[2].partition(MARKS[1])[0]
    assert headings(shown) == headings(text)


@pytest.mark.django_db(transaction=True)
def test_the_cost_of_a_point_is_measured_on_branches_and_series_of_its_case() -> None:
    case = CostCase(points=30, branches=2, series=3)
    cost = of_a_point(case, seed=1)
    assert cost.case == case and min(cost.worker_ms, cost.elapsed_ms) > 0


def test_rates_have_exact_intervals() -> None:
    nine = score(
        [
            Record(
                Line("nine", [[1.0]] * 500, [(50 * i, 1) for i in range(1, 10)], [0.1] * 9),
                [
                    TrackedChange(50 * i, 1, [50 * i], "confirmed", None, (50 * i - 1, 50 * i), 50 * i)
                    for i in range(1, 6)
                ],
            )
        ]
    )
    assert f1(nine) == "0.71 [0.35, 0.93]"
    assert share(0, 20_000, 2) == "0.00% [0.00%, 0.02%]"
    assert per_thousand(2.0, 1000) == "2.0 [0.2, 7.2]"
    assert f1(score([])) == "–"


def headings(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("### ")]


def test_a_drift_is_told_by_what_it_had_come_to() -> None:
    (line,) = noise.drifting(1, 1)
    step = TrackedChange(150, 1, [150], "confirmed", None, (149, 150), 151)  # before it began
    late = TrackedChange(205, 1, [200], "confirmed", None, (199, 205), 209)
    record = Record(line, [step, late])
    assert sum_at_first(record, lambda one: one.first_seen) == pytest.approx(1.003**6 - 1)
    assert sum_at_first(record, lambda one: one.confirmed_at) == pytest.approx(1.003**10 - 1)
    assert sum_at_first(Record(line, [step]), lambda one: one.first_seen) is None


@pytest.mark.parametrize("name", ["Perfherder t-test", "Chromium, 2%"])
def test_a_peer_reports_a_plain_step_once(name: str) -> None:
    reports, _ = peers.replay(name, line_of(0.1, seed=1).values)
    assert [(abs(r["place"] - STEP) <= 2, r["direction"], r["vanished"]) for r in reports] == [(True, 1, False)]
