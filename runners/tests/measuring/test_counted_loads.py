"""What a counted server is sent: benchmarks with nothing different to count share a load, and data if they may."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from runners.documents import Benchmark, parse
from runners.errors import BenchmarkFailed
from runners.measuring import counted_loads
from runners.measuring.counted_loads import KEYS, REQUESTS, ROUNDS, check_countable
from runners.measuring.counted_loads import counted_loads as loads_of
from runners.tests.conftest import make_benchmark

SUITES = Path(__file__).parents[3] / "suites"


def benchmark(**workload: Any) -> Benchmark:
    return parse(Benchmark, make_benchmark(**workload), "benchmark")


def shares(suite: str) -> list[list[list[str]]]:
    """The names of a suite's default set: by data set and load."""
    sections = tomllib.loads((SUITES / f"{suite}.toml").read_text())["benchmark"]
    benchmarks = [
        parse(Benchmark, make_benchmark() | {"name": section["name"], "workload": section["workload"]}, suite)
        for section in sections
        if not section.get("extended") and "ladder" not in section
    ]
    return [[[one.name for one in load.benchmarks] for load in data] for data in loads_of(benchmarks)]


def test_reads_and_writes_of_the_same_keys_share_them_and_what_builds_a_structure_has_its_own() -> None:
    strings, *structures = shares("redis")
    assert strings[0] == ["get-p1", "get-p1-tcp", "get-open-50", "get-open-80"]
    assert [names for (names,) in strings[1:]] == ["set-p1", "get-p16", "set-p16", "mixed-zipf-p1"]
    assert [name for [[name]] in structures] == ["incr-p16", "hset-p16", "zadd-p16", "lpush-lpop-p16", "lrange-100-p1"]
    assert [len(data) for data in shares("memcached")] == [8, 1]


def test_loads_that_change_sizes_share_no_data() -> None:
    tests = ("get", "append", "get:9+set:1", "del", "getset")
    data = loads_of([benchmark(name=test, test=test) for test in tests])
    assert [[load.name for load in loads] for loads in data] == [
        ["get", "get:9+set:1"],
        ["append"],
        ["del"],
        ["getset"],
    ]


def test_a_round_has_whole_batches_on_one_connection_and_seeds_take_turns() -> None:
    sequence = [{"request": "LPUSH l a", "times": 2}, {"request": "LPOP l"}]
    many = {"keys": {"count": 10 * KEYS}, "pipeline": 7, "duration_s": 5.0}
    for workload, batch in (({}, 7), ({"test": None, "sequence": sequence, "prefill": None}, 21)):
        [[load]] = loads_of([benchmark(**many, **workload)])
        stirs, counted = load.rounds("resp")[::2], load.rounds("resp")[1::2]
        assert load.requests >= REQUESTS and load.requests % batch == 0 and load.workload["keys"]["count"] == KEYS
        assert len(counted) == ROUNDS and [phase["seed"] for phase in counted] == [1, 2] * (ROUNDS // 2)
        phases = (*stirs, *counted)
        assert {(phase["clients"], "duration_s" in phase, "prefill" in phase) for phase in phases} == {
            (1, False, False)
        }
    assert counted_loads.whole_batches({}, 5) == 5


def test_a_set_up_is_the_whole_data_and_keys_are_read_twice() -> None:
    setup = {"request": "RPUSH l a", "times": 100}
    [[load]] = loads_of([benchmark(test=None, commands=[{"request": "LRANGE l 0 9"}], prefill=None, setup=setup)])
    calm, fill = load.fill("resp")
    assert "prefill" not in calm and (fill["requests"], fill["commands"]) == (100, [{"request": "RPUSH l a"}])
    [[load]] = loads_of([benchmark(test="set")])
    [fill] = load.fill("memcached")
    assert (fill["test"], fill["prefill"], fill["requests"]) == ("get", True, 1008)


def test_a_mode_without_requests_in_turn_is_not_countable() -> None:
    check_countable(benchmark(mode="open"))
    with pytest.raises(BenchmarkFailed, match="a load of mode churn has no requests"):
        check_countable(benchmark(mode="churn"))
