"""Changes read as on the server: the server's tests and those of the pages read the same file."""

import json
from pathlib import Path
from typing import Any

import pytest
from speedtrack_client import gates

CASES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "frontend" / "src" / "units.golden.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize(("ratio", "text"), [*CASES["change"], (None, "–")])
def test_change(ratio: float | None, text: str) -> None:
    assert gates.change(ratio) == text


@pytest.mark.parametrize(("ratio", "low", "high", "text"), CASES["change_interval"])
def test_an_interval_has_the_notation_of_its_change(ratio: float, low: float, high: float, text: str) -> None:
    assert gates.interval({"ratio": ratio, "low": low, "high": high}) == text


def test_a_row_without_an_interval_shows_none() -> None:
    assert gates.interval({"ratio": 1.2, "low": None, "high": None}) == "–"


@pytest.mark.parametrize(
    ("verdicts", "line"),
    [
        ([], "there is no answer (nothing was measured)"),
        (["flagged"], "there is no answer (1 flagged)"),
        (["flagged", "same"], "nothing got worse by 3% or more (1 same, 1 flagged)"),
    ],
)
def test_values_that_say_nothing_are_told_from_none(verdicts: list[str], line: str) -> None:
    rows = [{"verdict": verdict, "ratio": 1.0, "better": "lower"} for verdict in verdicts]
    gate = gates.gate_of(rows, 3.0)
    assert gate is not None and gate["passed"] == ("same" in verdicts)
    assert gates.verdict_line(rows, gate) == line
