"""Blocks of two real servers: both run at once, are loaded in turn, and give one trial each."""

import re
from collections import Counter
from typing import Any

import pytest

from runners.documents import Benchmark, parse_job
from runners.measuring import pairs
from runners.measuring.pairs import NoRoom, block_load, check_room, reason_not_to_slice, settling_load
from runners.tests.api import Api
from runners.tests.conftest import BASE_SHA, COMMAND, SHA, TREE, make_benchmark, make_job, marked
from runners.work.agent import Agent

SIDES = [{"side": "base", "sha": BASE_SHA}, {"side": "head", "sha": SHA}]


def paired(**changes: Any) -> dict[str, Any]:
    return make_job(sides=SIDES, reason="confirm", **changes)


def benchmark(**workload: Any) -> Benchmark:
    return parse_job(make_job(benchmarks=[make_benchmark(**workload)])).benchmarks[0]


def measured(api: Api) -> dict[tuple[str, str], list[dict[str, Any]]]:
    return {(one["benchmark"]["name"], one["side"]): one["trials"] for one in api.bodies("/measurement")}


def test_both_servers_of_a_block_run_and_their_slices_alternate(api: Api, agent: Agent) -> None:
    api.jobs = [paired(trials=3)]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    base, head = (measured(api)["get-p1", side] for side in ("base", "head"))
    assert [trial["trial"] for trial in base] == [trial["trial"] for trial in head] == [0, 1, 2]
    slots = Counter()
    for one, other in zip(base, head, strict=True):
        pairings = one["pairing"], other["pairing"]
        assert one["trial"] == pairings[0]["block"] == pairings[1]["block"]
        assert {pairing["slot"] for pairing in pairings} == {0, 1}
        slots[pairings[0]["slot"]] += 1
        assert one["driver"]["target"]["address"] != other["driver"]["target"]["address"]
        order = pairings[0]["order"]
        assert order == pairings[1]["order"] and re.fullmatch("(bh|hb)+", order)
        assert all(len(pairing["slice_ns"]) == len(order) / 2 for pairing in pairings)
        assert one["driver"]["prefill"]["keys_in_server"] == other["driver"]["prefill"]["keys_in_server"] == 500
    assert len(slots) == 2, "with the seed of this job base has both slots within three blocks"
    assert marked(agent.tools.launcher.home) == []
    assert not list(agent.tools.launcher.home.glob("trial-*"))


def test_a_block_over_tcp_has_both_servers_in_one_network(api: Api, agent: Agent) -> None:
    api.jobs = [paired(trials=1, benchmarks=[make_benchmark(transport="tcp")])]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    addresses = {trials[0]["driver"]["target"]["address"] for trials in measured(api).values()}
    assert len(addresses) == 2 and all(address.startswith("tcp:127.0.0.1:") for address in addresses), addresses


def test_what_sets_up_a_server_is_sent_to_both_before_the_block(api: Api, agent: Agent) -> None:
    workload = {
        "prefill": None,
        "expect": None,
        "test": None,
        "setup": {"request": "SET one __data__", "times": 7},
        "commands": [{"request": "GET one"}],
    }
    api.jobs = [paired(trials=1, benchmarks=[make_benchmark(**workload)])]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    for trials in measured(api).values():
        (test,) = trials[0]["driver"]["tests"]
        assert test["hits"] == test["requests"] > 0


SET_GET_SET = [
    {"request": f"{name} k:__key__ {value}".strip()} for name, value in (("SET", "1"), ("GET", ""), ("SET", "2"))
]


@pytest.mark.parametrize(
    "workload",
    [
        {"mode": "open", "rate": 2000.0, "arrivals": "poisson"},
        {"mode": "open", "rate": 2000.0, "arrivals": "fixed", "clients": 7, "pipeline": 3},
        {"test": None, "sequence": SET_GET_SET, "expect": None, "clients": 7, "pipeline": 3},
        {"test": None, "commands": SET_GET_SET, "expect": None},
    ],
    ids=["poisson", "fixed", "sequence", "mix"],
)
def test_a_first_block_of_every_load_with_slices_is_measured(api: Api, agent: Agent, workload: dict[str, Any]) -> None:
    assert reason_not_to_slice(benchmark(**workload)) is None
    api.jobs = [paired(trials=1, benchmarks=[make_benchmark(**workload)])]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    assert all(len(trials) == 1 for trials in measured(api).values())


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"duration_s": None, "requests": 100}, "a number of requests"),
        ({"ttl_s": 60}, "its keys expire"),
        ({"expect": {"keys": 500}}, "are counted"),
        ({"mode": "churn"}, "mode churn has no slices"),
        ({"mode": "open", "rate": 99.0}, "below 100 requests/s"),
        ({"mode": "open", "rate": 100.0}, None),
        ({}, None),
    ],
)
def test_a_load_that_cannot_be_divided_is_measured_whole(changes: dict[str, Any], reason: str | None) -> None:
    found = reason_not_to_slice(benchmark(**changes))
    assert found is None if reason is None else found and reason in found


def test_a_block_is_the_same_load_but_shorter() -> None:
    long = benchmark(duration_s=2.0, warmup_s=0.5, warmup_most_s=5.0)
    kept = {key: value for key, value in long.workload.items() if key != "warmup_most_s"}
    assert block_load(long, 0.6).workload == kept | {"duration_s": 0.6, "warmup_s": 0.1}
    short = benchmark(duration_s=0.2, warmup_s=0.0)
    assert block_load(short, 0.6).workload == short.workload


@pytest.mark.parametrize(("reason", "window_s"), [("confirm", 0.6), ("effect", 0.2)])
def test_the_windows_of_a_whole_effect_are_shorter(api: Api, agent: Agent, reason: str, window_s: float) -> None:
    api.jobs = [paired(trials=1, benchmarks=[make_benchmark(duration_s=1.0)]) | {"reason": reason}]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    for trials in measured(api).values():
        assert trials[0]["driver"]["tests"][0]["workload"]["duration_s"] == window_s


def test_a_server_is_filled_to_see_its_size() -> None:
    one = benchmark(duration_s=2.0, warmup_s=0.5)
    kept = {key: value for key, value in one.workload.items() if key not in pairs.WINDOW_KEYS}
    assert settling_load(one).workload == kept | {"requests": 1000, "warmup_s": 0.0}


def test_servers_too_large_for_each_other_are_measured_one_after_the_other(
    api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pairs, "ROOM", 1 << 40)
    api.jobs = [paired(trials=2)]
    agent.work()
    found = measured(api)
    for trial in (*found["get-p1", "base"], *found["get-p1", "head"]):
        assert trial["pairing"]["block"] == trial["trial"] and "MiB are free" in trial["pairing"]["apart"]
        assert trial["driver"]["prefill"]["keys_in_server"] == 500
    assert api.text("measure").count("measured one after the other") == 1


def test_four_times_the_memory_of_one_server_is_needed_for_two() -> None:
    check_room(100, 400)
    with pytest.raises(NoRoom, match="to run two at once"):
        check_room(100 << 20, (400 << 20) - 1)
    assert pairs.available_bytes() > 1 << 20


def test_a_server_that_dies_during_a_block_fails_the_benchmark_and_leaves_nothing(api: Api, agent: Agent) -> None:
    server = {
        "command": f"{COMMAND} --behaviour tired",
        "listen": {},
        "protocol": "resp",
        "ready_timeout_s": 60,
        "cores": 1,
    }
    tree = TREE | {"tiny.c": TREE["tiny.c"]}
    api.sources = {SHA: tree, BASE_SHA: tree}
    api.jobs = [paired(trials=2, server=server, benchmarks=[make_benchmark(), make_benchmark("set-p1", "set")])]
    agent.work()
    failure = api.bodies("/fail")[0]
    assert failure["kind"] == "permanent"
    assert failure["error"].startswith("1 of 2 benchmarks failed: get-p1: the server ended during the trial")
    assert {name for name, _ in measured(api)} == {"set-p1"}
    assert marked(agent.tools.launcher.home) == []
    assert not list(agent.tools.launcher.home.glob("trial-*"))
