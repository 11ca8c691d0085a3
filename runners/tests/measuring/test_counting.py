"""Instructions inside of named functions: the count holds what is inside and nothing else, to the instruction."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

import pytest

from runners.build.elf import function_names
from runners.errors import BenchmarkFailed
from runners.measuring import callgrind, callgrind_report, counted_loads, counting, countingprocess
from runners.measuring.callgrind_report import cost_of_parts, function_costs, parts_of, stack_costs, stack_of
from runners.measuring.stacks import StackTable
from runners.sample import write_history
from runners.tests.api import Api
from runners.tests.conftest import BASE_SHA, SHA, TINY, TREE, make_benchmark, make_build, make_job
from runners.work.agent import Agent

# 1000 turns of a loop of two instructions, which no compiler removes; and a few around it.
SPIN = '__attribute__((noinline)) void spin(void) { for (int i = 0; i < 1000; i++) __asm__ volatile(""); }\n'
GET = "char **value = slot(argv[1], 0);"
SUITES = Path(__file__).parents[3] / "suites"
SIDES = [{"side": "base", "sha": BASE_SHA}, {"side": "head", "sha": SHA}]
PIPELINE = 16
MAKEFILE = "tiny: tiny.c\n\t$(CC) -O2 -g -o $@ $<\n"


def source(inside: str = "", outside: str = "") -> dict[str, str]:
    """The test server with a call at the start of each request's answer, and one for each turn outside of `serve`."""
    text = TINY.replace("static void serve(", SPIN + "__attribute__((noinline)) void serve(", 1)
    text = text.replace("    while ((length = request(", f"    {inside}\n    while ((length = request(", 1)
    text = text.replace("serve(&connections[", f"{outside} serve(&connections[", 1)
    assert text.count("spin();") == bool(inside) + bool(outside)
    return TREE | {"tiny.c": text, "Makefile": MAKEFILE}


def counted_job(names: list[str], **changes: Any) -> dict[str, object]:
    return make_job(trials=1, benchmarks=[make_benchmark(pipeline=PIPELINE) | {"inside": names}], **changes)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(countingprocess, "ROUNDS", 4)
    monkeypatch.setattr(counted_loads, "ROUNDS", 4)


def counts_of(api: Api) -> list[float]:
    return [body["once"][counting.METRIC] for body in api.bodies("/measurement")]


@pytest.mark.valgrind
def test_a_call_inside_is_counted_and_one_outside_is_not(api: Api, agent: Agent) -> None:
    """The same server three times: as it is, with a spin before each turn's `serve`, and with one inside of it."""
    found = []
    for tree in (source(), source(outside="spin();"), source(inside="spin();")):
        api.sources[SHA] = tree
        api.jobs = [counted_job(["serve"], build=make_build(environment={"N": str(len(found))}))]
        agent.work()
        found.append(counts_of(api)[-1])
    plain, outside, inside = found
    assert outside == plain
    # One spin per turn, 16 requests in each turn; a turn of its loop is two or three instructions.
    assert 2_000 / PIPELINE <= inside - plain <= 3_100 / PIPELINE


@pytest.mark.valgrind
def test_where_the_words_of_a_request_lie_is_not_counted(api: Api, agent: Agent) -> None:
    """This server is slow until a request with many words comes, which moves its objects in memory."""
    head = "static int answer(char *out, int argc, char **argv) {\n"
    found = []
    for slow in ("", "    if (!moved) spin();\n"):
        text = source()["tiny.c"].replace(SPIN, "", 1)
        text = text.replace(head, f"{SPIN}static int moved;\n{head}    moved |= argc > 20;\n{slow}", 1)
        api.sources[SHA] = TREE | {"tiny.c": text, "Makefile": MAKEFILE}
        api.jobs = [counted_job(["serve"], build=make_build(environment={"N": str(len(found))}))]
        agent.work()
        found.append(counts_of(api)[-1])
    plain, moved = found
    assert plain <= moved < plain + 5


@pytest.mark.valgrind
def test_both_sides_are_counted_in_fresh_processes_with_the_costs_of_their_functions(api: Api, agent: Agent) -> None:
    api.sources |= {BASE_SHA: source(), SHA: source(inside="spin();")}
    api.jobs = [counted_job(["serve"], sides=SIDES, counted=True) | {"trials": 2, "most_trials": 2}]
    agent.work()
    base, head = api.bodies("/measurement")
    assert (base["side"], head["side"], len(api.of("/complete"))) == ("base", "head", 1)
    values = [[trial["metrics"][counting.METRIC] for trial in body["trials"]] for body in (base, head)]
    assert values[0][0] == values[0][1] < values[1][0] == values[1][1]
    costs = [body["trials"][0]["server"]["counted"]["functions"] for body in (base, head)]
    assert "spin" not in costs[0] and costs[1]["spin"] == pytest.approx(values[1][0] - values[0][0], rel=0.05)
    assert sum(costs[1].values()) == pytest.approx(values[1][0], rel=1e-4)


@pytest.mark.valgrind
def test_the_function_of_the_sample_suite_holds_nearly_all_of_a_request(api: Api, agent: Agent, tmp_path: Path) -> None:
    """Reading, the command and writing are inside of it, and only the event loop is not."""
    write_history(tmp_path / "kvd", upto=6)  # later a request costs what the keys before it were
    files = subprocess.check_output(["git", "-C", tmp_path / "kvd", "ls-files"], text=True).split()
    api.sources[SHA] = {name: (tmp_path / "kvd" / name).read_text() for name in files}
    suite = tomllib.loads((SUITES / "sample.toml").read_text())
    [section] = [one for one in suite["benchmark"] if one["name"] == "get-p16"]
    benchmark = make_benchmark(**section["workload"]) | {"inside": suite["instructions"]["inside"]}
    server = make_job()["server"] | suite["server"]
    build = make_build(**suite["build"])
    api.jobs = [make_job(trials=1, server=server, build=build, benchmarks=[benchmark | {"instructions": "callgrind"}])]
    agent.work()
    [counts] = [body["once"] for body in api.bodies("/measurement")]
    # The two send different requests, whose look-ups cost a little more or less.
    assert 0.9 < counts[counting.METRIC] / counts[callgrind.METRIC] < 1.05


@pytest.mark.valgrind
def test_a_count_that_takes_too_long_is_ended_and_the_rest_is_measured(
    api: Api, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(countingprocess, "MOST_CPU_S", 0.001)
    api.sources[SHA] = source()
    api.jobs = [counted_job(["serve"])]
    agent.work()
    assert "took more than 0.001 s of CPU time: give the benchmark fewer keys" in api.text("measure")
    assert not api.bodies("/measurement")[0]["once"] and api.of("/complete")


@pytest.mark.valgrind
def test_what_shares_a_process_is_counted_as_it_is_alone_in_any_order(api: Api, agent: Agent) -> None:
    """The server cannot be emptied, so the second data set has a process of its own."""
    api.sources[SHA] = source()
    inside = {"inside": ["serve"]}
    get = make_benchmark("get-p16", pipeline=PIPELINE) | inside
    same = make_benchmark("get-tcp", transport="tcp", pipeline=PIPELINE, clients=5) | inside
    sets = make_benchmark("set-p1", test="set") | inside
    counters = make_benchmark("incr-p1", test="incr", prefill=False) | inside
    found: dict[str, list[float]] = {}
    for number, order in enumerate(([get, same, sets, counters], [counters, sets, same, get], [counters], [get])):
        api.jobs = [make_job(trials=1, benchmarks=order, build=make_build(environment={"N": str(number)}))]
        before = len(api.bodies("/measurement"))
        agent.work()
        for body in api.bodies("/measurement")[before:]:
            found.setdefault(body["benchmark"]["name"], []).append(body["once"][counting.METRIC])
    assert {name: len(counts) for name, counts in found.items()} == {
        "get-p16": 3,
        "get-tcp": 2,
        "set-p1": 2,
        "incr-p1": 3,
    }
    for counts in found.values():
        assert max(counts) == pytest.approx(min(counts), rel=0.003)
    assert found["get-tcp"] == found["get-p16"][:2]


@pytest.mark.valgrind
def test_a_load_that_fails_is_not_countable_and_the_others_are_counted(api: Api, agent: Agent) -> None:
    """The keys of the first are prefilled, and it asks for hits that never come."""
    api.sources |= {BASE_SHA: source(), SHA: source()}
    inside = {"inside": ["serve"]}
    wrong = make_benchmark("wrong", expect={"hit_rate": 0.5}) | inside
    api.jobs = [
        make_job(trials=2, most_trials=2, counted=True, sides=SIDES, benchmarks=[wrong, make_benchmark() | inside])
    ]
    agent.work()
    assert {body["benchmark"]["name"] for body in api.bodies("/measurement")} == {"get-p1"}
    (failure,) = api.bodies("/fail")
    assert "wrong answer: hit_rate not as expected" in failure["error"] and "get-p1:" not in failure["error"]


@pytest.mark.valgrind
def test_a_function_that_no_request_enters_is_the_reason_why_nothing_is_counted(api: Api, agent: Agent) -> None:
    api.sources[SHA] = source()
    api.jobs = [counted_job(["spin"])]
    agent.work()
    (measurement,) = api.bodies("/measurement")
    assert measurement["once"] == {} and "no request was seen inside of spin" in measurement["not_countable"]


def test_a_missing_function_is_said_before_anything_is_counted(api: Api, agent: Agent) -> None:
    api.jobs = [counted_job(["processInputBuffer", "handle"])]
    agent.work()
    (measurement,) = api.bodies("/measurement")
    assert measurement["once"] == {} and measurement["trials"][0]["metrics"]["server_cpu_ns_per_request"] > 0
    assert "tiny has no function processInputBuffer or handle: name one of its functions" in api.text("measure")


def test_a_stripped_program_is_told_from_one_without_the_function(api: Api, agent: Agent) -> None:
    api.sources[SHA] = TREE | {"Makefile": "tiny: tiny.c\n\t$(CC) -O2 -s -o $@ $<\n"}
    api.jobs = [counted_job(["main"])]
    agent.work()
    assert "tiny has no symbol table: build it without -s and without strip" in api.text("measure")


ARM_PROGRAM = b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xb7\x00\x01\x00\x00\x00" + bytes(40)
VALGRIND = shutil.which("valgrind")
# AVX-512, which valgrind does not know.
UNKNOWN = '__asm__ volatile(".byte 0x62, 0xf1, 0x7c, 0x48, 0x58, 0xc0");'


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (None, "valgrind is not a program on this machine: install it"),
        (f"#!/bin/sh\nVALGRIND_LIB=/nonexistent exec {VALGRIND} $*\n".encode(), "install valgrind for this machine"),
        (ARM_PROGRAM, "install valgrind for this machine"),
        (b"#!/bin/sh\necho the tool broke >&2; exit 1\n", "in valgrind: the server ended at once (exit status 1)"),
    ],
)
@pytest.mark.valgrind
def test_a_valgrind_that_cannot_run_the_server_is_said_and_the_rest_is_measured(
    api: Api, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: bytes | None, words: str
) -> None:
    (tmp_path / "programs").mkdir()
    processes = agent.tools.launcher.processes
    processes.sandbox = replace(processes.sandbox, readable=(*processes.sandbox.readable, tmp_path / "programs"))
    if program:
        (tmp_path / "programs" / "valgrind").write_bytes(program)
        (tmp_path / "programs" / "valgrind").chmod(0o755)
    kept = [path for path in os.environ["PATH"].split(":") if not Path(path, "valgrind").exists()]
    monkeypatch.setenv("PATH", ":".join([str(tmp_path / "programs"), *kept]))
    api.jobs = [counted_job(["main"]), counted_job(["main"], sides=SIDES, counted=True)]
    agent.work()
    once, *_ = api.bodies("/measurement")
    assert once["once"] == {} and once["trials"][0]["metrics"]["server_cpu_ns_per_request"] > 0
    logged = "".join(body["text"] for body in api.bodies("/log"))  # of two runs
    (absent,) = re.findall(rf"{counting.METRIC} is absent: (.*)", logged)
    assert words in absent
    (failure,) = api.bodies("/fail")
    assert failure["kind"] == "permanent" and words in failure["error"]


@pytest.mark.sandbox
@pytest.mark.valgrind
def test_a_valgrind_that_the_sandbox_hides_is_said_with_the_remedy(
    api: Api, agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "valgrind").write_text(f'#!/bin/sh\nexec {VALGRIND} "$@"\n')
    (tmp_path / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    api.jobs = [counted_job(["main"])]
    agent.work()
    assert "name its directory in SPEEDTRACK_SANDBOX_READABLE" in api.text("measure") and api.of("/complete")


@pytest.mark.valgrind
@pytest.mark.avx512
def test_instructions_that_valgrind_does_not_know_are_said_with_the_remedy(api: Api, agent: Agent) -> None:
    text = TINY.replace(GET, f"{UNKNOWN} {GET}", 1)
    assert text.count(UNKNOWN) == 1
    api.sources[SHA] = TREE | {"tiny.c": text}
    api.jobs = [counted_job(["main"])]
    agent.work()
    assert "in valgrind: the server ended during the trial" in api.text("measure")
    assert "build it without -march=native" in api.text("measure") and api.of("/complete")


def test_the_first_function_that_the_program_has_is_counted_with_the_compilers_copies_of_it(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "main" in function_names(tiny)
    assert counting.counted_symbols(["gone", "main", "answer"], {"tiny": tiny}) == ("main", ["main"])
    symbols = frozenset({"f.constprop.0", "f.isra.0.constprop.1", "f.part.0", "f.cold", "fg"})
    monkeypatch.setattr(counting, "function_names", lambda file: symbols)
    assert counting.counted_symbols(["f"], {"tiny": tiny}) == ("f", ["f.constprop.0", "f.isra.0.constprop.1"])


@pytest.mark.parametrize(("each", "first"), [(1, ["2"]), (2, ["3", "4"])])
def test_each_round_has_the_parts_between_its_connection_and_the_next(each: int, first: list[str]) -> None:
    parts = [Path(str(number)) for number in range(each * (2 * countingprocess.ROUNDS + 1))]
    rounds = countingprocess.parts_of_rounds([Path("of keys"), *parts], each)
    assert (len(rounds), [part.name for part in rounds[0]], len(rounds[-1])) == (countingprocess.ROUNDS, first, each)
    for saw, parts_each in ((parts[1:], each), (parts, 0)):
        with pytest.raises(BenchmarkFailed, match="the server must accept them one by one"):
            countingprocess.parts_of_rounds(saw, parts_each)


def test_the_lowest_costs_of_rounds_count() -> None:
    cheap, dear = (Counter({("f",): cost, ("f", "info"): 500}) for cost in (8000, 12000))
    costs = countingprocess.lowest([dear, cheap])
    assert costs == {("f",): 8000, ("f", "info"): 500}
    assert countingprocess.Costs("f", costs, 1000).count() == countingprocess.Count("f", 8.5, {"f": 8.0, "info": 0.5})


def test_what_is_random_in_each_round_is_the_mean_of_its_middle_half() -> None:
    rounds = [Counter({("f",): cost}) for cost in (100, 110, 90, 102, 98, 5000, 101, 99)]
    rounds[2][("rare",)] = rounds[5][("rare",)] = 700
    assert countingprocess.middle(rounds) == {("f",): 100, ("rare",): 0}


def test_the_functions_of_a_count_add_up_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(countingprocess, "MOST_FUNCTIONS", 2)
    per_request = {"a": 10, "b": 5, "c": 3, "d": 2, "e": -1}
    each = {(name,): cost * 100 for name, cost in per_request.items()}
    count = countingprocess.Costs("f", Counter(each), 100).count()
    assert dict(count.functions) == {"a": 10.0, "b": 5.0, "(other functions)": 4.0}
    assert sum(count.functions.values()) == count.per_request == 19.0


def test_a_report_is_read_by_function_without_what_it_called(tmp_path: Path) -> None:
    lines = [
        "positions: line",
        "events: Ir",
        "fl=(1) a.c",
        "fn=(1) outer",
        "10 3",
        "+1 4",
        "cfn=(2) inner",
        "calls=2 30",
    ]
    lines += ["* 100", "-2 1", "", "fn=(2)", "30 90", "fn=(3) inner'2", "31 10", "totals: 108"]
    assert stack_costs(lines, StackTable()) == {("outer",): 8, ("inner",): 100}
    for name in ("out.2", "out.10", "out", "out.x"):
        (tmp_path / name).write_text("\n".join(lines))
    parts = parts_of(tmp_path / "out")
    assert [file.name for file in parts] == ["out.2", "out.10", "out"]
    assert cost_of_parts(parts, StackTable()) == {("outer",): 24, ("inner",): 300}


def test_the_callers_that_a_report_has_are_the_stack_of_a_function() -> None:
    lines = ["fn=(1) inner'2'outer'main", "30 90", "fn=(2) inner'main", "30 5", "cfn=(1)", "calls=1 30", "31 90"]
    costs = stack_costs([*lines, "fn=(1)", "+1 4"], StackTable())
    assert costs == {("main", "outer", "inner"): 94, ("main", "inner"): 5}
    assert function_costs(costs) == {"inner": 99}
    assert stack_of("free'0x000000000010f5c0'main") == ("main", "(unknown)", "free")


# By case: what a hostile server may write for each number of a name; and the refusal.
LARGE = "its different stacks take more than 64 MB"
ENDLESS = {
    "a stack of its own in each line": ("f{n}'g{n}'main", LARGE),
    "stacks of very many frames": ("a{n}'" * 99, LARGE),
    "names of four bytes in each character": ("{n}" + "x" * 60_000 + "\U0001f600", LARGE),
    "many numbers of one stack": ("f", "it has more than 100000 stacks"),
}
COUNT = r"""
import re, sys
from pathlib import Path
from runners.errors import BenchmarkFailed
from runners.measuring import countingprocess
from runners.measuring.callgrind_report import cost_of_parts
from runners.measuring.stacks import StackTable
def peak_mb(): return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10
before, table = peak_mb(), StackTable()
try:
    countingprocess.lowest(cost_of_parts([Path(part)], table) for part in sys.argv[1:])
except BenchmarkFailed as error:
    print(error)
print(peak_mb() - before)
"""


@pytest.mark.parametrize(("name", "refusal"), ENDLESS.values(), ids=ENDLESS)
def test_a_report_without_end_is_refused_and_takes_little_memory(tmp_path: Path, name: str, refusal: str) -> None:
    """Numbers and names go on from part to part, so that none of them is too large by itself."""
    lines = (f"fn=({{n}}) {name}\n1 1\n".format(n=number) for number in count())
    parts = [tmp_path / f"callgrind.out.{one}" for one in range(8)]
    for part in parts:
        with part.open("w") as stream:
            while stream.tell() < callgrind_report.PARTS_LIMIT_BYTES // 4:
                stream.writelines(islice(lines, 100))
    done = subprocess.run([sys.executable, "-c", COUNT, *parts], capture_output=True, text=True, check=True)
    *refusals, grown_mb = done.stdout.splitlines()
    print(refusals, grown_mb, "MB")
    assert int(grown_mb) < 100
    assert refusals == [f"callgrind's report cannot be read: {refusal}"]


def test_a_report_of_too_many_parts_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(callgrind_report, "MOST_PARTS", 10)
    for number in range(10):
        (tmp_path / f"callgrind.out.{number}").touch()
    assert len(parts_of(tmp_path / "callgrind.out")) == 10
    (tmp_path / "callgrind.out.10").touch()
    with pytest.raises(BenchmarkFailed, match="callgrind's report has more than 10 parts"):
        parts_of(tmp_path / "callgrind.out")


def test_a_part_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "callgrind.out.1").symlink_to("/etc/passwd")
    with pytest.raises(BenchmarkFailed, match=r"callgrind\.out\.1 is not a regular file"):
        cost_of_parts(parts_of(tmp_path / "callgrind.out"), StackTable())
