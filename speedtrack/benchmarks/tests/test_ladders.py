from typing import Any

import pytest
from django.db import IntegrityError, transaction

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.digests import benchmark_digests
from speedtrack.benchmarks.models import Benchmark
from speedtrack.benchmarks.storing import definition_of, ladders_of, store_suite, usual_benchmarks
from speedtrack.benchmarks.suitefiles import parse_suite
from speedtrack.projects.models import Project
from speedtrack.tests.builders import SUITE

LADDER = """
[[benchmark]]
name = "get-ladder"
why = "how reads scale"
ladder = { %s }
workload = { test = "get", keys = { count = 1000 }, values = { bytes = 32 }, prefill = true }
"""


def with_ladder(text: str) -> str:
    return SUITE + LADDER % text


def rungs(text: str) -> list[tuple[str, Any]]:
    definition = parse_suite(with_ladder(text), "tiny.toml")
    return [(section.name, section.workload) for section in definition.benchmark if section.rung]


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(slug="kvd", name="kvd", url="/kvd", default_branch="main", suite="tiny")


def test_each_value_is_a_benchmark_of_its_own() -> None:
    names, workloads = zip(*rungs("clients = [1, 50, 20_000]"), strict=True)
    assert names == ("get-ladder.1", "get-ladder.50", "get-ladder.20000")
    assert [workload.clients for workload in workloads] == [1, 50, 20_000]
    assert all(workload.prefill and workload.keys.count == 1000 for workload in workloads)


@pytest.mark.parametrize(
    ("ladder", "key", "values"),
    [
        ("pipeline = [1, 128]", "pipeline", [1, 128]),
        ("keys = [10, 1_000_000]", "keys.count", [10, 1_000_000]),
        ("key_bytes = [16, 200]", "keys.bytes", [16, 200]),
        ("value_bytes = [10, 1_048_576]", "values.bytes", [10, 1_048_576]),
        ("rate = [1000, 2500.5]", "rate", [1000.0, 2500.5]),
    ],
)
def test_an_axis_changes_its_setting(ladder: str, key: str, values: list[float]) -> None:
    found = []
    for _, workload in rungs(ladder):
        value = workload
        for part in key.split("."):
            value = getattr(value, part)
        found.append(value)
    assert found == values


@pytest.mark.parametrize(
    ("ladder", "message"),
    [
        ("clients = [5, 1]", "the values of a ladder rise"),
        ("clients = [1]", "at least 2"),
        ("clients = [1, 2], keys = [1, 2]", "exactly one of clients"),
        ("", "exactly one of clients"),
        ("size = [1, 2]", "no such key"),
        ("clients = [0, 2]", "get-ladder.0: workload.clients"),
        ("key_bytes = [15, 20]", "get-ladder.15: workload.keys.bytes"),
    ],
)
def test_a_wrong_ladder_is_refused(ladder: str, message: str) -> None:
    with pytest.raises(DefinitionError) as failure:
        parse_suite(with_ladder(ladder), "tiny.toml")
    assert message in str(failure.value)
    assert "how reads scale" not in str(failure.value)  # whole sections are not repeated


PLAIN = '[[benchmark]]\nname = "%s"\nwhy = "taken"\nworkload = { test = "ping" }\n'


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (PLAIN % "get-ladder", "get-ladder occurs twice"),
        (PLAIN % "get-ladder.2", "get-ladder.2 occurs twice"),
        (LADDER % "clients = [5, 9]", "get-ladder occurs twice"),
        ((LADDER % "rate = [5, 9]").replace('"get-ladder"', '"get-ladder.2"'), "get-ladder.2 occurs twice"),
        ((LADDER % "clients = [1, 2]").replace('"get-ladder"', '"build"'), "cannot be named build"),
    ],
)
def test_names_of_benchmarks_ladders_and_rungs_differ(other: str, message: str) -> None:
    for text in (with_ladder("clients = [1, 2]") + other, SUITE + other + LADDER % "clients = [1, 2]"):
        with pytest.raises(DefinitionError) as failure:
            parse_suite(text, "tiny.toml")
        assert message in str(failure.value)


def test_a_command_has_no_ladder() -> None:
    section = LADDER % "clients = [1, 2]"
    command = section[: section.index("workload")] + 'driver = "command"\ncommand = "x {socket} {output}"\n'
    with pytest.raises(DefinitionError, match="a ladder changes a setting of the workload"):
        parse_suite(SUITE + command, "tiny.toml")


def test_rungs_are_stored_with_ladder_and_value_and_are_not_measured_of_themselves(project: Project) -> None:
    definition = parse_suite(with_ladder("clients = [1, 100]"), "tiny.toml")
    suite, benchmarks = store_suite(project, definition)
    places = [(b.name, b.ladder, b.axis, b.rung) for rungs in ladders_of(benchmarks) for b in rungs]
    assert places == [
        ("get-ladder.1", "get-ladder", "clients", 1.0),
        ("get-ladder.100", "get-ladder", "clients", 100.0),
    ]
    assert [b.name for b in usual_benchmarks(definition, benchmarks)] == ["get-p1", "set-p1"]
    assert definition_of(suite.pk) == definition


def test_the_name_of_a_ladder_counts_the_instructions_of_all_its_rungs() -> None:
    counted = '[instructions]\ninside = ["serve"]\nbenchmarks = ["get-ladder", "set-p1"]\n'
    suite = parse_suite(with_ladder("clients = [1, 100]") + counted, "tiny.toml")
    found = {section.name for section in suite.benchmark if suite.functions_of(section) == ["serve"]}
    assert found == {"set-p1", "get-ladder.1", "get-ladder.100"}


def test_a_ladder_leaves_the_digests_of_the_others_alone() -> None:
    before = benchmark_digests(parse_suite(SUITE, "tiny.toml").model_dump())
    after = benchmark_digests(parse_suite(with_ladder("clients = [1, 2]"), "tiny.toml").model_dump())
    assert {name: after[name] for name in before} == before
    assert len(set(after.values())) == len(before) + 2


def test_a_rung_without_its_ladder_is_refused(project: Project) -> None:
    for fields in ({"rung": 1.0}, {"ladder": "a"}, {"ladder": "a", "rung": 1.0}, {"axis": "clients"}):
        with pytest.raises(IntegrityError, match="a_rung_has_a_ladder_an_axis_and_a_value"), transaction.atomic():
            Benchmark.objects.create(project=project, name="x", digest="d", definition={}, **fields)
