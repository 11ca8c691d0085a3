"""Pull requests: nothing is fetched or measured without an approval of just this head."""

import hashlib
import re
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.judging.pulls import judge_pulls
from speedtrack.judging.summaries import State, pull_summaries
from speedtrack.projects.models import Project, PullRequest
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.models import Approval, Machine, Measurement, Reason, Run, Status
from speedtrack.runs.planning import pullrequests, pushes
from speedtrack.runs.planning.pullrequests import NotApprovable
from speedtrack.runs.queue import queue
from speedtrack.runs.requests.outlook import outlook
from speedtrack.runs.results import results
from speedtrack.tests import builders
from speedtrack.tests.builders import Repository

pytestmark = pytest.mark.django_db
GITHUB, GITLAB = "refs/pull/7/head", "refs/merge-requests/7/head"


@pytest.fixture
def project(machine: Machine, repository: Repository) -> Project:
    found = builders.track(repository).project
    builders.work(machine, lambda *_: 5000.0)
    return found


def pull(repository: Repository, ref: str = GITHUB) -> str:
    """A commit on top of the head, where the forge of the repository shows the head of a pull request."""
    repository.git("checkout", "--quiet", "--detach")
    sha = repository.commit("What somebody offers")
    repository.git("update-ref", ref, sha)
    repository.git("checkout", "--quiet", "main")
    return sha


def known(project: Project, sha: str, **changes: Any) -> PullRequest:
    """The row that the forge's webhook makes."""
    columns = {"title": "An offer", "head_sha": sha, "base_ref": "main", "updated_at": timezone.now()} | changes
    number = columns.pop("number", 7)
    found, _ = PullRequest.objects.update_or_create(project=project, number=number, defaults=columns)
    return found


@pytest.mark.parametrize("ref", [GITHUB, GITLAB, "refs/pull-requests/7/from"])
def test_an_approved_head_is_measured_in_pairs_against_the_merge_base(
    project: Project, repository: Repository, machine: Machine, ref: str
) -> None:
    base = repository.git("rev-parse", "main")
    sha = pull(repository, ref)
    repository.commit("Main goes on")
    pushes.sync_and_plan(project)
    found = known(project, sha)
    assert pullrequests.plan_approved() == 0 and not project.commits.filter(sha=sha).exists()
    ada = User.objects.create_user("ada")
    approval = pullrequests.approve(found, sha, ada)
    assert pullrequests.plan_approved() == 1 and pullrequests.plan_approved() == 0
    run = Run.objects.get(reason=Reason.PULL)
    assert (run.commit.sha, run.base and run.base.sha, run.machine, run.trials) == (sha, base, machine, 15)
    approval.refresh_from_db()
    assert approval.planned_at and approval.by == ada and pullrequests.runs_of(approval) == [run]


def test_what_is_measured_of_a_pull_request_is_on_no_line(
    project: Project, repository: Repository, machine: Machine
) -> None:
    sha = pull(repository)
    approval = pullrequests.approve(known(project, sha), sha, None)
    pullrequests.plan_approved()
    builders.work(machine, lambda commit, *_: 6000.0 if commit == sha else 5000.0)
    measured = Measurement.objects.filter(commit__sha=sha)
    assert measured.exists() and not measured.filter(paired=False).exists()
    assert not project.commits.get(sha=sha).positions.exists()
    approval.refresh_from_db()
    answers = judge_pulls(pullrequests.runs_of(approval))
    of_cpu = [(one.benchmark, one.judgement) for one in answers if one.judgement.metric.name == HEADLINE]
    assert {(name, one.verdict, round(one.ratio, 2), one.pairs) for name, one in of_cpu} == {
        ("get-p1", "worse", 1.2, 15),
        ("set-p1", "worse", 1.2, 15),
    }
    found = known(project, "b2" * 20)
    (on_machine,) = outlook(lambda: pullrequests.approve_as_fetched(found, "b2" * 20, None)).machines
    assert on_machine.queued == 1 and on_machine.seconds and not project.commits.filter(sha="b2" * 20).exists()
    head = repository.git("rev-parse", "main")
    with pytest.raises(NotApprovable, match="adds nothing to main"):
        pullrequests.approve_as_fetched(known(project, head), head, None)


@pytest.mark.parametrize(
    ("is_same_program", "verdict", "sentence"),
    [
        (False, "flagged", "Measured, but no value of 2 benchmarks can be trusted or compared"),
        (True, "same program", "The same program as the base, bit for bit"),
    ],
)
def test_pairs_that_all_are_void_are_told(
    project: Project, repository: Repository, machine: Machine, is_same_program: bool, verdict: str, sentence: str
) -> None:
    """A busy machine voids every pair of a run, whose summary was "not measured" as if it had not taken place."""
    sha = pull(repository)
    approval = pullrequests.approve(known(project, sha), sha, None)
    pullrequests.plan_approved()
    run = builders.claim(machine)
    for side, commit in builders.sides_of(run):
        builders.send_build(run, commit, side=side, binary="one" if is_same_program else None)
        for name in builders.measured(run):
            values, flags = [6000.0 if commit.sha == sha else 5000.0] * run.trials, [["steal"]] * run.trials
            document = builders.result(run, name, commit, values, side=side, flags=flags)
            results.accept_result(machine, run.pk, document)
    queue.complete(machine, run.pk, run.lease_token)
    approval.refresh_from_db()
    runs = pullrequests.runs_of(approval)
    of_cpu = [one.judgement for one in judge_pulls(runs) if one.judgement.metric.name == HEADLINE]
    assert [(str(one.verdict), round(one.ratio, 2), one.pairs) for one in of_cpu] == [(verdict, 1.2, 15)] * 2
    (summary,) = pull_summaries(runs).values()
    assert summary == (State.SAME if is_same_program else State.UNKNOWN, sentence)


def measure_pairs(machine: Machine, ratios: dict[str, tuple[float, float]], most: int = 15) -> None:
    """Measure a run in pairs. ``ratios``: by benchmark those of the head in even and odd pairs; others stay away."""
    run = builders.claim(machine)
    for side, commit in builders.sides_of(run):
        builders.send_build(run, commit, side=side)
        for name, factors in ratios.items():
            values = [5000.0 * (factors[pair % 2] if side == "head" else 1) for pair in range(min(most, run.trials))]
            stopping = {"reason": "failed", "half_width": None, "target": 0.01, "trials": len(values), "thrown_out": 0}
            document = builders.result(run, name, commit, values, side=side, stopping=stopping)
            results.accept_result(machine, run.pk, document)
    if len(ratios) == 2 and most >= run.trials:
        queue.complete(machine, run.pk, run.lease_token)
    else:
        failure = FailureReport(token=run.lease_token, kind="permanent", error="the server ended\nits log: ...")
        queue.fail(machine, run.pk, failure)


STEADY, WILD = (1.0, 1.001), (1.5, 0.7)


@pytest.mark.parametrize(
    ("ratios", "most", "state", "sentence"),
    [
        ({"get-p1": STEADY, "set-p1": STEADY}, 15, State.SAME, "No change in 2 benchmarks"),
        (
            {"get-p1": WILD, "set-p1": WILD},
            15,
            State.UNKNOWN,
            r"Undecided in 2 benchmarks: 15 pairs of [gs]et-p1 leave \S+% to \+\S+% of .+ open",
        ),
        (
            {"get-p1": STEADY, "set-p1": WILD},
            15,
            State.SAME,
            r"No change in 1 of 2 benchmarks; undecided in 1: 15 pairs of set-p1 leave \S+% to \+\S+% of .+ open",
        ),
        (
            {"get-p1": STEADY},
            15,
            State.SAME,
            r"No change in 1 benchmark; run \d+ failed: the server ended",
        ),
        (
            {"get-p1": STEADY},
            3,
            State.UNKNOWN,
            r"Not measured: run \d+ failed: the server ended",
        ),
        ({}, 15, State.UNKNOWN, r"Not measured: run \d+ failed: the server ended"),
    ],
    ids=["steady", "wide", "one wide", "one missing", "few", "none"],
)
def test_only_pairs_that_decide_show_that_nothing_changed(
    project: Project,
    repository: Repository,
    machine: Machine,
    ratios: dict[str, tuple[float, float]],
    most: int,
    state: State,
    sentence: str,
) -> None:
    sha = pull(repository)
    approval = pullrequests.approve(known(project, sha), sha, None)
    pullrequests.plan_approved()
    measure_pairs(machine, ratios, most)
    approval.refresh_from_db()
    (summary,) = pull_summaries(pullrequests.runs_of(approval)).values()
    assert re.fullmatch(sentence, summary.sentence), summary.sentence
    assert summary.state == state


def test_a_new_push_needs_a_new_approval_and_cancels_what_waits(project: Project, repository: Repository) -> None:
    first = pull(repository)
    pullrequests.approve(known(project, first), first, None)
    pullrequests.plan_approved()
    repository.git("checkout", "--quiet", first)
    second = repository.commit("Better")
    repository.git("update-ref", GITHUB, second)
    found = known(project, second)
    with pytest.raises(NotApprovable, match="has another head now"):
        pullrequests.approve(found, first, None)
    (on_machine,) = outlook(lambda: pullrequests.approve_as_fetched(found, second, None)).machines
    assert (on_machine.queued, on_machine.gone) == (1, 1)
    assert Approval.objects.get().head_sha == first and not project.commits.filter(sha=second).exists()
    pullrequests.approve(found, second, None)
    assert pullrequests.plan_approved() == 1
    status = dict(Run.objects.filter(reason=Reason.PULL).values_list("commit__sha", "status"))
    assert status == {first: Status.CANCELLED, second: Status.QUEUED}


def test_a_head_that_moved_before_it_was_fetched_is_not_measured(project: Project, repository: Repository) -> None:
    sha = pull(repository)
    approval = pullrequests.approve(known(project, sha), sha, None)
    repository.git("checkout", "--quiet", sha)
    repository.git("update-ref", GITHUB, repository.commit("Something else"))
    assert pullrequests.plan_approved() == 0
    approval.refresh_from_db()
    assert "pushed to since; approve the new head" in approval.error
    assert not Run.objects.filter(reason=Reason.PULL).exists()


def test_a_forge_without_references_of_pull_requests_shows_those_of_its_own_branches(
    project: Project, repository: Repository
) -> None:
    """As Bitbucket Cloud, whose calls abbreviate the head."""
    sha = pull(repository, "refs/heads/topic")
    found = known(project, sha[:12], from_fork=True, head_ref="topic")
    for head in (sha, sha[:12]):
        with pytest.raises(NotApprovable, match=f"{sha[:12]} is only a part .* from a branch of the repository itself"):
            pullrequests.approve(found, head, None)
    found = known(project, sha[:12], from_fork=False, head_ref="topic")
    with pytest.raises(NotApprovable, match=f"{sha[:12]} is only a part of a commit id: all of it is {sha}"):
        pullrequests.approve(found, sha[:12], None)
    found.refresh_from_db()
    assert found.head_sha == sha and not Approval.objects.exists()
    pullrequests.approve(known(project, sha[:12]), sha, None)
    assert pullrequests.plan_approved() == 1
    assert Run.objects.get(reason=Reason.PULL).commit.sha == sha


def twins(repository: Repository, digits: int) -> tuple[str, str]:
    """The ids of two commits on top of the head that begin with the same digits."""
    repository.git("checkout", "--quiet", "--detach")
    body = repository.git("cat-file", "commit", repository.commit("A useful change"))
    known: dict[str, str] = {}
    for number in count():
        text = f"{body}\n\nNote: {number}\n"
        sha = hashlib.sha1(f"commit {len(text.encode())}\0{text}".encode()).hexdigest()  # noqa: S324 (as git does)
        other = known.setdefault(sha[:digits], text)
        if other != text:
            break
    made = [repository.commit_object(one.encode()) for one in (other, text)]
    repository.git("checkout", "--quiet", "main")
    assert made[0] != made[1] and made[0][:digits] == made[1][:digits]
    return made[0], made[1]


@pytest.mark.parametrize("ref", ["refs/heads/topic", GITHUB])
def test_a_commit_that_begins_as_the_approved_one_is_not_measured(
    project: Project, repository: Repository, ref: str
) -> None:
    good, evil = twins(repository, 7)
    repository.git("update-ref", ref, good)
    report = {"from_fork": False, "head_ref": "topic"}
    found = known(project, good[:7], **report)
    approval = pullrequests.approve(found, good, None)
    repository.git("update-ref", ref, evil)
    found = known(project, evil[:7], **report)  # what the forge tells of the second one is what it told of the first
    assert pullrequests.plan_approved() == 0
    approval.refresh_from_db()
    assert f"is at {evil}, not at the approved {good}" in approval.error
    with pytest.raises(NotApprovable, match=f"another head now, {evil}"):
        pullrequests.approve(found, good, None)
    with pytest.raises(NotApprovable, match=f"all of it is {evil}"):
        pullrequests.approve(known(project, evil[:7], **report), evil[:7], None)
    assert not project.commits.filter(sha__in=[good, evil]).exists() and Approval.objects.count() == 1
    Approval.objects.update(head_sha=good[:7], error="")  # as it was stored before whole ids were asked for
    assert pullrequests.plan_approved() == 0 and not Run.objects.filter(reason=Reason.PULL).exists()


def test_a_look_at_the_repository_completes_abbreviated_heads(project: Project, repository: Repository) -> None:
    good, evil = twins(repository, 7)
    repository.git("update-ref", "refs/heads/topic", evil)
    found = known(project, good[:7], from_fork=False, head_ref="topic")
    other = known(project, good[:7], from_fork=True, head_ref="topic", number=8)
    pushes.sync_and_plan(project)
    for row, head in ((found, evil), (other, good[:7])):
        row.refresh_from_db()
        assert row.head_sha == head
    known(project, "0123456", from_fork=False, head_ref="topic")
    pushes.sync_and_plan(project)
    found.refresh_from_db()
    assert found.head_sha == "0123456"
    with pytest.raises(NotApprovable, match=f"is at {evil}, and its forge last told of 0123456"):
        pullrequests.approve(found, evil, None)


def test_a_failure_is_told_and_another_approval_tries_again(project: Project, repository: Repository) -> None:
    found = known(project, "a" * 40)
    approval = pullrequests.approve(found, "a" * 40, None)
    pullrequests.plan_approved()
    approval.refresh_from_db()
    assert "no reference of pull request 7" in approval.error
    assert Approval.objects.unplanned().count() == 0
    pullrequests.approve(found, "a" * 40, None)
    assert Approval.objects.unplanned().count() == 1


def test_what_is_merged_or_closed_or_untracked_is_not_measured(project: Project, repository: Repository) -> None:
    head = repository.git("rev-parse", "main")
    repository.git("update-ref", GITHUB, head)
    approval = pullrequests.approve(known(project, head), head, None)
    pullrequests.plan_approved()
    approval.refresh_from_db()
    assert "adds nothing to main" in approval.error
    with pytest.raises(NotApprovable, match="is merged"):
        pullrequests.approve(known(project, head, state="merged"), head, None)


def test_hostile_names_of_branches_are_no_options(project: Project, repository: Repository) -> None:
    sha = pull(repository)
    approval = pullrequests.approve(known(project, sha, base_ref="--output=/tmp/x"), sha, None)
    assert pullrequests.plan_approved() == 0
    approval.refresh_from_db()
    assert "has no commit, branch or tag" in approval.error
