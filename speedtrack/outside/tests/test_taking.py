"""Results from outside: what is taken, what is refused, and what becomes of them."""

from pathlib import Path
from typing import Any

import pytest

from speedtrack.outside import document, taking
from speedtrack.outside.taking import Report, Sender
from speedtrack.projects.models import Project
from speedtrack.runs.models import Import, Machine, Measurement, Run, Series
from speedtrack.tests import builders

pytestmark = pytest.mark.django_db(transaction=True)

SENDER = Sender(Import.Door.COMMAND, name="ada")


@pytest.fixture
def repository(tmp_path: Path, settings: Any) -> builders.Repository:
    builders.use_suite(settings, tmp_path / "suites")
    return builders.Repository(tmp_path / "repository")


@pytest.fixture
def shas(repository: builders.Repository) -> list[str]:
    return repository.commits(3)


@pytest.fixture
def project(repository: builders.Repository, shas: list[str]) -> Project:
    return builders.track(repository, last=0).project


def row(commit: str, **changes: Any) -> dict[str, Any]:
    found = {"commit": commit, "benchmark": "sort", "metric": "time", "unit": "s", "better": "lower", "value": 1.5}
    return {name: value for name, value in (found | changes).items() if value is not None}


def batch(*rows: dict[str, Any], **shared: Any) -> document.Batch:
    return document.batch_of({"schema": document.SCHEMA, "machine": "ci", **shared, "results": list(rows)})


def send(project: Project, *rows: dict[str, Any], all_or_nothing: bool = False, **shared: Any) -> Report:
    return taking.take(project, batch(*rows, **shared), SENDER, all_or_nothing)


def test_stores_samples_and_summaries_of_a_machine_without_runner(project: Project, shas: list[str]) -> None:
    report = send(
        project,
        row(shas[0], samples=[3.0, 1.0, 2.0], value=None, parameters={"size": 10, "kind": "a/b"}),
        row(shas[1], low=1.0, high=2.0, n=7),
        environment={"cpu": "Z80"},
        tool="watch 1.0",
    )
    assert (report.taken, report.unchanged, report.refused) == (2, 0, [])
    first, second = Measurement.objects.order_by("pk")
    assert (first.value, first.low, first.high, first.n, first.accepted) == (2.0, 1.0, 3.0, 3, True)
    assert first.samples.by_trial == {0: 3.0, 1: 1.0, 2: 2.0}
    assert (second.value, second.low, second.high, second.n) == (1.5, 1.0, 2.0, 7)
    assert [one.benchmark.name for one in Series.objects.order_by("pk")] == ["sort (kind=a.b, size=10)", "sort"]
    machine = Machine.objects.get(name="ci")
    assert machine.outside
    assert not machine.projects.exists()
    assert set(Run.objects.values_list("reason", "status", "machine", "imported__tool")) == {
        ("import", "succeeded", machine.pk, "watch 1.0")
    }
