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
