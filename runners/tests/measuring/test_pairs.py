"""Blocks of two real servers: both run at once, are loaded in turn, and give one trial each."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from runners.documents import Benchmark, parse_job
from runners.measuring import pairs
from runners.measuring.pairs import (
    SLICES,
    Block,
    NoRoom,
    Slot,
    check_room,
    combined_metrics,
    reason_not_to_slice,
    settling_load,
    slice_of,
)
from runners.measuring.trials import LoadResult, TrialRunner, TrialStart
from runners.processes.control import Control
from runners.tests.api import Api
from runners.tests.conftest import BASE_SHA, COMMAND, SHA, TREE, make_benchmark, make_job, marked
from runners.work.agent import Agent

SIDES = [{"side": "base", "sha": BASE_SHA}, {"side": "head", "sha": SHA}]


def paired(**changes: Any) -> dict[str, Any]:
    return make_job(sides=SIDES, reason="confirm", **changes)


def benchmark(**workload: Any) -> Benchmark:
    return parse_job(make_job(benchmarks=[make_benchmark(**workload)])).benchmarks[0]


def load(
    cpu_ns: float, requests: int, window_s: float, p50: float, rss: float, flags: tuple[str, ...] = ()
) -> LoadResult:
    metrics = {
        "server_cpu_ns_per_request": cpu_ns / requests,
        "throughput_rps": requests / window_s,
        "latency_us_p50": p50,
        "some_bytes": rss,
    }
    return LoadResult(metrics, flags, {"tests": [{"requests": requests, "window_s": window_s}]})


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
        assert one["pairing"]["block"] == other["pairing"]["block"] == one["trial"]
        assert {one["pairing"]["slot"], other["pairing"]["slot"]} == {0, 1}
        slots[one["pairing"]["slot"]] += 1
        assert one["driver"]["target"]["address"] != other["driver"]["target"]["address"]
        turns = [sorted((a["at_s"], b["at_s"])) for a, b in slices_of(one, other)]
        assert len(turns) == SLICES and all(late[0] >= early[1] for early, late in pairwise(turns))
    assert len(slots) == 2, "with the seed of this job base has both slots within three blocks"
    assert marked(agent.tools.launcher.home) == []
    assert not list(agent.tools.launcher.home.glob("trial-*"))


def slices_of(one: dict[str, Any], other: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return list(zip(one["pairing"]["slices"], other["pairing"]["slices"], strict=True))


def test_a_trial_is_the_sum_of_its_slices(api: Api, agent: Agent) -> None:
    api.jobs = [paired(trials=1)]
    agent.work()
    trial = measured(api)["get-p1", "head"][0]
    slices = trial["pairing"]["slices"]
    requests = sum(one["requests"] for one in slices)
    spent_ns = sum(one["metrics"]["server_cpu_ns_per_request"] * one["requests"] for one in slices)
    assert trial["metrics"]["server_cpu_ns_per_request"] == pytest.approx(spent_ns / requests)
    assert trial["metrics"]["throughput_rps"] == pytest.approx(requests / sum(one["window_s"] for one in slices))
    assert trial["driver"]["prefill"] is None, "a slice does not fill a server that is full"
    assert set(trial["flags"]) == {flag for one in slices for flag in one["flags"]}


class Rehearsal(TrialRunner):
    """A trial runner whose loads are not measured: the n-th one has the flags of the rule."""

    def follow(self, rule: Callable[[int], tuple[str, ...]]) -> None:
        self.rule, self.loads = rule, 0

    def run_load(self, benchmark: Benchmark, server: Any, seed: int, name: str) -> LoadResult:
        self.loads += 1
        return load(1000, 10, 1.0, 5.0, 7.0, self.rule(self.loads - 1))


def loads_of_slices(rule: Callable[[int], tuple[str, ...]], slices: int, repeat_for: list[str]) -> tuple[int, int]:
    """How often a slot was loaded for so many slices, and how many of these loads were dropped."""
    job = parse_job(paired(repeat_for=repeat_for))
    runner = Rehearsal(job, None, Control(), RunLogOfNobody(), Random(1))  # type: ignore[arg-type]
    runner.follow(rule)
    slot = Slot("head", 0, 0, None)  # type: ignore[arg-type]
    for turn in range(slices):
        Block(runner, job.benchmarks[0], 0)._slice(slot, turn, TrialStart())
    return runner.loads, slot.repeated


class RunLogOfNobody:
    def line(self, phase: str, text: str) -> None:
        return


def test_a_slice_is_repeated_for_flags_that_void_and_for_no_others() -> None:
    assert loads_of_slices(lambda n: ("delayed",), 4, ["steal", "unsteady"]) == (4, 0)
    assert loads_of_slices(lambda n: ("delayed",) if n == 1 else (), 4, ["delayed"]) == (5, 1)
    assert loads_of_slices(lambda n: ("delayed",), 2, ["delayed"]) == (6, 4)


def test_a_structural_flag_repeats_a_slice_once() -> None:
    assert loads_of_slices(lambda n: ("client_delayed",) if n == 1 else (), 4, ["client_delayed"]) == (5, 1)
    assert loads_of_slices(lambda n: ("client_delayed",), 4, ["client_delayed"]) == (5, 1)


def test_slices_are_weighted_by_the_unit_of_the_metric() -> None:
    found = combined_metrics([load(1000, 10, 1.0, 5.0, 7.0), load(9000, 30, 3.0, 9.0, 9.0), load(0, 60, 1.0, 6.0, 8.0)])
    assert found == {
        "server_cpu_ns_per_request": 100.0,
        "throughput_rps": 20.0,
        "latency_us_p50": 6.0,
        "some_bytes": 9.0,
    }


def test_a_metric_that_only_some_slices_have_is_left_out() -> None:
    first, second = load(1000, 10, 1.0, 5.0, 7.0), load(1000, 10, 1.0, 5.0, 7.0)
    del second.metrics["latency_us_p50"]
    assert "latency_us_p50" not in combined_metrics([first, second])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"duration_s": None, "requests": 100}, "a number of requests"),
        ({"ttl_s": 60}, "its keys expire"),
        ({"expect": {"keys": 500}}, "are counted"),
        ({}, None),
    ],
)
def test_a_load_that_cannot_be_divided_is_measured_whole(changes: dict[str, Any], reason: str | None) -> None:
    found = reason_not_to_slice(benchmark(**changes))
    assert found is None if reason is None else found and reason in found


def test_a_slice_is_the_same_load_but_shorter_and_fills_nothing() -> None:
    one = benchmark(duration_s=2.0, warmup_s=0.5)
    assert slice_of(one).workload == {key: value for key, value in one.workload.items() if key != "prefill"} | {
        "duration_s": 0.5,
        "warmup_s": 0.1,
    }
    assert slice_of(benchmark(duration_s=0.2)).workload["duration_s"] == 0.1
    kept = {key: value for key, value in one.workload.items() if key != "duration_s"}
    assert settling_load(one).workload == kept | {"requests": 1000}


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


def test_twice_the_memory_of_the_first_server_is_needed_for_the_second() -> None:
    check_room(100, 200)
    with pytest.raises(NoRoom, match="to run two at once"):
        check_room(100 << 20, (200 << 20) - 1)
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
