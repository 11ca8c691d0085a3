from pathlib import Path

import numpy as np
import pytest

from research.detection_eval import noise, peers, tracker
from research.detection_eval.__main__ import MARKS, write
from research.detection_eval.lines import Line
from research.detection_eval.scores import Found, Record, match, score

STEP = 40


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
    assert (found.hits, found.false, found.named, found.wrong) == (1, 0, 1, 0)
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
        Found(61, 1, [60], "refuted", (56, 61), (56, 61)),
        Found(101, -1, [104], "refuted", (101, 106), (101, 106)),
        Found(141, 1, [140], "confirmed", (136, 141), (139, 140), 141),
        Found(181, 1, [180], "unsettled", (176, 181), (176, 181)),
    ]
    total = score([Record(line, found)])
    assert total.losses == {
        "never suspected": 1, "refuted, though in the bracket": 1, "beside the bracket": 1, "unsettled": 1,
    }  # fmt: skip
    assert (total.suspected, total.hits, total.named) == (4, 1, 1)


def test_one_report_answers_for_one_change_of_its_direction() -> None:
    twice = [Found(21, 1, [20], "confirmed", None, (19, 20), 21), Found(25, 1, [22], "confirmed", None, (21, 22), 25)]
    assert match([(20, 1)], twice, 5) == {0: 0}
    assert match([(20, -1)], twice, 5) == {}
    assert score([Record(Line("one", [[1.0]] * 50, [(20, 1)], [0.1]), twice)]).false == 1


def test_pairs_are_as_noisy_as_the_line_around_them() -> None:
    (line,) = noise.of_kind("variance shift", 1, 3, n=600)
    rng = np.random.default_rng(1)
    early, late = (np.std(np.log(line.noise(now).draw(rng, 100.0, 4000))) for now in (100, 599))
    assert 0.012 < early < 0.018
    assert late > 2.5 * early


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


@pytest.mark.parametrize("name", ["Perfherder t-test", "Chromium, 2%"])
def test_a_peer_reports_a_plain_step_once(name: str) -> None:
    reports, _ = peers.replay(name, line_of(0.1, seed=1).values)
    assert [(abs(r["place"] - STEP) <= 2, r["direction"], r["vanished"]) for r in reports] == [(True, 1, False)]
