"""A person asks at which commit something changed: pairs answer, with as few commits measured as halving needs."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from speedtrack.alerts.bisections import bisecting, searches
from speedtrack.alerts.bisections.remaining import remaining_time
from speedtrack.alerts.bisections.searches import searches_of
from speedtrack.alerts.models import Alert, Bisection, BisectionAnswer, ChangePoint
from speedtrack.alerts.triage.measuring import NotMeasurable
from speedtrack.processes import dispatch
from speedtrack.projects.models import ChainCommit, Commit
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.fleet import registering
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import byhand, changing
from speedtrack.tests import builders, worlds
from speedtrack.tests.builders import Repository

pytestmark = pytest.mark.django_db
COMMITS = 17


@worlds.shared
def shas(settings: Any, directory: Path) -> list[str]:
    """A tracked branch, nothing of which was measured."""
    builders.use_suite(settings, directory / "suites")
    repository = Repository(directory / "kvd")
    repository.commits(COMMITS)
    builders.track(repository, last=0)
    registering.add_machine("m1")
    return repository.git("rev-list", "--reverse", "HEAD").split()


def commit(sha: str) -> Commit:
    return Commit.objects.get(sha=sha)


def begin(shas: list[str], first: int = 0, last: int = -1, names: tuple[str, ...] = ("get-p1",)) -> Bisection:
    return bisecting.start(commit(shas[first]), commit(shas[last]), Machine.objects.get(), names)


Speed = Callable[[str, str, int], float]


def slower_from(shas: list[str], **places: int) -> Speed:
    """A quarter slower from a commit on, by benchmark; about 1% of noise."""

    def speed(sha: str, benchmark: str, trial: int) -> float:
        place = places.get(benchmark.replace("-", "_"), 10**6)
        noise = random.Random(f"{sha}{benchmark}{trial}").gauss(0, 0.01)
        return (6250.0 if shas.index(sha) >= place else 5000.0) * (1 + noise)

    return speed


def finish(speed: Speed) -> list[Run]:
    """Play runner and dispatcher until the bisections have ended; the runs that were measured."""
    done = []
    for _ in range(60):
        if not Bisection.objects.measuring().exists():
            return done
        done += builders.work(Machine.objects.get(), speed, until=1)
        bisecting.step()
    raise AssertionError("it does not end")


def left_of(bisection: Bisection) -> dict[str, tuple[int, int] | None]:
    """By benchmark: the places of the commits that are left, the first one excluded."""
    return {one.benchmark.name: one.range_left(bisection) for one in searches_of(bisection)}


@pytest.mark.parametrize("cause", [1, 7, 8, COMMITS - 1])
def test_the_commit_is_found_with_five_runs(shas: list[str], cause: int) -> None:
    bisection = begin(shas)
    assert remaining_time(bisection, searches_of(bisection)).steps == 5
    runs = finish(slower_from(shas, get_p1=cause))
    bisection.refresh_from_db()
    assert bisection.ended_at and bisection.note == ""
    assert left_of(bisection) == {"get-p1": (cause - 1, cause)}
    assert {run.base.sha for run in runs} == {shas[0]}
    assert len([run for run in runs if run.bisections.exists()]) <= 1 + 4 + 1
    assert not Run.objects.unfinished().exists()
    answers = dict(bisection.answers.values_list("commit__sha", "answer"))
    assert answers.pop(shas[-1]) == "different"
    assert all(answer == ("new" if shas.index(sha) >= cause else "old") for sha, answer in answers.items())
    assert remaining_time(bisection, searches_of(bisection)).steps == 0
    assert not ChangePoint.objects.exists() and not Alert.objects.exists()


def test_ends_that_are_the_same_need_no_other_commit(shas: list[str]) -> None:
    bisection = begin(shas)
    finish(slower_from(shas))
    assert [one.answer for one in bisection.answers.all()] == ["same"]
    assert set(bisection.runs.values_list("commit__sha", flat=True)) == {shas[-1]}


def test_benchmarks_that_changed_at_different_commits_share_runs(shas: list[str]) -> None:
    bisection = begin(shas, names=("get-p1", "set-p1"))
    runs = finish(slower_from(shas, get_p1=3, set_p1=13))
    assert left_of(bisection) == {"get-p1": (2, 3), "set-p1": (12, 13)}
    assert len(runs) < 2 * 5


def test_commits_that_do_not_build_are_passed_over(shas: list[str]) -> None:
    """The cause is among them: the range says so."""
    bisection = begin(shas)
    machine, speed = Machine.objects.get(), slower_from(shas, get_p1=8)
    broken = shas[6:10]
    for _ in range(40):
        waiting = queue.order.next_run(machine)
        if waiting and waiting.commit.sha in broken:
            run = builders.claim(machine)
            builders.send_build(run, run.commit, succeeded=False)
            failure = FailureReport(
                token=run.lease_token, kind="permanent", error="build failed: make exited with code 2"
            )
            queue.fail(machine, run.pk, failure)
        else:
            builders.work(machine, speed, until=1)
        bisecting.step()
        if not Bisection.objects.measuring().exists():
            break
    assert left_of(bisection) == {"get-p1": (5, 10)}
    failed = bisection.answers.filter(answer="failed")
    assert sorted(failed.values_list("commit__sha", flat=True)) == sorted(broken)
    assert all("make exited with code 2" in one.why for one in failed)


def test_an_idle_machine_has_the_next_commits_queued_and_those_not_needed_are_taken_back(shas: list[str]) -> None:
    bisection = begin(shas)
    builders.work(Machine.objects.get(), slower_from(shas, get_p1=2), until=1)
    bisecting.step()
    waiting = [shas.index(run.commit.sha) for run in bisection.runs.unfinished().order_by("pk")]
    assert waiting == [8, 4, 12]
    builders.work(Machine.objects.get(), slower_from(shas, get_p1=2), until=1)
    bisecting.step()
    assert 12 not in [shas.index(run.commit.sha) for run in bisection.runs.unfinished()]
    assert Run.objects.get(commit__sha=shas[12]).status == "cancelled"


def test_a_machine_with_other_work_measures_one_commit_at_a_time(shas: list[str]) -> None:
    bisection = begin(shas)
    builders.work(Machine.objects.get(), slower_from(shas, get_p1=2), until=1)
    byhand.queue_by_hand(byhand.choose("kvd", shas[5], [], None))
    bisecting.step()
    assert bisection.runs.unfinished().count() == 1


def test_pairs_that_never_decide_end_without_an_answer(shas: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the change, with much noise: a few pairs do not say on which level the commit runs."""
    monkeypatch.setattr(searches, "MOST_ROUNDS", 2)

    def speed(sha: str, benchmark: str, trial: int) -> float:
        if sha == shas[1]:
            return 5240.0 * (1.1, 0.9, 1.05, 0.95, 1.0)[trial % 5]
        return {shas[0]: 5000.0, shas[2]: 5500.0}[sha] + trial

    bisection = begin(shas, first=0, last=2)
    finish(speed)
    assert left_of(bisection) == {"get-p1": (0, 2)}
    assert bisection.answers.get(commit__sha=shas[1]).answer == "undecided"


def test_a_run_that_a_person_cancels_is_no_answer_and_is_not_queued_again(shas: list[str]) -> None:
    bisection = begin(shas)
    queue.cancel(Run.objects.get(), "by hand")
    bisecting.step()
    bisection.refresh_from_db()
    assert bisection.ended_at
    assert bisection.answers.get().answer == "failed" and "cancelled" in bisection.answers.get().why


def test_one_of_a_project_that_is_no_longer_tracked_ends(shas: list[str]) -> None:
    bisection = begin(shas)
    builders.work(Machine.objects.get(), slower_from(shas, get_p1=3), until=1)
    bisecting.step()
    changing.untrack(bisection.project)
    bisecting.step()
    bisection.refresh_from_db()
    assert bisection.ended_at and bisection.note == "kvd is no longer tracked"
    assert not Run.objects.unfinished().exists()
    with pytest.raises(NotMeasurable, match="must be tracked"):
        begin(shas)


def test_stopping_cancels_what_is_queued(shas: list[str]) -> None:
    bisection = begin(shas)
    bisecting.stop(bisection, "stopped by hand")
    bisection.refresh_from_db()
    assert bisection.note == "stopped by hand"
    assert set(Run.objects.values_list("status", flat=True)) == {"cancelled"}
    bisecting.stop(bisection, "again")
    bisection.refresh_from_db()
    assert bisection.note == "stopped by hand"


def test_asking_twice_begins_one(shas: list[str]) -> None:
    assert begin(shas).pk == begin(shas).pk
    assert Run.objects.count() == 1
    finish(slower_from(shas, get_p1=3))
    assert begin(shas).pk != Bisection.objects.earliest("pk").pk


@pytest.mark.parametrize(
    "first, last, names, why",
    [
        (0, 0, (), "is both ends"),
        (5, 2, (), "swap them"),
        (0, 5, ("nothing",), "has no benchmark nothing"),
    ],
)
def test_what_cannot_be_bisected_is_refused(
    shas: list[str], first: int, last: int, names: tuple[str, ...], why: str
) -> None:
    with pytest.raises(NotMeasurable, match=why):
        begin(shas, first, last, names)
    assert not Run.objects.exists()


def test_commits_of_no_common_branch_are_refused(shas: list[str]) -> None:
    ChainCommit.objects.filter(commit__sha=shas[0]).delete()
    with pytest.raises(NotMeasurable, match="no tracked branch has both"):
        begin(shas)


def test_metrics_that_pairs_do_not_measure_are_refused(shas: list[str]) -> None:
    for metric in ("instructions_exact", "binary_bytes", "nothing"):
        with pytest.raises(NotMeasurable, match="pairs do not measure"):
            bisecting.start(commit(shas[0]), commit(shas[-1]), Machine.objects.get(), metric=metric)


def test_the_dispatcher_sees_when_one_goes_on(shas: list[str]) -> None:
    begin(shas)
    assert "detect" not in dispatch.duties_with_work()
    builders.work(Machine.objects.get(), slower_from(shas, get_p1=3), until=1)
    assert Bisection.objects.ripe().exists() and "detect" in dispatch.duties_with_work()
    bisecting.step()
    assert not Bisection.objects.ripe().exists()


def test_one_that_fails_holds_up_no_other(shas: list[str]) -> None:
    broken, good = begin(shas), begin(shas, last=9)
    Bisection.objects.filter(pk=broken.pk).update(metric_name="gone")
    finish(slower_from(shas, get_p1=3))
    broken.refresh_from_db()
    assert "KeyError" in broken.note and left_of(good) == {"get-p1": (2, 3)}


def test_answers_are_kept_when_samples_are_not(shas: list[str]) -> None:
    bisection = begin(shas)
    finish(slower_from(shas, get_p1=3))
    before = list(BisectionAnswer.objects.order_by("pk").values_list("commit", "answer", "pairs"))
    Run.objects.all()[0].attempts.all()[0].measurements.all().delete()
    bisecting.step()
    assert list(BisectionAnswer.objects.order_by("pk").values_list("commit", "answer", "pairs")) == before
    assert bisection.answers.count() == len(before)
