import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.projects.sync import sync
from speedtrack.runs.models import Machine, Reason, Run, Status
from speedtrack.runs.planning import planning, pushes
from speedtrack.runs.planning.planning import PRIORITY
from speedtrack.runs.queue import jobs
from speedtrack.runs.requests import byhand
from speedtrack.runs.requests.tracking import Tracked
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository


def priorities(**filters: Any) -> Counter[int]:
    return Counter(Run.objects.filter(**filters).values_list("priority", flat=True))


@pytest.fixture
def pushed(machine: Machine, repository: Repository) -> Project:
    """A project whose two commits are tracked and measured."""
    project = builders.track(repository).project
    builders.work(machine, lambda *_: 5000.0)
    return project


def test_a_push_queues_each_new_commit_on_each_machine(pushed: Project, repository: Repository) -> None:
    builders.machine("m2")
    new = repository.commits(2)
    assert pushes.sync_and_plan(pushed) == 4
    runs = Run.objects.filter(reason=Reason.PUSH)
    assert Counter(runs.values_list("commit__sha", flat=True)) == Counter({new[0]: 2, new[1]: 2})
    assert dict(runs.filter(machine__name="m1").values_list("commit__sha", "priority")) == {
        new[0]: PRIORITY["rest"],
        new[1]: PRIORITY["head"],
    }


def test_taking_the_same_push_twice_queues_nothing_new(pushed: Project, repository: Repository) -> None:
    repository.commits(2)
    assert pushes.sync_and_plan(pushed) == 2
    assert pushes.sync_and_plan(pushed) == 0
    assert Run.objects.filter(reason=Reason.PUSH).count() == 2


def test_a_plan_takes_as_many_statements_for_many_commits_as_for_few(pushed: Project, repository: Repository) -> None:
    branch = Branch.objects.select_related("project").get()
    sent = []
    for count in (2, 30):
        new = repository.commits(count)
        sync(pushed)
        with CaptureQueriesContext(connection) as queries:
            assert planning.plan_branch(branch, Commit.objects.filter(sha__in=new), Reason.PUSH) == count
        sent.append(len(queries))
    assert sent[0] == sent[1] < 20


def test_planning_the_same_commits_twice_queues_nothing_new(tracked: Tracked) -> None:
    commits = Commit.objects.all()
    assert planning.plan_branch(tracked.branch, commits, Reason.MANUAL) == 3
    assert planning.plan_branch(tracked.branch, commits, Reason.MANUAL) == 0


def test_a_push_of_commits_that_are_queued_already_queues_nothing(tracked: Tracked) -> None:
    assert planning.plan_branch(tracked.branch, Commit.objects.all(), Reason.PUSH) == 0


def test_a_new_head_sends_the_waiting_old_head_back(pushed: Project, repository: Repository, machine: Machine) -> None:
    old = repository.commit()
    pushes.sync_and_plan(pushed)
    assert Run.objects.get(commit__sha=old).priority == PRIORITY["head"]
    new = repository.commit()
    pushes.sync_and_plan(pushed)
    assert Run.objects.get(commit__sha=old).priority == PRIORITY["rest"]
    assert builders.claim(machine).commit.sha == new


def test_a_forced_push_cancels_what_waits_for_the_commits_that_are_gone(
    pushed: Project, repository: Repository, machine: Machine
) -> None:
    gone = repository.commits(3)
    pushes.sync_and_plan(pushed)
    at_work = builders.claim(machine)
    repository.git("reset", "--quiet", "--hard", gone[0])
    other = repository.commit("another way")
    assert pushes.sync_and_plan(pushed) == 1
    status = dict(Run.objects.filter(reason=Reason.PUSH).values_list("commit__sha", "status"))
    assert status == {
        gone[0]: Status.QUEUED,
        gone[1]: Status.CANCELLED,
        gone[2]: Status.LEASED,
        other: Status.QUEUED,
    }
    assert at_work.commit.sha == gone[2]
    assert Run.objects.get(commit__sha=gone[1]).events.get().why == "the commit is no longer on main"


def test_a_commit_that_is_still_on_another_branch_is_measured_all_the_same(
    pushed: Project, repository: Repository
) -> None:
    kept = repository.commit()
    Branch.objects.create(project=pushed, name="stable")
    repository.git("branch", "stable")
    pushes.sync_and_plan(pushed)
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    pushes.sync_and_plan(pushed)
    assert Run.objects.get(commit__sha=kept, reason=Reason.PUSH).status == Status.QUEUED


def test_the_history_of_a_new_project_is_measured_from_its_ends_on_by_halving(
    machine: Machine, repository: Repository
) -> None:
    shas = [*repository.git("rev-list", "--reverse", "main").split(), *repository.commits(18)]
    builders.track(repository, last=9)
    measured = [run.commit.sha for run in builders.work(machine, lambda *_: 5000.0)]
    newest = shas[-9:]
    assert measured[:5] == [newest[place] for place in (8, 0, 4, 6, 2)]
    assert sorted(measured) == sorted(newest)


def test_a_push_is_measured_from_its_newest_commit_on(
    pushed: Project, repository: Repository, machine: Machine
) -> None:
    new = repository.commits(4)
    pushes.sync_and_plan(pushed)
    assert [run.commit.sha for run in builders.work(machine, lambda *_: 5000.0)] == new[::-1]


def test_a_huge_push_is_thinned_by_priority_and_complete(pushed: Project, repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "away")
    repository.git("branch", "-D", "main")
    repository.fast_import(2048)
    assert pushes.sync_and_plan(pushed) == 2048
    runs = Run.objects.filter(reason=Reason.PUSH)
    assert runs.values("commit").distinct().count() == 2048
    assert set(runs.values_list("rank", flat=True)) == set(range(2048))
    found = priorities(reason=Reason.PUSH)
    assert found[PRIORITY["head"]] == 1
    assert 150 < found[PRIORITY["rest"]] < planning.BACKLOG_CAP
    assert found[PRIORITY["later"]] == 2048 - 1 - found[PRIORITY["rest"]]
    kept = sorted(runs.exclude(priority=PRIORITY["later"]).values_list("rank", flat=True))
    assert len({b - a for a, b in pairwise(kept)}) == 1
    assert kept[-1] == 2047


def test_reasons_of_their_own_have_priorities_of_their_own() -> None:
    assert planning.priority_of(Reason.MANUAL, False, False) == 400
    assert planning.priority_of(Reason.CONFIRM, False, False) == planning.priority_of(Reason.BISECT, True, True) == 300
    assert planning.priority_of(Reason.PUSH, True, True) == planning.priority_of(Reason.BACKFILL, True, True) == 200
    assert planning.priority_of(Reason.PUSH, False, True) == 100
    assert planning.priority_of(Reason.PUSH, False, False) == 50


def test_a_run_keeps_the_suite_it_was_planned_with(tracked: Tracked, machine: Machine, settings: Any) -> None:
    builders.use_suite(settings, settings.SUITES, builders.SUITE.replace("clients = 50", "clients = 99"))
    workload = jobs.job_document(builders.claim(machine))["benchmarks"][0]["workload"]
    assert workload["clients"] == 50


@pytest.mark.django_db(transaction=True)
def test_two_looks_at_one_push_at_once_queue_it_once(pushed: Project, repository: Repository) -> None:
    repository.commits(3)
    together = threading.Barrier(3)

    def take(_: int) -> None:
        try:
            together.wait()
            pushes.sync_and_plan(Project.objects.get(pk=pushed.pk))
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(take, range(3)))
    assert Run.objects.filter(reason=Reason.PUSH).count() == 3
    assert sync(pushed)[0].new == 0


def test_a_push_whose_planning_breaks_off_is_planned_by_the_next_look(
    pushed: Project, repository: Repository, settings: Any
) -> None:
    """The branch's rows and the runs are stored together or not at all."""
    new = repository.commit()
    right = settings.SUITES
    settings.SUITES = right / "nowhere"
    pushes.look_noting_failure(pushed, pushes.sync_and_plan)
    pushed.refresh_from_db()
    assert "there is no suite 'tiny'" in pushed.error
    assert not Run.objects.filter(reason=Reason.PUSH).exists()
    settings.SUITES = right
    assert pushes.sync_and_plan(pushed) == 1
    pushed.refresh_from_db()
    assert pushed.error == ""
    assert Run.objects.get(reason=Reason.PUSH).commit.sha == new


def test_a_branch_seen_for_the_first_time_is_no_push_of_all_its_history(
    pushed: Project, repository: Repository
) -> None:
    repository.git("branch", "stable")
    Branch.objects.create(project=pushed, name="stable")
    assert pushes.sync_and_plan(pushed) == 0
    assert Branch.objects.get(name="stable").head is not None


def test_tracking_another_branch_plans_what_was_pushed_to_the_first(pushed: Project, repository: Repository) -> None:
    repository.git("branch", "stable")
    new = repository.commits(2)
    builders.track(repository, branch="stable", last=0)
    assert set(Run.objects.filter(reason=Reason.PUSH).values_list("commit__sha", flat=True)) == set(new)


def test_tracking_again_plans_all_that_was_pushed_meanwhile_once(pushed: Project, repository: Repository) -> None:
    new = repository.commits(3)
    builders.track(repository, last=1)
    runs = Run.objects.filter(commit__sha__in=new)
    assert sorted(runs.values_list("commit__sha", flat=True)) == sorted(new)


def test_a_new_head_leaves_the_heads_of_other_branches_in_front(pushed: Project, repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "stable")
    builders.track(repository, branch="stable", last=0)
    stable = repository.commit("on stable")
    pushes.sync_and_plan(pushed)
    repository.git("checkout", "--quiet", "main")
    repository.commit("on main")
    pushes.sync_and_plan(pushed)
    assert Run.objects.get(commit__sha=stable).priority == PRIORITY["head"]


def test_a_backlog_of_just_the_cap_is_not_thinned(tracked: Tracked) -> None:
    first = Run.objects.all()[0]
    plan = planning.Plan(first.project, first.suite, first.benchmark_set, Reason.PUSH, round=1)
    template = Commit.objects.get(pk=first.commit_id)
    rows = []
    for number in range(planning.BACKLOG_CAP):
        row = Commit.objects.get(pk=template.pk)
        row.pk, row.sha = None, f"{number:040x}"
        rows.append(row)
    ranks = {row.pk: row_number for row_number, row in enumerate(Commit.objects.bulk_create(rows))}
    planning.plan_commits(plan, ranks, [first.machine])
    assert priorities(reason=Reason.PUSH) == {PRIORITY["rest"]: planning.BACKLOG_CAP}


def test_a_commit_that_comes_back_to_its_branch_is_queued_again(pushed: Project, repository: Repository) -> None:
    sha = repository.commit()
    pushes.sync_and_plan(pushed)
    repository.git("reset", "--quiet", "--hard", "HEAD~1")
    pushes.sync_and_plan(pushed)
    assert Run.objects.get(commit__sha=sha).status == Status.CANCELLED
    repository.git("reset", "--quiet", "--hard", sha)
    assert pushes.sync_and_plan(pushed) == 1
    run = Run.objects.get(commit__sha=sha)
    assert (run.status, run.cancel_requested_at) == (Status.QUEUED, None)


def test_a_project_may_keep_the_runs_of_unreachable_commits_and_a_person_keeps_his(
    pushed: Project, repository: Repository, machine: Machine
) -> None:
    gone = repository.commits(2)
    pushes.sync_and_plan(pushed)
    byhand.queue_by_hand(byhand.choose(pushed.slug, gone[1], [], None))
    Project.objects.filter(pk=pushed.pk).update(cancel_unreachable=False)
    repository.git("reset", "--quiet", "--hard", gone[0])
    pushes.sync_and_plan(Project.objects.get(pk=pushed.pk))
    runs = Run.objects.filter(commit__sha=gone[1])
    assert set(runs.values_list("reason", "status")) == {
        (Reason.PUSH, Status.QUEUED),
        (Reason.MANUAL, Status.QUEUED),
    }
    Project.objects.filter(pk=pushed.pk).update(cancel_unreachable=True)
    repository.commit("another way")
    pushes.sync_and_plan(Project.objects.get(pk=pushed.pk))
    assert set(runs.values_list("reason", "status")) == {
        (Reason.PUSH, Status.CANCELLED),
        (Reason.MANUAL, Status.QUEUED),
    }


def test_what_was_cancelled_returns_with_its_branch_but_not_what_a_person_cancelled(
    pushed: Project, repository: Repository, machine: Machine
) -> None:
    Branch.objects.create(project=pushed, name="topic", first_commits=2)
    repository.git("checkout", "--quiet", "-b", "topic")
    first, second = repository.commit(), repository.commit()
    pushes.sync_and_plan(pushed)
    byhand.cancel_run(Run.objects.get(commit__sha=first).pk)
    repository.git("checkout", "--quiet", "main")
    repository.git("branch", "-D", "topic")
    pushes.sync_and_plan(pushed)
    runs = Run.objects.filter(commit__sha__in=[first, second])
    assert set(runs.values_list("commit__sha", "status")) == {(first, Status.CANCELLED), (second, Status.CANCELLED)}
    repository.git("branch", "topic", second)
    pushes.sync_and_plan(pushed)
    assert set(runs.values_list("commit__sha", "status")) == {(first, Status.CANCELLED), (second, Status.QUEUED)}
