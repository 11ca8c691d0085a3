"""What becomes of results from outside: rows as of a runner, once each, and never work for a machine."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from speedtrack.alerts.settling import floors
from speedtrack.benchmarks.models import LONGEST_NAME, Benchmark, OutsideMetric
from speedtrack.outside import commits
from speedtrack.outside.document import MOST_RESULTS
from speedtrack.outside.tests.conftest import row, send
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import enrolment, machines, registering
from speedtrack.runs.models import Attempt, Environment, Import, Machine, Measurement, Origin, Reason, Run, Series
from speedtrack.runs.requests import byhand, tracking
from speedtrack.tests import builders


def test_samples_and_summaries_are_stored_as_those_of_runners(project: Project, shas: list[str]) -> None:
    report = send(
        project,
        row(shas[0], samples=[3.0, 1.0, 2.0], value=None, parameters={"size": 10, "kind": "a/b"}),
        row(shas[1], low=1.0, high=2.0, n=7),
        row(shas[1], benchmark="merge"),
        environment={"cpu": "Z80"},
        tool="watch 1.0",
    )
    assert (report.taken, report.unchanged, report.refused) == (3, 0, [])
    first, second, third = Measurement.objects.order_by("pk")
    assert (first.value, first.low, first.high, first.n, first.accepted) == (2.0, 1.0, 3.0, 3, True)
    assert first.samples.by_trial == {0: 3.0, 1: 1.0, 2: 2.0}
    assert (second.value, second.low, second.high, second.n) == (1.5, 1.0, 2.0, 7)
    assert second.attempt_id == third.attempt_id, "what one machine measured at one commit is one run"
    names = [one.benchmark.name for one in Series.objects.order_by("pk")]
    assert names == ["sort (kind=a.b, size=10)", "sort", "merge"]
    assert Environment.objects.get().facts == {"series": {"cpu": "Z80"}, "recorded": {}}
    run = Run.objects.order_by("pk")[1]
    assert run.benchmark_set.names == ["sort", "merge"]
    assert (run.reason, run.status, run.imported and run.imported.tool) == ("import", "succeeded", "watch 1.0")
    assert run.events.get().after == "succeeded"


def test_a_result_is_stored_once_and_another_value_beside_it(project: Project, shas: list[str]) -> None:
    rows = [row(shas[0]), row(shas[0], id="b"), row(shas[1], measured_at="2026-03-01T12:00:00Z")]
    assert send(project, *rows).taken == 3
    again = send(project, *rows, row(shas[1], measured_at="2026-03-01T13:00:00+01:00", value=1.6))
    assert (again.taken, again.unchanged) == (0, 3)
    assert "same series and commit as /results/2" in again.refused[0].detail
    assert again.import_id is None and Import.objects.count() == 1
    assert send(project, row(shas[0], value=1.7)).taken == 1
    assert sorted(Measurement.objects.filter(commit__sha=shas[0]).values_list("value", flat=True)) == [1.5, 1.5, 1.7]
    assert sorted(Run.objects.filter(commit__sha=shas[0]).values_list("round", flat=True)) == [0, 1, 2]


def test_projects_of_one_history_each_store_an_equal_result(
    project: Project, repository: builders.Repository, shas: list[str]
) -> None:
    fork = builders.track(repository, last=0, name="fork").project
    assert [send(one, row(shas[0])).taken for one in (project, fork, fork)] == [1, 1, 0]
    assert sorted(Measurement.objects.values_list("series__project__slug", flat=True)) == ["fork", project.slug]


def test_each_result_is_refused_by_itself_or_with_all(project: Project, shas: list[str]) -> None:
    builders.machine("m1")
    registering.register_outside("old")
    machines.retire(Machine.objects.get(name="old"))
    late = (timezone.now() + timedelta(days=2)).isoformat()
    wrong = {
        "/commit": [row("f" * 40), row("1234567"), row("HEAD~1"), row("nosuch"), row(":/Change"), row("--all")],
        "/machine": [row(shas[0], machine=name) for name in ("m1", "old", "!!!")],
        "/benchmark": [row(shas[0], benchmark="..")],
        "/unit": [row(shas[0], unit="bytes", id="u"), row(shas[0], metric="new", unit=None)],
        "/better": [row(shas[0], better="higher", id="u"), row(shas[0], metric="new", better=None)],
        "/measured_at": [row(shas[0], measured_at=late)],
        "/metric": [row(shas[0], metric="\U0001f422" * 30)],
        "": [row(shas[0])],
    }
    rows = [row(shas[0]), *(one for some in wrong.values() for one in some)]
    none = send(project, *rows, all_or_nothing=True)
    assert none.taken == 0 and len(none.refused) == len(rows) - 1
    assert not Import.objects.exists() and not OutsideMetric.objects.exists()
    assert not Machine.objects.filter(name="ci").exists()
    report = send(project, *rows)
    assert report.taken == 1
    places = [place for place, some in wrong.items() for _ in some]
    assert [one.pointer for one in report.refused] == [f"/results/{i + 1}{place}" for i, place in enumerate(places)]
    assert all(one.detail for one in report.refused)
    known = send(project, row(shas[1], unit=None, better=None))
    assert known.taken == 1, "a known metric needs no definition"


@pytest.mark.parametrize(("first", "second", "values"), [("s", "ms", [1.5, 0.0015]), ("ms", "s", [1.5, 1500])])
def test_a_unit_of_the_same_dimension_is_converted_whichever_came_first(
    project: Project, shas: list[str], first: str, second: str, values: list[float]
) -> None:
    rows = [row(shas[0], unit=first), row(shas[1], unit=second, low=1.0, high=2.0)]
    assert send(project, *rows).taken == 2
    assert send(project, *rows).unchanged == 2
    found = Measurement.objects.order_by("commit__positions__number", "pk")
    assert [one.value for one in found] == values
    assert (found[1].low, found[1].high) == (values[1] / 1.5, pytest.approx(values[1] / 0.75))
    (metric,) = OutsideMetric.objects.all()
    assert metric.metric.unit == first, "what senders leave out stays the unit that they gave first"


def test_long_names_are_shortened_with_a_digest(project: Project, shas: list[str]) -> None:
    rows = [row(shas[0], benchmark="x" * 300 + end) for end in "ab"] + [row(shas[0], benchmark="y" * LONGEST_NAME)]
    assert send(project, *rows).taken == 3
    names = sorted(Benchmark.objects.filter(name__regex="^(x|y)").values_list("name", flat=True))
    assert [len(name) for name in names] == [LONGEST_NAME] * 3
    assert names[2] == "y" * LONGEST_NAME and names[0] != names[1]


def test_commits_are_found_by_any_name_and_in_the_repository(
    project: Project, shas: list[str], repository: builders.Repository
) -> None:
    repository.git("tag", "v1.0", shas[1])
    repository.git("branch", "topic", shas[2])
    names = [shas[0], shas[0][:7].upper(), "main", "v1.0", "topic"]
    pushed = repository.commit("pushed just now")
    Project.objects.update(polled_at=timezone.now() - commits.PAUSE)
    found = commits.find(project, [*names, pushed, "nosuch"])
    assert [found.shas[name] for name in (*names, pushed)] == [shas[0], shas[0], pushed, shas[1], shas[2], pushed]
    assert "check it, and push it before its results are sent" in found.faults["nosuch"]
    side = repository.git("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "side")
    repository.git("update-ref", "refs/pull/1/head", side)
    assert send(project, row(side)).taken == 1, "an id on no branch is fetched by itself"
    assert Commit.objects.get(sha=side).positions.count() == 0


def test_an_outside_machine_gets_no_work(project: Project, shas: list[str]) -> None:
    send(project, row(shas[-1]))
    machine = Machine.objects.get(name="ci")
    builders.machine("m1")
    tracking.track(tracking.TrackingRequest(project.url, "tiny", last=2))
    assert [one.name for one in project.machines.all()] == ["m1"]
    assert not Run.objects.exclude(reason=Reason.IMPORT).filter(machine=machine).exists()
    floors.plan_idle_work()
    for refused in (
        lambda: byhand.choose(project.slug, "main", [], "ci"),
        lambda: machines.renew_token("ci"),
        lambda: machines.set_canary("ci", project.slug, None, []),
        lambda: registering.register("ci"),
        lambda: enrolment.make_code("ci"),
    ):
        with pytest.raises(NoSuchThing):
            refused()
    for act in (machines.pause, machines.resume, machines.revoke):
        with pytest.raises(machines.MachineConflict):
            act(machine)
    machines.retire(machine)
    assert "retired" in send(project, row(shas[0])).refused[0].detail
    machines.take_results_again(machine)
    assert send(project, row(shas[0])).taken == 1
    assert not machine.tokens.exists() and not machine.projects.exists()


def test_postgresql_holds_what_an_import_is(project: Project, shas: list[str]) -> None:
    send(project, row(shas[0]))
    run, machine = Run.objects.get(), Machine.objects.filter(name="ci")
    attacks = {
        "an_import_has_ended_and_one_side": lambda: Run.objects.update(status="queued"),
        "an_outside_machine_has_no_runner": lambda: machine.update(last_seen_at=timezone.now()),
        "an_outside_metric_once_per_project": lambda: OutsideMetric.objects.create(
            project=project, name="time", key="time--ms--lower"
        ),
        "a_smallest_effect_is_a_ratio": lambda: OutsideMetric.objects.update(smallest_effect=3),
        "an_outside_result_once_per_project": lambda: Origin.objects.create(
            measurement=Measurement.objects.create(
                attempt=Attempt.objects.create(run=run, number=2, token=2),
                series=Series.objects.get(),
                commit=run.commit,
                **{"value": 1, "low": 1, "high": 1, "n": 1, "paired": False},
            ),
            project=project,
            digest=Origin.objects.get().digest,
        ),
    }
    for name, attack in attacks.items():
        with pytest.raises(IntegrityError, match=name), transaction.atomic():
            attack()


def test_a_full_batch_is_stored_by_few_statements(
    project: Project, shas: list[str], django_assert_max_num_queries: object
) -> None:
    rows = [
        row(sha, benchmark=f"b{i}", metric=f"m{i % 7}", samples=[1.0 + i, 2.0 + i], value=None)
        for sha in shas
        for i in range(MOST_RESULTS // 20)
    ]
    with django_assert_max_num_queries(60):  # type: ignore[operator]
        assert send(project, *rows).taken == len(rows)
    assert Series.objects.filter(undetected_since__isnull=False).count() == MOST_RESULTS // 20
    assert Run.objects.count() == len(shas)
