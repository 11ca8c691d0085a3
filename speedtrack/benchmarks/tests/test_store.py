import pytest
from django.db import IntegrityError, transaction

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.models import Benchmark, Suite
from speedtrack.benchmarks.storing import store_suite
from speedtrack.benchmarks.suitefiles import parse_suite
from speedtrack.projects.models import Project
from speedtrack.tests.builders import SUITE


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(slug="kvd", name="kvd", url="/kvd", default_branch="main", suite="tiny")


def stored(project: Project, old: str = "", new: str = "") -> tuple[Suite, list[Benchmark]]:
    assert old in SUITE
    text = SUITE.replace(old, new, 1) if old else SUITE
    return store_suite(project, parse_suite(text, "tiny.toml"))


def test_storing_twice_gives_the_same_rows(project: Project) -> None:
    assert stored(project) == stored(project)
    assert Suite.objects.count() == 1
    assert Benchmark.objects.count() == 2


def test_benchmarks_come_in_the_order_of_the_file(project: Project) -> None:
    _, benchmarks = stored(project)
    assert [b.name for b in benchmarks] == ["get-p1", "set-p1"]


def test_another_workload_is_another_benchmark_and_the_old_one_stays(project: Project) -> None:
    _, (before, other) = stored(project)
    _, (after, same) = stored(project, "clients = 50", "clients = 60")
    assert before.pk != after.pk
    assert before.name == after.name
    assert other == same
    assert Benchmark.objects.count() == 3


def test_another_why_is_another_suite_and_the_same_benchmark_with_the_new_why(project: Project) -> None:
    old_suite, (before, _) = stored(project)
    new_suite, (after, _) = stored(project, "the plain read path", "reads, one at a time")
    assert old_suite != new_suite
    assert before == after
    assert Benchmark.objects.get(pk=before.pk).why == "reads, one at a time"


def test_projects_share_a_suite_and_have_benchmarks_of_their_own(project: Project) -> None:
    other = Project.objects.create(slug="b", name="b", url="/b", default_branch="main", suite="tiny")
    suite, benchmarks = stored(project)
    other_suite, other_benchmarks = stored(other)
    assert suite == other_suite
    assert not {b.pk for b in benchmarks} & {b.pk for b in other_benchmarks}


def test_a_stored_suite_is_read_back_as_the_definition_it_was(project: Project) -> None:
    suite, _ = stored(project)
    suite.refresh_from_db()
    assert definitions.Definition.model_validate(suite.definition) == parse_suite(SUITE, "tiny.toml")
    assert suite.smallest_effect("server_cpu_ns_per_request", 0.5) == 0.03
    assert suite.smallest_effect("throughput_rps", 0.5) == 0.5


def test_the_database_refuses_a_benchmark_twice(project: Project) -> None:
    _, (benchmark, _) = stored(project)
    with pytest.raises(IntegrityError, match="a_benchmark_once_per_definition"), transaction.atomic():
        Benchmark.objects.create(
            project=project, name=benchmark.name, digest=benchmark.digest, definition=benchmark.definition
        )
