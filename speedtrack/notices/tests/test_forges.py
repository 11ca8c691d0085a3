import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import Alert
from speedtrack.alerts.settling import confirm
from speedtrack.alerts.tests.conftest import World, make_world
from speedtrack.alerts.triage import triage
from speedtrack.ground.secrets.sealed import Secret
from speedtrack.notices.channels import statuses
from speedtrack.notices.models import Channel, CommitStatus, Outbox, PullComment
from speedtrack.notices.sending import send_due
from speedtrack.notices.telling import tell_subscribers
from speedtrack.notices.tests.channels import channel, make_due
from speedtrack.notices.tests.forge import Forge
from speedtrack.notices.tests.receivers import Receiver, serving
from speedtrack.projects.models import Project
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.planning import pushes
from speedtrack.runs.queue import queue
from speedtrack.tests import builders, worlds

CONTEXT = "speedtrack/tiny"


@worlds.shared
def two_branches(settings: Any, directory: Path) -> World:
    """A world with a second branch ``topic``, whose commits are all measured."""
    world = make_world(settings, directory)
    builders.track(world.repository)
    world.repository.git("branch", "topic")
    builders.track(world.repository, branch="topic")
    world.until_quiet()
    return world


@pytest.fixture
def world(two_branches: World) -> World:
    return two_branches


@pytest.fixture(params=["github", "gitlab", "gitea"])
def forge(request: pytest.FixtureRequest, world: World, settings: Any) -> Iterator[Forge]:
    """A forge with a channel of the project, whose history is measured already."""
    forge = Forge(request.param)
    with serving(Receiver(forge.answer), settings) as receiver:
        channel(Project.objects.get(), forge.kind, receiver.url, "ann/kvd")
        yield forge


def push(world: World, count: int = 1, branch: str = "main") -> list[str]:
    """New commits on a branch, whose runs are planned."""
    if branch != "main":
        world.repository.git("checkout", "--quiet", "-B", branch)
    new = world.repository.commits(count)
    world.shas += new
    pushes.sync_and_plan(Project.objects.get())
    return new


def report() -> None:
    """What the task does, with all pauses over."""
    tell_subscribers()
    make_due()
    statuses.update_statuses()
    make_due()
    send_due()


def settle(world: World) -> None:
    """Measure, detect and confirm until nothing is left to do; report after each step."""
    for _ in range(40):
        done = builders.work(world.machine, world.speed)
        report()
        detection.detect()
        report()
        confirm.step()
        report()
        if not done:
            return


def failed(forge: Forge) -> str:
    return "failed" if forge.kind == "gitlab" else "failure"


def test_a_commit_is_pending_until_it_is_measured_and_then_a_success(world: World, forge: Forge) -> None:
    [sha] = push(world)
    report()
    report()
    assert forge.states(sha) == ["pending"]
    settle(world)
    report()
    assert forge.states(sha) == ["pending", "success"], "each once"
    assert list(forge.shown) == [(sha, CONTEXT)], "history from before the channel is left alone"
    last = forge.shown[sha, CONTEXT][-1]
    assert last["target_url"] == f"http://127.0.0.1:8000/p/repository/c/{sha}/"
    assert not statuses.unwatched().exists() and not CommitStatus.objects.due().exists()


def test_an_event_during_a_look_asks_for_another_one(
    world: World, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    push(world)
    settle(world)
    make_due()
    status, state_of = CommitStatus.objects.get(), statuses.state_of
    later = timezone.now() + timedelta(seconds=5)

    def during(looked_at: CommitStatus) -> tuple[str, str]:
        CommitStatus.objects.update(look_at=later)
        return state_of(looked_at)

    monkeypatch.setattr(statuses, "state_of", during)
    statuses.update_status(status)
    assert CommitStatus.objects.get().look_at == later


def test_a_commit_whose_look_fails_holds_up_no_other(
    world: World, forge: Forge, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = push(world, 2)
    look = statuses.state_of

    def state_of(status: CommitStatus) -> tuple[str, str]:
        if status.commit.sha == bad:
            raise ValueError("a defect of this commit")
        return look(status)

    monkeypatch.setattr(statuses, "state_of", state_of)
    with pytest.raises(ValueError, match="a defect of this commit"):
        statuses.update_statuses()
    assert list(Outbox.objects.values_list("commit_status__commit__sha", flat=True)) == [good]


def test_a_commit_that_is_slower_fails_once_it_is_settled_until_a_person_decides(
    world: World, forge: Forge, django_user_model: Any
) -> None:
    shas = push(world, 8)
    world.factors = {shas[3]: 1.3}
    settle(world)
    alert = Alert.objects.get()
    assert alert.commit.sha == shas[3]
    states = forge.states(shas[3])
    assert states[-1] == failed(forge) and states.count(failed(forge)) == 1
    assert all(
        states in (["pending", "success"], ["success"]) for s in shas if s != shas[3] for states in [forge.states(s)]
    )
    last = forge.shown[shas[3], CONTEXT][-1]
    assert last["target_url"].endswith(f"/alerts/{alert.pk}/")
    assert re.fullmatch(r"Slower \+\d+\.\d%: get-p1, confirmed", last["description"])

    ann = django_user_model.objects.create(username="ann")
    triage.decide(alert, triage.Decision("confirmed", "invalid", None, "it was the machine"), ann)
    report()
    assert forge.states(shas[3])[-2:] == [failed(forge), "success"]


def test_a_commit_that_cannot_be_measured_is_an_error_with_the_reason(world: World, forge: Forge) -> None:
    [sha] = push(world)
    run = builders.claim(world.machine)
    builders.send_build(run, run.commit, succeeded=False)
    queue.fail(world.machine, run.pk, FailureReport(token=run.lease_token, kind="permanent", error="build failed\nlog"))
    report()
    assert forge.states(sha)[-1] == ("failed" if forge.kind == "gitlab" else "error")
    assert forge.shown[sha, CONTEXT][-1]["description"] == "Not measured: build failed"


def test_only_the_newest_commits_of_a_push_are_watched(world: World, forge: Forge) -> None:
    shas = push(world, statuses.HEADS + 5)
    report()
    assert {sha for sha, _ in forge.shown} == set(shas[-statuses.HEADS :])


@pytest.mark.parametrize(
    "answer",
    [
        (429, {"Retry-After": "60"}, b"{}"),
        (500, {}, b"oops"),
        (502, {}, b""),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, b"{}"),
    ],
)
def test_a_forge_in_trouble_gets_the_newest_state_later_and_once(world: World, forge: Forge, answer: Any) -> None:
    [sha] = push(world)
    forge.trouble = [answer]
    report()
    assert forge.states(sha) == []
    assert Channel.objects.get().failures == 1
    settle(world)
    assert forge.states(sha) in (["pending", "success"], ["success"])
    assert not Outbox.objects.filter(sent_at=None).exists()


@pytest.mark.parametrize(("status", "words"), [(401, "enter a new one"), (404, "may not see it"), (422, "refuses")])
def test_a_refusal_is_given_up_and_says_what_to_do(world: World, forge: Forge, status: int, words: str) -> None:
    push(world)
    forge.trouble = [(status, {}, b"{}")]
    report()
    assert Outbox.objects.get().given_up_at
    assert words in Channel.objects.get().error


def test_a_wrong_token_is_not_a_success(world: World, forge: Forge) -> None:
    Channel.objects.update(secret=Secret.of("wrong"))
    [sha] = push(world)
    report()
    assert forge.states(sha) == [] and "401" in Channel.objects.get().error


def slow_branch(world: World, forge: Forge) -> list[str]:
    """A pull request of a branch that is slower, measured and settled."""
    shas = push(world, 8, branch="topic")
    forge.pulls = {5: shas[-1], 6: world.shas[0]}
    world.factors = {shas[3]: 1.3}
    settle(world)
    return shas


def test_a_pull_request_gets_one_comment_that_is_edited(world: World, forge: Forge, django_user_model: Any) -> None:
    slow_branch(world, forge)
    alert = Alert.objects.get()
    assert list(forge.comments) == [5]
    [text] = forge.texts()
    assert f"/alerts/{alert.pk}/" in text and "`get-p1`" in text and alert.commit.sha in text
    ann = django_user_model.objects.create(username="ann")
    triage.decide(alert, triage.Decision("confirmed", "expected", None, "it is meant"), ann)
    report()
    assert ["no known slowdown" in text for text in forge.texts()] == [True]


def test_a_comment_whose_id_was_lost_is_found_by_its_marker(world: World, forge: Forge) -> None:
    slow_branch(world, forge)
    forge.comments[5] = {n: f"talk {n}" for n in range(70)} | forge.comments.get(5, {})
    for _ in range(2):
        PullComment.objects.all().delete()
        new = push(world, branch="topic")
        forge.pulls[5] = new[0]
        settle(world)
    assert len([text for text in forge.texts() if "SpeedTrack" in text]) == 1


def test_a_comment_that_somebody_deleted_is_made_anew_once(world: World, forge: Forge) -> None:
    slow_branch(world, forge)
    forge.comments.clear()
    Alert.objects.update(status="confirmed")
    PullComment.objects.update(text="")
    for _ in range(2):
        new = push(world, branch="topic")
        forge.pulls[5] = new[0]
        settle(world)
    assert len(forge.texts()) == 1
