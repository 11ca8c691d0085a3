"""The document speedtrack.points/1: its golden file, and everything that is wrong with a batch or with a result."""

import json
from pathlib import Path
from typing import Any

import pytest

from speedtrack.benchmarks.metrics import METRICS, Direction, outside_key
from speedtrack.outside import document
from speedtrack.outside.document import DocumentError, OutsidePoint, ResultRefusal
from speedtrack.outside.readers import OutsideResult
from speedtrack.outside.tests.conftest import document_of, row

GOLDEN = Path(__file__).parent / "points.v1.json"


def points(content: bytes) -> list[OutsidePoint | ResultRefusal]:
    return list(document.points_of(document.parse(content)))


def only(**changes: Any) -> OutsidePoint | ResultRefusal:
    (one,) = points(json.dumps(document_of(row("main", **changes))).encode())
    return one


def test_the_golden_file_is_right_and_rows_say_more_than_the_batch() -> None:
    first, second, third = points(GOLDEN.read_bytes())
    assert isinstance(first, OutsidePoint) and isinstance(second, OutsidePoint) and isinstance(third, OutsidePoint)
    assert (first.machine, first.environment["cores"], first.tags) == ("ci-large", 8, {"trigger": "nightly"})
    assert (third.environment["cores"], third.tags, third.url, third.row.id) == (4, {}, "", "second half")
    assert third.measured_at and third.measured_at.minute == 10
    assert second.row.value == 20971520


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "line 1, column 1"),
        (b"[", "line 1"),
        (GOLDEN.read_bytes()[:700], "send JSON"),
        (b"null", "expected is a JSON object"),
        (b"[]", "expected is a JSON object"),
        (b"\xff{}", "byte 0 is not UTF-8"),
        ("{}".encode("utf-16"), "not UTF-8"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"a":' * 200_000, "nested too deeply"),
        (b"1" * 5000, "4300 digits"),
        (b'{"schema": "speedtrack.points/1", "schema": "x"}', "'schema' twice"),
        (b'{"schema": "speedtrack.points/2", "results": [{}]}', "/schema"),
        (b'{"schema": "speedtrack.points/1", "results": []}', "/results"),
        (b'{"schema": "speedtrack.points/1", "results": {}}', "/results"),
        (b'{"schema": "speedtrack.points/1", "result": [], "results": [1]}', "no such field"),
        (json.dumps(document_of(*[{}] * 10_001)).encode(), "at most 10000"),
        (b" " * (document.LARGEST_DOCUMENT + 1), "send several"),
    ],
)
def test_a_wrong_document_is_refused_as_a_whole(content: bytes, words: str) -> None:
    with pytest.raises(DocumentError) as refused:
        document.parse(content)
    assert words in str(refused.value)


NAN, INFINITY = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"value": NAN}, "/value"),
        ({"value": INFINITY}, "/value"),
        ({"value": 10**400}, "/value"),
        ({"value": 1e-16}, "/value"),
        ({"value": -1}, "/value"),
        ({"value": "1"}, "/value"),
        ({"value": True}, "/value"),
        ({"value": {"a": [1]}}, "/value"),
        ({"value": None}, ""),
        ({"samples": [1.0]}, ""),
        ({"value": None, "samples": []}, "/samples"),
        ({"value": None, "samples": [1.0, NAN]}, "/samples/1"),
        ({"value": None, "samples": [1.0] * 1001}, "/samples"),
        ({"value": None, "samples": [1.0], "n": 3}, "/samples"),
        ({"low": 1.0}, "/high"),
        ({"low": 2.0, "high": 3.0}, "/value"),
        ({"n": 0}, "/n"),
        ({"n": 1.5}, "/n"),
        ({"commit": ""}, "/commit"),
        ({"commit": None}, "/commit"),
        ({"machine": "   "}, "/machine"),
        ({"benchmark": None}, "/benchmark"),
        ({"benchmark": 7}, "/benchmark"),
        ({"benchmark": "a\0b"}, "/benchmark"),
        ({"benchmark": "a\ud800"}, "/benchmark"),
        ({"benchmark": "a\u202eb"}, "/benchmark"),
        ({"benchmark": "a" * 1001}, "/benchmark"),
        ({"metric": ""}, "/metric"),
        ({"unit": "u" * 21}, "/unit"),
        ({"better": "less"}, "/better"),
        ({"parameters": {"a": {"b": 1}}}, "/parameters/a"),
        ({"parameters": {"a": INFINITY}}, "/parameters/a"),
        ({"parameters": {str(i): i for i in range(21)}}, "/parameters"),
        ({"environment": ["x"]}, "/environment"),
        ({"environment": {"a/b~": None}}, "/environment/a~1b~0"),
        ({"measured_at": 1_700_000_000}, "/measured_at"),
        ({"measured_at": "2026-03-01T12:00:00"}, "/measured_at"),
        ({"measured_at": "1970-01-01T00:00:00Z"}, "/measured_at"),
        ({"url": "javascript:alert(1)"}, "/url"),
        ({"url": "https://"}, "/url"),
        ({"tags": {"a": 1}}, "/tags/a"),
        ({"vlaue": 1}, "/vlaue"),
    ],
)
def test_a_wrong_result_is_refused_at_its_place(changes: dict[str, Any], place: str) -> None:
    found = only(**changes)
    assert isinstance(found, ResultRefusal)
    assert (found.index, found.pointer) == (0, f"/results/0{place}")
    assert found.detail


@pytest.mark.parametrize("wrong", [None, 1, "x", [], [[[]]]])
def test_a_result_is_an_object(wrong: Any) -> None:
    (found,) = points(json.dumps(document_of(wrong)).encode())
    assert isinstance(found, ResultRefusal)


def test_equal_words_are_equal_whatever_their_order_and_form() -> None:
    one, other = only(environment={"a": 1.0, "b": True}), only(environment={"b": True, "a": 1})
    assert isinstance(one, OutsidePoint) and isinstance(other, OutsidePoint)
    assert json.dumps(one.environment) == json.dumps(other.environment) == '{"a": 1, "b": true}'


def test_what_a_reader_finds_is_a_right_document() -> None:
    found = OutsideResult("sort", "time", "", "lower", samples=(1.0, 2.0), commit="main", parameters={"n": 1})
    batch = document.batch_of(document.document_of([found], "a tool", machine="ci", commit=""))
    (point,) = document.points_of(batch)
    assert isinstance(point, OutsidePoint)
    assert (point.row.unit, point.row.samples, batch.tool) == ("", [1.0, 2.0], "a tool")


@pytest.mark.parametrize(
    ("name", "unit"), [("time", "s"), ("p99 latency", "µs"), ("B/op", ""), ("a--b", "requests/s"), ("größe_1", "%")]
)
def test_the_key_of_a_metric_holds_its_definition(name: str, unit: str) -> None:
    key = outside_key(name, unit, Direction.HIGHER)
    assert key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    metric = METRICS[key]
    assert (metric.title, metric.unit, metric.better, metric.watched) == (name, unit, "higher", True)
    assert key in METRICS and METRICS.get(key) == metric
    assert key not in list(METRICS)
    for wrong in ("time", "time--s--up", "-FF--s--lower", ""):
        assert wrong not in METRICS and METRICS.get(wrong) is None
