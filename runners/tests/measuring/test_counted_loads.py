"""What a counted server is sent: benchmarks with nothing different to count share a load, and data if they may."""

import tomllib
from pathlib import Path
from typing import Any

import pytest

from runners.documents import Benchmark, parse
from runners.errors import BenchmarkFailed
from runners.measuring import counted_loads
from runners.measuring.counted_loads import KEYS, MEMBERS, REQUESTS, ROUNDS, CountedLoad, check_countable
from runners.tests.conftest import make_benchmark

SUITES = Path(__file__).parents[3] / "suites"


def benchmark(**workload: Any) -> Benchmark:
    return parse(Benchmark, make_benchmark(**workload), "benchmark")


def loads_of(benchmarks: list[Benchmark], protocol: str = "resp") -> list[list[CountedLoad]]:
    return counted_loads.counted_loads(benchmarks, protocol)


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
        stirs, counted = load.rounds()[::2], load.rounds()[1::2]
        assert load.requests >= REQUESTS and load.requests % batch == 0
        assert load.workload["keys"]["count"] == KEYS
        assert len(counted) == ROUNDS and [phase["seed"] for phase in counted] == [1, 2] * (ROUNDS // 2)
        phases = (*stirs, *counted)
        assert {(phase["clients"], "duration_s" in phase, "prefill" in phase) for phase in phases} == {
            (1, False, False)
        }
    assert counted_loads.whole_batches({}, 5) == 5


def test_what_a_server_throws_dice_for_has_other_requests_in_each_round_and_few_members() -> None:
    requests = ("ZADD s __rand_int__ e:__rand_int__", ["spop", "s"], "SRANDMEMBER s", "SET zebra 1")
    for request in requests:
        [[load]] = loads_of(
            [benchmark(test=None, commands=[{"request": request}], keys={"count": 9999, "distribution": "zipf"})]
        )
        seeds = [phase["seed"] for phase in load.rounds()[1::2]]
        is_random = request != requests[-1]
        assert load.is_repeatable != is_random
        assert (len(set(seeds)), load.workload["keys"]["count"]) == ((ROUNDS, MEMBERS) if is_random else (2, KEYS))
    assert counted_loads.is_random({"test": "get:1+zadd:1"}) and not counted_loads.is_random({"test": "get"})


def test_a_set_up_is_the_whole_data_and_keys_are_read_twice() -> None:
    setup = {"request": "RPUSH l a", "times": 100}
    [[load]] = loads_of([benchmark(test=None, commands=[{"request": "LRANGE l 0 9"}], prefill=None, setup=setup)])
    [fill] = load.fill()
    assert (fill["requests"], fill["commands"]) == (100, [{"request": "RPUSH l a"}])
    [[load]] = loads_of([benchmark(test="set")])
    [fill] = load.fill()
    assert (fill["test"], fill["prefill"], fill["requests"]) == ("get", True, 1008)


def test_half_of_the_keys_of_memcached_are_set_before_the_others_and_never_asked_for() -> None:
    [[load]] = loads_of([benchmark(test="set", keys={"count": 500, "distribution": "zipf"})], "memcached")
    both, again, fill = load.fill()
    assert (both["prefill"], both["keys"]) == (True, {"count": 1000})
    assert (again["test"], again["keys"], again["requests"]) == (
        "set",
        {"count": 500, "distribution": "sequential"},
        512,
    )
    assert (fill["test"], fill["keys"]["count"], fill["requests"]) == ("get", 500, 1008)
    assert not any("prefill" in phase for phase in (again, fill))


def test_single_requests_to_memcached_have_longer_rounds_than_multigets() -> None:
    [loads] = loads_of([benchmark(name=test, test=test) for test in ("get", "gets_100")], "memcached")
    assert [load.requests for load in loads] == [3 * REQUESTS, REQUESTS]


def test_a_mode_without_requests_in_turn_is_not_countable() -> None:
    check_countable(benchmark(mode="open"))
    with pytest.raises(BenchmarkFailed, match="a load of mode churn has no requests"):
        check_countable(benchmark(mode="churn"))
