"""Numbers formatted for people; the tests of the charts use the same golden file."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Direction, Metric
from speedtrack.ground.texts.text import csv_cell, plain

GOLDEN: dict[str, Any] = json.loads(
    (Path(settings.BASE_DIR) / "frontend" / "src" / "units.golden.json").read_text(encoding="utf-8")
)


def metric(unit: str) -> Metric:
    return Metric("m", "M", unit, Direction.LOWER, 0.01, True, frozenset())


@pytest.mark.parametrize(("unit", "value", "text"), GOLDEN["quantity"])
def test_quantity(unit: str, value: float, text: str) -> None:
    assert numbers.quantity(metric(unit), value) == text


@pytest.mark.parametrize(("unit", "low", "high", "text"), GOLDEN["interval"])
def test_interval(unit: str, low: float, high: float, text: str) -> None:
    assert numbers.interval(metric(unit), low, high) == text


@pytest.mark.parametrize(("ratio", "text"), GOLDEN["change"])
def test_change(ratio: float, text: str) -> None:
    assert numbers.change(ratio) == text


@pytest.mark.parametrize("ratio", [math.nan, math.inf, -math.inf])
def test_a_ratio_that_is_no_number_is_said_to_be_unknown(ratio: float) -> None:
    assert numbers.change(ratio) == "not known"


@pytest.mark.parametrize(("ratio", "low", "high", "text"), GOLDEN["change_interval"])
def test_an_interval_has_the_notation_of_its_change(ratio: float, low: float, high: float, text: str) -> None:
    assert numbers.change_interval(ratio, low, high) == text


def test_an_end_that_is_no_number_is_unknown() -> None:
    assert numbers.change_interval(2.0, math.nan, 3.0) == "not known to +200%"


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.0001, "0.1%"), (0.0081, "0.81%"), (0.052, "5.2%"), (0.17, "17%"), (0.999, "100%"), (3, "300%")],
)
def test_what_is_seen_has_two_digits(share: float, text: str) -> None:
    assert numbers.change_seen(share) == text


def test_a_margin_has_a_digit_that_says_something() -> None:
    assert numbers.margin(metric("ns"), 5123, 5090, 5150) == "±0.03"
    assert numbers.margin(metric("ns"), 5123, 5121, 5125) == "±0.002"
    assert numbers.margin(metric("ns"), 5123, 5123, 5123) == "±0.00"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.25, "250 ms"),
        (1.5, "1.5 s"),
        (42, "42 s"),
        (95, "1 min 35 s"),
        (1860, "31 min"),
        (7500, "2 h 5 min"),
        (100_000, "1 d 3 h"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    assert numbers.duration(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    json.loads((Path(settings.BASE_DIR) / "frontend" / "src" / "ago.golden.json").read_text(encoding="utf-8")),
)
def test_ago(seconds: float, text: str) -> None:
    assert numbers.ago(seconds) == text


@pytest.mark.parametrize(("name", "worse", "better"), GOLDEN["effect"])
def test_effect(name: str, worse: str, better: str) -> None:
    assert numbers.effect(METRICS[name], worse=True) == worse
    assert numbers.effect(METRICS[name], worse=False) == better


def test_every_metric_has_its_words_in_the_golden_file() -> None:
    assert [name for name, *_ in GOLDEN["effect"]] == list(METRICS)
    assert set(numbers.EFFECTS) <= set(METRICS)


def test_logs_lose_what_a_terminal_would_act_on() -> None:
    assert plain("\x1b]0;a title without end\nthe next line") == "\nthe next line"
    assert plain("\x9b31mred\x9b0m \x9d0;title\x9c\x85") == "red "
    assert plain("\x1b[31mred\x1b[0m \x1b]0;title\x07tab\there\r\n\u202eevil\x00") == "red tab\there\nevil"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@x", "\tx"])
def test_csv_formulas_are_quoted(text: str) -> None:
    assert csv_cell(text) == f"'{text}"
    assert csv_cell("plain = text") == "plain = text"
    assert csv_cell(f"\u202e\r\x1b[1m{text}") == f"'{text}"
