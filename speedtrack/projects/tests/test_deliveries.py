"""Stored webhook calls: replayed and deleted by hand."""

from datetime import timedelta

import pytest
from django.db.models import F
from django.db.models.functions import Now

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.projects import deliveries, intake
from speedtrack.projects.deliveries import DeliveryConflict
from speedtrack.projects.forges.signing import BadSignature
from speedtrack.projects.models import Delivery, Project, PullRequest, Refusal
from speedtrack.projects.tests import calls
from speedtrack.projects.tests.calls import CALLS, PULLS, SECRET, SampleCall

PUSH, PING = CALLS["github"], CALLS["github"].saying({}, **{"X-GitHub-Event": "ping", "X-GitHub-Delivery": "p"})


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(
        slug="kvd", name="kvd", url="/kvd", default_branch="main", suite="tiny", hook_secret=Secret.of(SECRET)
    )


def take(project: Project, call: SampleCall, number: int = 0) -> Delivery:
    if number:
        call = call.saying(calls.PUSH | {"number": number}, **{"X-GitHub-Delivery": f"n{number}"})
    delivery = intake.receive(project, call.signed(), call.body)
    assert delivery is not None
    return delivery


@pytest.mark.parametrize("call", [PUSH, PING, PULLS["github"]])
def test_a_replayed_call_causes_a_look_whatever_it_is(project: Project, call: SampleCall) -> None:
    delivery = take(project, call)
    Delivery.objects.exclude(status="ignored").update(status="processed", outcome="nothing new")
    assert not Project.objects.with_deliveries().exists()
    assert deliveries.replay(project, deliveries.calls_numbered(project, [delivery.pk])) == 1
    assert Delivery.objects.values_list("status", "outcome", "copies").get() == ("received", "", 2)
    assert Project.objects.with_deliveries().exists()


def test_several_are_replayed_and_equal_bodies_wait_once(project: Project) -> None:
    one, two = take(project, PUSH, 1), take(project, PUSH, 2)
    Delivery.objects.update(status="processed")
    same = intake.receive(project, PUSH.saying(one.body, **{"X-GitHub-Delivery": "x"}).signed(), one.body)
    assert same is not None
    before = Delivery.objects.get(pk=same.pk).received_at
    assert deliveries.replay(project, deliveries.calls_numbered(project, [one.pk, two.pk])) == 2
    states = dict(Delivery.objects.values_list("pk", "status"))
    assert states == {one.pk: "processed", two.pk: "received", same.pk: "received"}
    assert Delivery.objects.get(pk=same.pk).received_at > before, "a look under way does not cover it"


def test_a_replay_notes_the_pull_request_again(project: Project) -> None:
    delivery = take(project, PULLS["gitlab"])
    PullRequest.objects.all().delete()
    deliveries.replay(project, deliveries.calls_numbered(project, [delivery.pk]))
    assert PullRequest.objects.get().number == 12


def test_a_replay_of_an_old_report_takes_nothing_back(project: Project) -> None:
    old = take(project, PULLS["github"])
    PullRequest.objects.update(title="newer", updated_at=Now())
    deliveries.replay(project, deliveries.calls_numbered(project, [old.pk]))
    assert PullRequest.objects.get().title == "newer"


def test_what_cannot_be_replayed_is_said(project: Project) -> None:
    delivery = take(project, PUSH)
    with pytest.raises(DeliveryConflict, match="has no delivery 99"):
        deliveries.calls_numbered(project, [delivery.pk, 99])
    other = Project.objects.create(slug="b", name="b", url="/b", default_branch="main", suite="tiny")
    with pytest.raises(DeliveryConflict, match="b has no delivery"):
        deliveries.calls_numbered(other, [delivery.pk])
    Project.objects.update(untracked_at=Now())
    project.refresh_from_db()
    with pytest.raises(DeliveryConflict, match="track it again"):
        deliveries.replay(project, deliveries.list_calls(project))


def test_old_calls_are_deleted_by_hand_and_those_that_wait_stay(project: Project) -> None:
    waiting, done, ignored = take(project, PUSH, 1), take(project, PUSH, 2), take(project, PING)
    Delivery.objects.filter(pk=done.pk).update(status="processed")
    with pytest.raises(BadSignature):
        intake.receive(project, {}, b"")
    age = {"received_at": F("received_at") - timedelta(days=10)}
    Delivery.objects.update(**age)
    Refusal.objects.update(last_at=F("last_at") - timedelta(days=10))
    assert deliveries.purge(project, 11) == deliveries.Purged(0, 0)
    assert deliveries.purge(project, 9, status="ignored") == deliveries.Purged(1, 0)
    assert not Delivery.objects.filter(pk=ignored.pk).exists()
    assert deliveries.purge(project, 0) == deliveries.Purged(1, 1)
    assert Delivery.objects.get() == waiting
    for days, status in ((-1, ""), (10**9, ""), (1, "received")):
        with pytest.raises(DeliveryConflict):
            deliveries.purge(project, days, status)


def test_the_beginning_of_a_long_body_is_read_alone(project: Project) -> None:
    body = b"x" * 20_000_000
    call = PUSH.saying(body)
    intake.receive(project, call.signed(), body)
    assert Delivery.objects.get().beginning(100) == b"x" * 100
    assert Delivery.objects.get().size == 20_000_000
