"""Stacks of counted instructions: whole, of both sides, and only where perf has no counter of the processor."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runners.measuring import counted_stacks, counting, profiles
from runners.measuring.perf import Profile
from runners.tests.api import Api
from runners.tests.conftest import BASE_SHA, SHA, TREE, make_benchmark, make_job
from runners.tests.measuring.test_counting import PIPELINE, counted_job, few, source
from runners.tests.measuring.test_perf import PROFILE
from runners.work.agent import Agent

__all__ = ["few"]


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "WINDOW_S", 0.3)


def profile_job(inside: list[str]) -> dict[str, object]:
    return make_job(**PROFILE, benchmarks=[make_benchmark(pipeline=PIPELINE) | {"inside": inside}])


def counted_profiles(api: Api) -> list[dict[str, Any]]:
    return [body for body in api.bodies("/profile") if body["kind"] == "instructions"]


def stacks_of(profile: dict[str, Any]) -> dict[str, int]:
    lines = (line.rpartition(" ") for line in profile["folded"].splitlines())
    return {stack: int(cost) for stack, _, cost in lines}


@pytest.fixture
def without_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A perf that may not sample, whatever the machine has."""
    (tmp_path / "programs").mkdir()
    program = tmp_path / "programs" / "perf"
    program.write_text("#!/bin/sh\necho Access to performance monitoring is limited. >&2; exit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.valgrind
@pytest.mark.usefixtures("without_perf")
def test_where_perf_may_not_sample_the_instructions_of_both_sides_are_profiled(api: Api, agent: Agent) -> None:
    api.sources |= {BASE_SHA: source(), SHA: source(inside="spin();")}
    api.jobs = [profile_job(["serve"]), counted_job(["serve"], sides=PROFILE["sides"], counted=True)]
    agent.work()
    assert [(body["side"], body["kind"]) for body in api.bodies("/profile")] == [
        ("base", "samples"),
        ("base", "instructions"),
        ("head", "samples"),
        ("head", "instructions"),
    ]
    base, head = (stacks_of(profile) for profile in counted_profiles(api))
    assert all(stack.partition(";")[0] == "serve" for stack in base | head)
    # The head spins once in a turn, in which it answers 16 requests; a turn of the loop has two or three instructions.
    spun = head.pop("serve;spin") / counted_stacks.FOLDED_REQUESTS
    assert "serve;spin" not in base and 2_000 / PIPELINE <= spun <= 3_100 / PIPELINE
    # What else `serve` calls costs the same on both sides, and all together is the count of the exact series.
    others = base.keys() - {"serve"}
    assert len(others) >= 2 and all(head[stack] == pytest.approx(base[stack], rel=0.01, abs=5) for stack in others)
    counts = [body["trials"][0]["metrics"][counting.METRIC] for body in api.bodies("/measurement")]
    for profile, count in zip(counted_profiles(api), counts, strict=True):
        assert profile["samples"] / counted_stacks.FOLDED_REQUESTS == pytest.approx(count, rel=0.001)
        assert profile["samples"] == sum(stacks_of(profile).values()) and not profile["unavailable"]


@pytest.mark.usefixtures("without_perf")
def test_why_instructions_are_not_counted_is_sent_in_their_place(api: Api, agent: Agent) -> None:
    api.sources |= {sha: TREE | {"Makefile": "tiny: tiny.c\n\t$(CC) -O2 -s -o $@ $<\n"} for sha in (BASE_SHA, SHA)}
    api.jobs = [profile_job(["serve"])]
    agent.work()
    found = counted_profiles(api)
    assert [profile["samples"] for profile in found] == [0, 0] and api.of("/complete")
    assert all("instructions are not counted: tiny has no symbol table" in one["unavailable"] for one in found)


@pytest.mark.usefixtures("without_perf")
def test_a_benchmark_that_is_not_counted_has_no_stacks_of_instructions(api: Api, agent: Agent) -> None:
    api.jobs = [profile_job([])]
    agent.work()
    assert len(api.bodies("/profile")) == 2 and not counted_profiles(api)


def test_samples_of_a_counter_of_the_processor_are_told_from_those_of_a_clock() -> None:
    events = ("cycles", "cpu_core/cycles/", "cpu-clock", "")
    assert [Profile(997, event).hardware for event in events] == [True, True, False, False]


def test_frames_begin_at_the_counted_function_and_copies_by_the_compiler_are_one_function() -> None:
    stack = ("main", "loop", "serve.constprop.0", "get.part.0", "hash")
    assert counted_stacks.frames_inside("serve", stack) == ("serve", "get", "hash")
    assert counted_stacks.frames_inside("serve", ("get", "hash")) == ("serve", "(outer callers)", "get", "hash")


def test_costs_are_those_of_some_requests_and_none_is_below_one() -> None:
    costs = counted_stacks.per_requests([(("f",), 3 * 1000), (("g",), -5 * 1000), (("h",), 1)], 1000)
    assert costs == Counter({("f",): 300})
