"""Folding of recorded perf output; and a run that samples a real server, or says why it cannot."""

import os
from collections import Counter
from pathlib import Path

import pytest

from runners.measuring import perf, stacks
from runners.tests.api import Api
from runners.tests.conftest import BASE_SHA, COMMAND, HERE, SHA, make_benchmark, make_job
from runners.work.agent import Agent

SIDES = [{"side": "base", "sha": BASE_SHA}, {"side": "head", "sha": SHA}]
PROFILE = {"sides": SIDES, "reason": "profile", "trials": 1, "profile": {"frequency_hz": 997}}


def recorded() -> tuple[Counter[stacks.Stack], str]:
    with (HERE / "golden" / "perf" / "script-6.1.txt").open() as lines:
        return perf.fold(lines, {})


def test_recorded_samples_are_folded_from_the_root() -> None:
    stacks, event = recorded()
    assert event == "cpu-clock" and sum(stacks.values()) == 7
    assert stacks["kvd", "main", "serve", "client_ready", "set", "hotkeys_count"] == 2
    assert all(stack[0] in ("kvd", "io thread 1") for stack in stacks)


def test_kernel_frames_are_marked_and_clones_of_a_function_are_that_function() -> None:
    frames = {frame for stack in recorded()[0] for frame in stack}
    assert "do_syscall_64_[k]" in frames and "link_to" in frames
    assert not any(".isra" in frame for frame in frames)


def test_unknown_functions_have_the_name_of_their_library() -> None:
    stack = next(stack for stack in recorded()[0] if stack[0] == "io thread 1")
    assert stack == ("io thread 1", "[vdso]", "Table<int, char>::find(int (*)(int)) const", "[libssl.so.3]")


def test_programs_of_the_artifact_store_have_the_names_of_their_artifacts() -> None:
    file = "45241db75ed7af4c3e"
    lines = [f"{file[:15]} cycles: \n", f"\t 4f [unknown] (/cache/45/{file})\n", "\n"]
    assert perf.fold(lines, {file: "kvd"})[0] == {("kvd", "[kvd]"): 1}


def test_stacks_are_bounded_and_no_sample_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "MOST_STACKS", 2)
    assert (
        stacks.folded_text(Counter({("a", "b"): 3, ("a", "c"): 9, ("a",): 1, ("d",): 1}))
        == "a;c 9\na;b 3\n(rare stacks) 2\n"
    )
    deep = ["kvd cpu-clock: \n", *(f"\t  {i:x} frame{i} (/srv/kvd)\n" for i in range(500)), "\n"]
    (stack,) = perf.fold(deep, {})[0]
    assert len(stack) == stacks.DEEPEST and stack[:2] == ("kvd", "frame499")


def test_a_folded_text_is_no_longer_than_the_server_takes() -> None:
    frames = [f"{number:04}" + "x" * stacks.LONGEST_NAME for number in range(stacks.DEEPEST)]
    costs = Counter({(*frames, str(number)): 2 for number in range(stacks.MOST_STACKS)})
    text = stacks.folded_text(costs)
    assert len(text) <= 8_000_000
    assert sum(int(line.rpartition(" ")[2]) for line in text.splitlines()) == 2 * stacks.MOST_STACKS


def test_output_that_is_cut_short_loses_nothing_but_its_last_line() -> None:
    stacks, _ = perf.fold(["kvd cycles:u: \n", "\t 4f main (/srv/kvd)\n"], {})
    assert stacks == {("kvd", "main"): 1}
    assert perf.fold([], {}) == ({}, "")


def test_frames_of_the_start_of_a_program_are_left_out() -> None:
    started = [
        "\t 1 serve (/srv/kvd)\n",
        "\t 2 main (/srv/kvd)\n",
        "\t 3 __libc_start_call_main (/lib/libc.so.6)\n",
        "\t 4 __libc_start_main@@GLIBC_2.34 (inlined)\n",
        "\t 5 _start (/srv/kvd)\n",
    ]
    assert perf.fold(["kvd cycles: \n", *started, "\n"], {})[0] == {("kvd", "main", "serve"): 1}


def test_names_of_symbols_that_are_long_and_odd_are_read_in_one_pass() -> None:
    """Patterns that begin anew at each of their blanks took seconds for one such line, and a report has thousands."""
    odd = ["kvd" + " " * 65_000 + "x\n", "\t 1 " + " (" * 32_000 + "\n", "\t 1 f (g) (/srv/kvd)\n", "\n"]
    lines = [line for _ in range(200) for line in ["io thread 1 cpu_core/cycles/u: \n", *odd]]
    assert perf.fold(lines, {}) == ({("io thread 1", "f (g)"): 200}, "cpu_core/cycles/u")


@pytest.mark.perf
def test_both_sides_are_sampled_and_nothing_is_measured(api: Api, agent: Agent) -> None:
    api.jobs = [make_job(**PROFILE, benchmarks=[make_benchmark(keys={"count": 2_000})])]
    agent.work()
    profiles = api.bodies("/profile")
    assert [profile["side"] for profile in profiles] == ["base", "head"]
    for profile in profiles:
        assert profile["unavailable"] == "" and profile["frequency_hz"] == 997 and profile["cpu_ns_per_request"] > 0
        counts = [int(line.rsplit(" ", 1)[1]) for line in profile["folded"].splitlines()]
        assert sum(counts) == profile["samples"] > 50
        assert profile["folded"].startswith("tiny;") and ";main;" in profile["folded"]
    assert not api.of("/measurement") and api.of("/complete")
    assert not list(agent.tools.launcher.processes.directory.iterdir())


@pytest.mark.parametrize(
    ("script", "message"),
    [
        (None, "perf is not a program on this machine: install it"),
        ("echo Error: >&2; echo Access to performance monitoring is limited. >&2; exit 255", "perf_event_paranoid"),
        ("trap 'exit 0' TERM; echo x > perf.data; sleep 60 & wait", "perf has no samples of the server"),
    ],
)
def test_a_machine_that_cannot_profile_says_why_and_the_run_succeeds(
    api: Api, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, message: str
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    if script:
        # In the third case recording does nothing, and reading finds nothing.
        (programs / "perf").write_text(f"#!/bin/sh\n[ $1 = script ] && exit 0\n{script}\n")
        (programs / "perf").chmod(0o755)
    kept = [path for path in os.environ["PATH"].split(":") if not Path(path, "perf").exists()]
    monkeypatch.setenv("PATH", ":".join([str(programs), *kept]))
    monkeypatch.setattr("runners.measuring.profiles.WINDOW_S", 0.3)
    api.jobs = [make_job(**PROFILE)]
    agent.work()
    assert all(message in profile["unavailable"] for profile in api.bodies("/profile"))
    assert len(api.bodies("/profile")) == 2 and api.of("/complete")


def test_links_in_the_tmp_of_a_server_do_not_keep_its_samples_from_being_read(
    api: Api, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sandbox of `perf script` has a /tmp of its own."""
    program = tmp_path / "programs" / "perf"
    program.parent.mkdir()
    reading = "printf 'tiny cycles: \\n\\t 1 main (/tiny)\\n\\n'"
    program.write_text(f"#!/bin/sh\n[ $1 = script ] && {reading} && exit 0\necho x > perf.data; exec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("runners.measuring.profiles.WINDOW_S", 0.3)
    hostile = f"/bin/sh -c 'ln -s /old/nowhere {program.parent}; exec \"$@\"' - {COMMAND}"
    api.jobs = [make_job(**PROFILE, server=make_job()["server"] | {"command": hostile})]
    agent.work()
    assert [profile["folded"] for profile in api.bodies("/profile")] == ["tiny;main 1\n"] * 2 and api.of("/complete")
