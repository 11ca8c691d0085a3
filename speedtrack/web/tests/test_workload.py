"""A workload in words."""

from typing import Any

import pytest

from speedtrack.benchmarks.digests import benchmark_meaning
from speedtrack.benchmarks.models import Benchmark
from speedtrack.benchmarks.suitefiles import parse_suite
from speedtrack.benchmarks.tests.test_workloads import RECORDED, own, suite
from speedtrack.tests.builders import SUITE
from speedtrack.web.pages.timeline.workload import workload_text


def words(text: str) -> str:
    content = parse_suite(text, "tiny.toml").model_dump()
    return workload_text(Benchmark(definition=benchmark_meaning(content, content["benchmark"][-1])))


@pytest.mark.parametrize(
    ("workload", "text"),
    [
        ({"test": "get"}, "GET, 50 connections, unix socket, values of 3 B"),
        (
            {
                "test": "get:9+set:1",
                "pipeline": 16,
                "transport": "tcp",
                "keys": {"count": 100000, "distribution": "zipf"},
            },
            "GET × 9 + SET × 1, 50 connections, pipeline 16, TCP, 100\xa0000 keys (zipf), values of 3 B",
        ),
        (
            {"commands": [{"request": "LRANGE l 0 99"}], "clients": 1, "values": {"range": [1, 9]}},
            "LRANGE, 1 connection, unix socket, values of 1 to 9 B",
        ),
        (
            {"sequence": [{"request": ["MULTI"]}, {"test": "incr", "times": 3}, {"request": "EXEC", "name": "end"}]},
            "MULTI then incr × 3 then end, 50 connections, unix socket, values of 3 B",
        ),
        (
            {"test": "get", "mode": "open", "rate": 61000.0, "values": {"weighted": [[1, 1], [2, 1]]}},
            "GET, 50 connections, unix socket, values of several sizes, open loop at 61.0 k/s",
        ),
        (RECORDED, "recorded traffic, 50 connections, unix socket, at 1 times its pace"),
        (
            RECORDED | {"replay": RECORDED["replay"] | {"speed": "fast"}, "requests": 9},
            "recorded traffic, 50 connections, unix socket, as fast as the server answers",
        ),
    ],
)
def test_a_workload_in_words(workload: dict[str, Any], text: str) -> None:
    assert words(suite(workload)) == text


def test_a_share_names_its_reference_and_another_driver_itself() -> None:
    shared = {"test": "get", "mode": "open", "rate": {"of": "get-p1", "share": 0.5}, "arrivals": "poisson"}
    head = SUITE.partition("[[benchmark]]")[0]
    assert words(SUITE + suite(shared)[len(head) :]).endswith("open loop at 50% of get-p1, Poisson arrivals")
    assert words(suite({"test": "get", "requests": 9}, 'driver = "memtier"\n')).endswith("values of 3 B, by memtier")
    assert words(own("load {socket} {output}")) == "load {socket} {output}, by command"
