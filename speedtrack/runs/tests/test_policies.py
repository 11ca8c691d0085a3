"""Policies of branches: what a push queues, what is put off, and when that is measured after all."""

from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import transaction
from django.utils import timezone

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.mirrors import git
from speedtrack.projects.models import Project
from speedtrack.projects.sync import has_news
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Deferral, Machine, PlanningPolicy, Reason, Run, Status
from speedtrack.runs.planning import choosing, pushes
from speedtrack.runs.planning.policies import BadPolicy
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import byhand, changing, rules
from speedtrack.runs.requests.rules import WantedPolicy
from speedtrack.runs.scheduling import order
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository
from speedtrack.tests.installation import database_url

pytestmark = pytest.mark.django_db
EXTENDED = """
[[benchmark]]
name = "big"
extended = true
why = "large values"
workload = { test = "set", keys = { count = 10 }, values = { bytes = 64 } }
"""


@pytest.fixture
def project(machine: Machine, repository: Repository) -> Project:
    """Two commits, measured, at positions 0 and 1."""
    found = builders.track(repository).project
    work(machine)
    return found


def work(machine: Machine, until: int = 1000) -> list[Run]:
    return builders.work(machine, lambda *_: 5000.0, until)


def save(project: Project, **wanted: Any) -> rules.Saved:
    return rules.save_policy(project, WantedPolicy(**wanted))


def pushed(project: Project, repository: Repository, count: int) -> list[str]:
    new = repository.commits(count)
    pushes.sync_and_plan(project)
    return new


def waiting() -> list[int]:
    """The positions of the waiting runs."""
    return sorted(Run.objects.filter(status=Status.QUEUED).values_list("rank", flat=True))


def deferred() -> dict[int, str]:
    return dict(Deferral.objects.values_list("commit__positions__number", "why"))


def fill() -> int:
    PlanningPolicy.objects.update(filled_at=None)
    return pushes.fill_gaps()


def test_every_nth_commit_by_its_place_whatever_the_pushes(project: Project, repository: Repository) -> None:
    save(project, every=3)
    for count in (1, 2, 4):
        pushed(project, repository, count)
    assert waiting() == [3, 6]
    assert deferred() == dict.fromkeys([2, 4, 5, 7, 8], "step")
    assert fill() == 0


def test_what_every_nth_leaves_out_is_measured_when_idle(
    project: Project, repository: Repository, machine: Machine
) -> None:
    save(project, every=4, fills_gaps=True)
    pushed(project, repository, 7)
    assert waiting() == [4, 8]
    assert fill() == 0, "there is a push to measure"
    work(machine)
    assert fill() == choosing.FILLED_AT_ONCE == 5
    assert waiting()[-2:] == [6, 7] and not Deferral.objects.exists()


def test_at_most_so_many_wait_and_the_widest_gap_goes_first(
    project: Project, repository: Repository, machine: Machine
) -> None:
    save(project, most_waiting=2)
    pushed(project, repository, 9)  # positions 2 to 10
    assert waiting() == [6, 10]
    assert set(deferred().values()) == {"cap"} and len(deferred()) == 7
    work(machine)
    assert fill() == 2
    assert waiting() == [4, 8]
    order_of_all = [run.rank for _ in range(4) for run in (work(machine), fill())[0]]
    assert sorted(order_of_all) == [2, 3, 4, 5, 7, 8, 9]
    assert not Deferral.objects.exists()
    assert Run.objects.filter(status=Status.SUCCEEDED).values("commit").distinct().count() == 11


def test_a_newer_head_overtakes_and_what_waited_is_put_off_and_not_lost(
    project: Project, repository: Repository, machine: Machine
) -> None:
    save(project, most_waiting=1)
    first = pushed(project, repository, 1)
    second = pushed(project, repository, 1)
    old = Run.objects.get(commit__sha=first[0])
    assert old.status == Status.CANCELLED and Deferral.objects.get().commit.sha == first[0]
    assert old.events.get().why == choosing.SUPERSEDED
    assert [run.commit.sha for run in work(machine)] == second
    assert fill() == 1
    assert [run.pk for run in work(machine)] == [old.pk]


@pytest.fixture
def second(project: Project) -> Machine:
    """Another machine that measures the project."""
    added = builders.machine("m2")
    project.machines.add(added)
    return added


def put_off(project: Project, repository: Repository) -> str:
    """A commit that is put off, as a newer one was pushed before its runs began."""
    save(project, most_waiting=1)
    [sha] = pushed(project, repository, 1)
    pushed(project, repository, 1)
    return sha


def test_what_was_put_off_is_not_queued_again_where_nothing_measures_it(
    project: Project, repository: Repository, machine: Machine, second: Machine
) -> None:
    sha = put_off(project, repository)
    machines.retire(second)
    work(machine)
    assert fill() == 1
    status = dict(Run.objects.filter(commit__sha=sha).values_list("machine__name", "status"))
    assert status == {"m1": Status.QUEUED, "m2": Status.CANCELLED}


def test_what_a_person_cancelled_after_it_was_put_off_stays_cancelled(
    project: Project, repository: Repository, machine: Machine, second: Machine
) -> None:
    sha = put_off(project, repository)
    assert work(machine) and work(second)
    assert fill() == 2
    byhand.cancel_run(Run.objects.get(commit__sha=sha, machine=second).pk)
    pushed(project, repository, 1)
    assert work(machine) and work(second)
    assert fill() == 1
    status = dict(Run.objects.filter(commit__sha=sha).values_list("machine__name", "status"))
    assert status == {"m1": Status.QUEUED, "m2": Status.CANCELLED}


def test_a_commit_that_is_back_is_not_queued_again_where_nothing_measures_it(
    project: Project, repository: Repository, second: Machine
) -> None:
    before = repository.git("rev-parse", "HEAD")
    [sha] = pushed(project, repository, 1)
    repository.git("reset", "--quiet", "--hard", before)
    pushes.sync_and_plan(project)
    assert waiting() == []
    machines.retire(second)
    repository.git("reset", "--quiet", "--hard", sha)
    pushes.sync_and_plan(project)
    status = dict(Run.objects.filter(commit__sha=sha).values_list("machine__name", "status"))
    assert status == {"m1": Status.QUEUED, "m2": Status.CANCELLED}


def test_what_a_person_raised_is_not_put_off(project: Project, repository: Repository, machine: Machine) -> None:
    builders.machine("m2")
    project.machines.add(Machine.objects.get(name="m2"))
    save(project, most_waiting=1)
    [first] = pushed(project, repository, 1)
    raised = Run.objects.get(commit__sha=first, machine=machine)
    assert queue.raise_run(raised, "by hand")
    [second] = pushed(project, repository, 1)
    left = Run.objects.filter(status=Status.QUEUED).values_list("commit__sha", "machine__name")
    assert sorted(left) == sorted([(first, "m1"), (second, "m1"), (second, "m2")])
    assert builders.claim(machine) == raised


def test_a_policy_is_due_only_while_one_of_its_machines_has_room(
    project: Project, repository: Repository, machine: Machine
) -> None:
    other = builders.machine("m2")
    save(project, most_waiting=1, machines=["m1"])
    pushed(project, repository, 3)
    PlanningPolicy.objects.update(filled_at=None)
    assert not choosing.due_policies().exists(), "m2 has nothing to do, and does not measure by this policy"
    work(machine)
    assert choosing.due_policies().exists()
    project.branches.update(tracked=False)
    assert not choosing.due_policies().exists(), "its branch is no longer tracked"
    project.branches.update(tracked=True)
    PlanningPolicy.machines.through.objects.all().delete()
    Machine.objects.update(pool="same")
    Project.objects.update(machine_policy="one")
    pushed(project, repository, 1)
    assert Run.objects.get(status=Status.QUEUED).machine == machine
    PlanningPolicy.objects.update(filled_at=None)
    assert not choosing.due_policies().exists(), f"{machine} measures for the pool of {other}"


def test_deferred_commits_that_left_the_branch_are_forgotten(project: Project, repository: Repository) -> None:
    save(project, every=100, fills_gaps=True)
    pushed(project, repository, 3)
    repository.git("reset", "--quiet", "--hard", "HEAD~2")
    repository.commit("another way")
    pushes.sync_and_plan(project)
    assert sorted(deferred()) == [2, 3]
    assert fill() == 2


def test_an_unlimited_branch_has_its_head_measured_as_before(project: Project, repository: Repository) -> None:
    save(project, branches="release/*", every=50)
    pushed(project, repository, 3)
    assert waiting() == [2, 3, 4] and not Deferral.objects.exists()


def change(repository: Repository, *paths: str) -> str:
    for path in paths:
        file = repository.path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{repository.count}\n")
    repository.count += 1
    repository.git("add", "-A")
    repository.git("commit", "--quiet", "--allow-empty", "-m", f"Change {', '.join(paths)}")
    return repository.git("rev-parse", "HEAD")


def test_commits_that_change_only_what_cannot_matter_are_skipped_with_the_reason(
    project: Project, repository: Repository
) -> None:
    save(project, ignored_paths=["docs/**", "*.md", "!src/*.md"])
    change(repository, "docs/a.txt", "docs/b/c.txt", "README.md")
    code = change(repository, "docs/a.txt", "src/a.c")
    data = change(repository, "src/table.md")
    empty = change(repository)
    odd = change(repository, "docs/a\nb\u2028c.txt", "docs/-n")
    pushes.sync_and_plan(project)
    queued = Run.objects.filter(status=Status.QUEUED).values_list("commit__sha", flat=True)
    assert set(queued) == {code, data, empty}
    first, last = Deferral.objects.order_by("commit_id")
    assert first.detail == "it changes only paths that cannot matter: README.md, docs/a.txt and 1 more"
    assert last.commit.sha == odd and last.why == Deferral.Why.PATHS
    assert fill() == 0


def test_a_merge_is_judged_by_what_it_brings_to_the_branch(project: Project, repository: Repository) -> None:
    save(project, ignored_paths=["docs/**"])
    repository.git("checkout", "--quiet", "-b", "topic")
    change(repository, "src/a.c")
    repository.git("checkout", "--quiet", "main")
    change(repository, "docs/a.txt")
    repository.git("merge", "--quiet", "--no-ff", "-m", "Merge topic", "topic")
    pushes.sync_and_plan(project)
    assert Run.objects.get(status=Status.QUEUED).commit.sha == repository.git("rev-parse", "HEAD")


def test_tagged_commits_are_always_measured(project: Project, repository: Repository) -> None:
    save(project, every=100, most_waiting=1, ignored_paths=["*.txt"])
    new = repository.commits(5)
    repository.git("tag", "v1.0", new[2])
    pushes.sync_and_plan(project)
    assert [run.commit.sha for run in Run.objects.filter(status=Status.QUEUED)] == [new[2]]
    repository.git("tag", "v1.1", new[4])
    pushes.sync_and_plan(project)
    assert waiting() == [4, 6]
    assert len(deferred()) == 3


def test_a_new_tag_measures_a_commit_that_was_never_planned(repository: Repository, machine: Machine) -> None:
    old = repository.commits(3)[0]
    repository.git("tag", "v0.9", old)
    project = builders.track(repository, last=1).project
    pushes.sync_and_plan(project)
    assert waiting() == [4], "a tag that was there before is history"
    repository.git("tag", "v1.0", old)
    pushes.sync_and_plan(project)
    assert waiting() == [2, 4]
    pushes.sync_and_plan(project)
    assert waiting() == [2, 4]


def test_a_release_on_a_branch_that_nobody_tracks_is_measured(project: Project, repository: Repository) -> None:
    repository.git("checkout", "--quiet", "-b", "1.x")
    [release, candidate] = repository.commits(2)
    pushes.sync_and_plan(project)
    repository.git("tag", "v1.0.1", release)
    repository.git("tag", "some-day", candidate)
    assert has_news(project)
    Project.objects.update(synced_at=datetime.fromtimestamp(1_700_000_000, UTC))  # the time of the commits
    pushes.sync_and_plan(project)
    run = Run.objects.get(status=Status.QUEUED)
    assert (run.commit.sha, run.suite.name, run.reason) == (release, "tiny", Reason.PUSH)
    assert not has_news(project) and not git.commits_among(project.slug, [candidate])
    repository.git("tag", "-d", "v1.0.1")
    pushes.sync_and_plan(project)
    run.refresh_from_db()
    assert run.status == Status.CANCELLED, "nothing leads to its commit any more"
    repository.git("tag", "v0.5", release)
    pushes.sync_and_plan(project)
    run.refresh_from_db()
    assert not project.tags.get(name="v0.5").is_new, "it was there before, and only not seen"


def test_a_branch_has_the_policy_of_the_longest_pattern_with_its_suite_and_machines(
    project: Project, repository: Repository, suites: Path, settings: Any
) -> None:
    builders.machine("m2")
    (suites / "other.toml").write_text(builders.SUITE.replace('"tiny"', '"other"'))
    project.branch_patterns = "8.*"
    project.save()
    save(project, branches="8.*", suite="other", machines=["m2"])
    save(project, branches="8.0-old", every=7)
    for name in ("8.0", "8.0-old"):
        repository.git("branch", name)
    pushes.sync_and_plan(project)  # which adopts both
    for name in ("8.0", "8.0-old"):
        repository.git("checkout", "--quiet", name)
        repository.commit(f"On {name}")
    pushes.sync_and_plan(project)
    new = Run.objects.filter(commit__subject="On 8.0").values_list("machine__name", "suite__name")
    assert list(new) == [("m2", "other")]
    assert not Run.objects.filter(commit__subject="On 8.0-old").exists()


def test_what_is_asked_for_by_hand_takes_the_suite_and_the_machines_of_its_branch(
    project: Project, repository: Repository, suites: Path
) -> None:
    builders.machine("m2")
    (suites / "other.toml").write_text(builders.SUITE.replace('"tiny"', '"other"'))
    save(project, branches="8.*", suite="other", machines=["m2"])
    repository.git("checkout", "--quiet", "-b", "8.0")
    [on_8_0] = repository.commits(1)
    builders.track(repository, branch="8.0", last=0)

    def chosen(expression: str, machine: str | None = None) -> tuple[str, list[str]]:
        selection = byhand.choose(project.slug, expression, [], machine)
        return selection.suite.name, [one.name for one in selection.machines]

    assert chosen("8.0") == chosen("main..8.0") == chosen(on_8_0) == ("other", ["m2"])
    assert chosen("8.0", "m1") == ("other", ["m1"])
    assert chosen("main") == chosen("main~1") == ("tiny", ["m1", "m2"])
    repository.git("tag", "v1", "main")
    assert chosen("v1") == ("tiny", ["m1", "m2"])


def test_the_first_look_at_a_branch_measures_by_its_policy_and_its_head_in_any_case(
    project: Project, repository: Repository
) -> None:
    save(project, branches="8.*", every=3)
    repository.git("checkout", "--quiet", "-b", "8.0")
    repository.commits(6)  # positions 2 to 7
    builders.track(repository, branch="8.0", last=5)
    assert waiting() == [3, 6, 7]
    assert sorted(deferred()) == [4, 5]
    repository.git("branch", "8.1")
    changing.add_branch(project, "8.1", 6)
    Run.objects.filter(status=Status.QUEUED).delete()
    pushes.sync_and_plan(project)
    assert waiting() == [3, 6, 7]


def test_the_extended_set_is_measured_once_a_day_at_the_head(
    project: Project, repository: Repository, suites: Path
) -> None:
    (suites / "tiny.toml").write_text(builders.SUITE + EXTENDED)
    save(project, extended_at=time(0, 0))
    for _ in range(2):
        pushes.look_for_news(project)
    run = Run.objects.get(status=Status.QUEUED)
    assert run.rank == 1 and "big" in run.benchmark_set.names and len(run.benchmark_set.names) == 3
    PlanningPolicy.objects.update(extended_on="2026-01-01", extended_at=time(23, 59, 59))
    pushes.look_for_news(project)
    assert PlanningPolicy.objects.get().extended_on.isoformat() == "2026-01-01", "not before its hour"


def test_a_night_on_which_the_extended_set_cannot_be_planned_is_made_up_for(project: Project, suites: Path) -> None:
    save(project, extended_at=time(0, 0))
    (suites / "tiny.toml").write_text("name = 1")
    with pytest.raises(DefinitionError):
        choosing.plan_extended(project)
    (suites / "tiny.toml").write_text(builders.SUITE + EXTENDED)
    choosing.plan_extended(project)
    assert Run.objects.get(status=Status.QUEUED).rank == 1


def test_a_changed_policy_judges_what_was_put_off_anew(project: Project, repository: Repository) -> None:
    save(project, most_waiting=1)
    pushed(project, repository, 4)
    pushed(project, repository, 1)
    assert waiting() == [6] and len(deferred()) == 4
    assert save(project, most_waiting=3).queued == 2
    assert len(waiting()) == 3 and 6 in waiting()
    assert rules.remove_policy(project, "").queued == 2
    assert waiting() == [2, 3, 4, 5, 6] and not Deferral.objects.exists()


def test_a_dead_or_paused_machine_does_not_stop_the_filling_of_the_others(
    project: Project, repository: Repository, machine: Machine
) -> None:
    builders.machine("m2")
    save(project, most_waiting=2)
    pushed(project, repository, 8)
    work(machine)
    assert fill() == 4, "two commits on both, as m1 has nothing to do"
    assert fill() == 0
    Machine.objects.update(paused=True)
    work(machine)
    assert fill() == 0


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ({"every": 0}, "one commit in 0 cannot be measured"),
        ({"every": -3}, "cannot be measured"),
        ({"every": 10**12}, "cannot be measured"),
        ({"most_waiting": 0}, "give a number from 1"),
        ({"ignored_paths": ["*"]}, "match every path"),
        ({"ignored_paths": ["**", "!docs"]}, "match every path"),
        ({"ignored_paths": ["[a-z]*", "[A-Z]*"]}, "match every path"),
        ({"ignored_paths": ["!"]}, "no patterns as in .gitignore"),
        ({"ignored_paths": ["a\0b"]}, "at most 100 patterns"),
        ({"branches": "a b"}, "without blanks"),
        ({"branches": "--output=x\n"}, "without blanks"),
        ({"machines": ["nowhere"]}, "not measured on nowhere: there are m1"),
        ({"zone": "Nowhere/At"}, "no time zone"),
    ],
)
def test_what_cannot_be_is_refused(project: Project, wanted: dict[str, Any], why: str) -> None:
    with pytest.raises(BadPolicy, match=why):
        save(project, **wanted)
    assert not PlanningPolicy.objects.exists()


def test_an_unknown_suite_is_refused(project: Project) -> None:
    with pytest.raises(Exception, match="no suite"):
        save(project, suite="nothing")


def test_planned_policies_do_not_disturb_other_reasons(project: Project, repository: Repository) -> None:
    """A commit that is deferred may be measured by hand."""
    save(project, every=10)
    [sha] = pushed(project, repository, 1)
    byhand.queue_by_hand(byhand.choose(project.slug, sha, [], None))
    assert Run.objects.get(status=Status.QUEUED).reason == Reason.MANUAL


def test_windows_and_shares_are_data_of_the_machine(project: Project, repository: Repository, machine: Machine) -> None:
    pushed(project, repository, 2)
    hour = (timezone.now() + timedelta(hours=6)).strftime("%H")
    rules.set_windows(machine, [f"{hour}:00-{hour}:30"], "UTC")
    machine.refresh_from_db()
    assert order.next_run(machine) is None
    assert queue.claim(machine) is None
    last = Run.objects.filter(status=Status.QUEUED).order_by("rank")[0]
    assert queue.raise_run(last, "by hand")
    assert builders.claim(machine) == last
    rules.set_windows(machine, [], "UTC")
    assert machine.events.filter(kind="changed").latest("pk").why == "it takes work at any time"
    with pytest.raises(order.BadShares, match="at most 99"):
        rules.set_shares(machine, {"settling": 60, "backfill": 40})
    with pytest.raises(order.BadShares, match="sleep has no share"):
        rules.set_shares(machine, {"sleep": 10})
    assert rules.set_shares(machine, {"backfill": 20}).endswith("pushes 30%, settling suspicions 50%, history 20%")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "change",
    [lambda project: save(project, every=5), lambda project: rules.remove_policy(project, "topic/*")],
    ids=["saved", "removed"],
)
def test_rows_that_refer_to_a_project_are_stored_while_its_policies_change(
    project: Project, change: Callable[[Project], object]
) -> None:
    """Examples are deliveries and runs. A second change of the policies waits."""
    save(project, branches="topic/*")
    with transaction.atomic(), psycopg.connect(database_url()) as other:
        change(project)
        row = "SELECT FROM projects_project WHERE id = %s"
        assert other.execute(f"{row} FOR KEY SHARE NOWAIT", [project.pk]).rowcount == 1
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute(f"{row} FOR NO KEY UPDATE NOWAIT", [project.pk])
