"""Random layouts with a real compiler and real linkers: programs in another order of functions, measured in pairs."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from runners.machine.environment import LINKERS
from runners.measuring import layouts
from runners.tests.api import Api
from runners.tests.conftest import BASE_SHA, SHA, TREE, make_benchmark, make_build, make_job
from runners.work.agent import Agent

SIDES = [{"side": "base", "sha": BASE_SHA}, {"side": "head", "sha": SHA}]
ANY = {"linker": "any"}


def paired(build: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    return make_job(sides=SIDES, reason="confirm", build=build or make_build(layouts=ANY), **changes)


def trials_of(api: Api) -> dict[str, list[dict[str, Any]]]:
    return {body["side"]: body["trials"] for body in api.bodies("/measurement")}


def test_each_block_measures_a_fresh_layout_of_each_side(api: Api, agent: Agent) -> None:
    api.jobs = [paired(trials=3)]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    seeds = [trial["layout"] for trials in trials_of(api).values() for trial in trials]
    assert len(set(seeds)) == 6 and all(seeds), api.text("measure")
    (build, other) = (body["build"] for body in api.bodies("/build"))
    assert build["artifacts"] == other["artifacts"], "reported is the plain program, by which equal ones are recognised"
    for body in api.bodies("/measurement"):
        assert body["layouts"]["linker"] in LINKERS
        assert body["layouts"] == {"linker": body["layouts"]["linker"], "left_out": 0, "refusal": ""}


def test_layouts_are_used_up_and_linked_anew(api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "BATCH", 1)
    api.jobs = [paired(trials=2, benchmarks=[make_benchmark(), make_benchmark("set-p1", "set")])]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    seeds = [trial["layout"] for body in api.bodies("/measurement") for trial in body["trials"]]
    assert len(set(seeds)) == 8


def test_ordinary_runs_measure_the_plain_program_unless_the_suite_says_so(api: Api, agent: Agent) -> None:
    api.jobs = [make_job(build=make_build(layouts=ANY | {"trials": trials})) for trials in ("plain", "layouts")]
    agent.work()
    plain, drawn = ([trial["layout"] for trial in body["trials"]] for body in api.bodies("/measurement"))
    assert plain == [None, None] and len(set(drawn)) == 2 and all(drawn)


def test_a_link_command_of_the_suite_runs_in_the_tree_of_the_build(api: Api, agent: Agent) -> None:
    makefile = "tiny: tiny.c\n\t$(CC) -O2 -ffunction-sections -c $<\n\t$(CC) -o $@ tiny.o\n"
    api.sources = {SHA: TREE | {"Makefile": makefile}, BASE_SHA: TREE | {"Makefile": makefile}}
    link = "cc -o tiny tiny.o -Wl,--build-id=0x{layout}0"
    api.jobs = [paired(make_build(layouts={"link": link}), trials=1)]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    assert all(trial["layout"] for trials in trials_of(api).values() for trial in trials), api.text("measure")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"link": "exit 3"}, "cannot be linked"),
        ({"link": "printf '#!/bin/sh\\nexit 4\\n' >tiny; chmod +x tiny"}, "no layout starts: layout "),
    ],
)
def test_without_layouts_a_run_measures_the_plain_programs_and_says_why(
    api: Api, agent: Agent, changes: dict[str, Any], reason: str
) -> None:
    api.jobs = [paired(make_build(layouts=changes), trials=1)]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    assert [trial["layout"] for trials in trials_of(api).values() for trial in trials] == [None, None]
    assert all(reason in body["layouts"]["refusal"] for body in api.bodies("/measurement"))
    assert "measured without random layouts: " in api.text("measure")


def test_a_program_that_no_compiler_of_the_path_links_is_measured_as_it_is(api: Api, agent: Agent) -> None:
    build = make_build(command="make CC=$(command -v -p cc)", layouts=ANY)
    api.jobs = [paired(build, trials=1)]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    assert "no compiler that SpeedTrack knows has linked tiny" in api.text(f"build {BASE_SHA}")
    assert all("built for them" in body["layouts"]["refusal"] for body in api.bodies("/measurement"))


def test_a_layout_that_breaks_is_left_out(api: Api, agent: Agent) -> None:
    """Of each batch, the last one, which is drawn first, does not start."""
    last = f'[ "$(wc -l <linked)" != {layouts.BATCH} ]'
    link = f"cc -O2 -o tiny tiny.c; echo {{layout}} >>linked; {last} || printf '#!/bin/sh\\nexit 4\\n' >tiny"
    api.jobs = [paired(make_build(layouts={"link": link}), trials=2)]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    for body in api.bodies("/measurement"):
        assert body["layouts"]["left_out"] == 2 and not body["layouts"]["refusal"]
        assert all(trial["layout"] for trial in body["trials"])
    assert "left out: layout " in api.text("measure")


def test_an_order_is_repeated_by_hand_with_the_commands_of_a_trial(api: Api, agent: Agent, tmp_path: Path) -> None:
    api.jobs = [paired(trials=1)]
    agent.work()
    (trial,) = trials_of(api)["head"]
    steps = trial["reproduce"]["relink"]
    tree, linked = tmp_path / "tree", tmp_path / "linked"
    tree.mkdir()
    linked.mkdir()
    for name, text in TREE.items():
        (tree / name).write_text(text)

    def run(step: str, directory: Path) -> None:
        environment = {"PATH": "/usr/bin:/bin"} | steps[step]["environment"]
        command = steps[step]["command"].replace("{cores}", "1")
        subprocess.run(["/bin/sh", "-c", command], cwd=directory, env=environment, check=True, timeout=300)

    run("keep", tree)
    subprocess.run(["tar", "-xf", tree / ".layouts" / "kept.tar"], cwd=linked, check=True, timeout=300)
    run("link", linked)
    made = linked / f"tiny.{trial['layout']}"
    functions = [
        [line.split()[2] for line in nm.stdout.splitlines() if " T " in line or " t " in line]
        for nm in (
            subprocess.run(["nm", "-n", program], check=True, capture_output=True, text=True, timeout=60)
            for program in (made, tree / "tiny")
        )
    ]
    assert functions[0] != functions[1]


@pytest.mark.parametrize(
    "linker", [*(pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("mold", "lld", "gold")), "bfd"]
)
def test_each_linker_shuffles_functions_by_the_seed(api: Api, agent: Agent, linker: str) -> None:
    api.jobs = [paired(make_build(layouts={"linker": linker}), trials=1)]
    agent.work()
    assert api.of("/complete"), api.bodies("/fail")
    assert all(trial["layout"] for trials in trials_of(api).values() for trial in trials), api.text("measure")
    assert {body["layouts"]["linker"] for body in api.bodies("/measurement")} == {linker}
