import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.test import Client

from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.alerts.tests.conftest import World, make_world
from speedtrack.alerts.triage import triage
from speedtrack.ground.secrets.sealed import Secret
from speedtrack.notices.channels import sending as channel_sending
from speedtrack.notices.models import Channel, Outbox
from speedtrack.notices.sending import send_due
from speedtrack.notices.telling import tell_subscribers
from speedtrack.notices.tests.channels import SECRET, channel, make_due
from speedtrack.notices.tests.receivers import Receiver, serving
from speedtrack.projects.models import Project
from speedtrack.tests import builders, worlds


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    with serving(Receiver(), settings) as receiver:
        yield receiver


@worlds.shared
def untold(settings: Any, directory: Path) -> World:
    """A world with the alert that its ninth commit is slower: an event that nobody has been told of."""
    world = make_world(settings, directory)
    world.factors = {world.shas[8]: 1.3}
    builders.track(world.repository, pushed=True)
    world.until_quiet()
    AlertEvent.objects.filter(kind="raised").update(untold=True)
    return world


@pytest.fixture
def project(untold: World) -> Project:
    return Project.objects.get()


def expected_signature(secret: str, request: Any) -> str:
    signed = request.headers["x-speedtrack-timestamp"].encode() + b"." + request.body
    return "v1=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def test_a_webhook_gets_the_alert_as_a_signed_document(project: Project, receiver: Receiver) -> None:
    channel(project, "webhook", f"{receiver.url}/hook?key=1")
    tell_subscribers()
    assert send_due() == 1
    assert send_due() == 0
    [request] = receiver.requests
    alert = Alert.objects.get()
    document = json.loads(request.body)
    assert request.path == "/hook?key=1"
    assert request.headers["x-speedtrack-signature"] == expected_signature(SECRET, request)
    assert request.headers["x-speedtrack-delivery"] == document["delivery"]
    assert (document["schema"], document["event"]["kind"]) == ("speedtrack.event/1", "raised")
    assert document["alert"] == Client().get(f"/api/v1/alerts/{alert.pk}").json()
    worst = document["alert"]["changes"][0]
    assert worst["benchmark"] == "get-p1" and worst["low"] < worst["ratio"] < worst["high"] and worst["p"] < 0.05
    assert Channel.objects.get().delivered_at and Channel.objects.get().failures == 0


def test_a_channel_of_before_goes_on_getting_the_former_document(
    untold: World, project: Project, receiver: Receiver
) -> None:
    channel(project, "webhook", receiver.url, former_document=True)
    tell_subscribers()
    assert send_due() == 1
    alert, document = Alert.objects.get(), json.loads(receiver.requests[0].body)
    assert (document["schema"], document["event"]["kind"]) == ("speedtrack.alert/1", "raised")
    assert document["alert"] == {
        "id": alert.pk,
        "url": f"http://127.0.0.1:8000/alerts/{alert.pk}/",
        "status": "confirmed",
        "direction": "slower",
        "created": alert.created.isoformat(),
        "restoration": "",
    }
    assert document["range"]["commit"] == untold.shas[8] and document["range"]["branches"] == ["main"]
    assert document["change_count"] == len(document["changes"]) == alert.change_points.count()
    worst = document["changes"][0]
    assert (worst["effect"], worst["title"], worst["better"]) == ("slower", "Server CPU per request", "lower")
    assert document["project"]["name"] == project.name and document["commits"][0]["sha"] == untold.shas[8]
    assert worst["benchmark"] == "get-p1" and worst["low"] < worst["ratio"] < worst["high"] and worst["p"] < 0.05
    assert Channel.objects.get().delivered_at and Channel.objects.get().failures == 0


def test_a_delivery_keeps_its_id_and_is_signed_anew_with_each_attempt(project: Project, receiver: Receiver) -> None:
    channel(project, "webhook", receiver.url)
    tell_subscribers()
    receiver.answer = lambda request: (503, {}, b"")
    assert send_due() == 0
    assert "503" in Channel.objects.get().error and Channel.objects.get().failures == 1
    receiver.answer = lambda request: (204, {}, b"")
    assert send_due() == 0, "it waits"
    make_due()
    assert send_due() == 1
    first, second = receiver.requests
    assert first.headers["x-speedtrack-delivery"] == second.headers["x-speedtrack-delivery"]
    for request in (first, second):
        assert request.headers["x-speedtrack-signature"] == expected_signature(SECRET, request)
    assert Channel.objects.get().failures == 0 and Channel.objects.get().error == ""


def test_a_receiver_that_asks_to_be_left_alone_is(project: Project, receiver: Receiver) -> None:
    channel(project, "webhook", receiver.url)
    tell_subscribers()
    receiver.answer = lambda request: (429, {"Retry-After": "7200"}, b"")
    send_due()
    row = Outbox.objects.get()
    assert (row.not_before - Channel.objects.get().tried_at).total_seconds() > 7000


def test_while_a_secret_is_replaced_both_sign(project: Project, receiver: Receiver) -> None:
    channel(project, "webhook", receiver.url, former_secret=Secret.of("the former one"))
    tell_subscribers()
    send_due()
    [request] = receiver.requests
    signatures = request.headers["x-speedtrack-signature"].split(",")
    assert signatures == [expected_signature(SECRET, request), expected_signature("the former one", request)]


def test_a_receiver_that_is_gone_is_not_called_again(project: Project, receiver: Receiver) -> None:
    channel(project, "webhook", receiver.url)
    tell_subscribers()
    receiver.answer = lambda request: (410, {}, b"")
    send_due()
    assert "gone" in Channel.objects.get().paused_why
    assert Outbox.objects.get().given_up_at
    AlertEvent.objects.create(alert=Alert.objects.get(), kind="decided", after="expected")
    tell_subscribers()
    send_due()
    assert len(receiver.requests) == 1


def test_failures_in_a_row_pause_a_channel_and_its_messages_wait(
    project: Project, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_sending, "PAUSE_AFTER", 3)
    channel(project, "webhook", receiver.url)
    tell_subscribers()
    receiver.answer = lambda request: (500, {}, b"")
    for _ in range(5):
        make_due()
        send_due()
    assert len(receiver.requests) == 3
    assert Channel.objects.get().paused_why == "its last 3 deliveries failed"
    receiver.answer = lambda request: (200, {}, b"")
    Channel.objects.update(paused_at=None, paused_why="", failures=0)
    make_due()
    assert send_due() == 1


def test_a_refused_address_is_given_up_with_the_reason(project: Project, settings: Any) -> None:
    channel(project, "webhook", "http://169.254.169.254/latest/meta-data/")
    settings.CHANNEL_PORTS = frozenset({80})
    tell_subscribers()
    assert send_due() == 0
    row = Outbox.objects.get()
    assert row.given_up_at and "169.254.169.254" in row.error


def test_one_channel_that_is_away_delays_no_other(project: Project, receiver: Receiver) -> None:
    channel(project, "webhook", "http://127.0.0.1:1/", name="away")
    channel(project, "webhook", receiver.url, name="there")
    tell_subscribers()
    assert send_due() == 1
    assert len(receiver.requests) == 1


def test_chats_are_told_of_what_calls_to_work_and_webhooks_of_all(
    project: Project, receiver: Receiver, django_user_model: Any
) -> None:
    for kind, path, place in [
        ("webhook", "/hook", ""),
        ("slack", "/services/T/B/x", ""),
        ("teams", "/workflow", ""),
        ("matrix", "", "!room:example.org"),
    ]:
        channel(project, kind, receiver.url + path, place)
    tell_subscribers()
    assert send_due() == 4
    alert = Alert.objects.get()
    AlertEvent.objects.create(alert=alert, kind="grew", note="another change")
    tell_subscribers()
    assert send_due() == 1
    triage.decide(
        alert,
        triage.Decision("confirmed", "expected", None, "it is meant"),
        django_user_model.objects.create(username="a"),
    )
    tell_subscribers()
    assert send_due() == 4
    paths = [request.path.partition("/send/")[0] for request in receiver.requests]
    assert sorted(set(paths)) == [
        "/_matrix/client/v3/rooms/%21room%3Aexample.org",
        "/hook",
        "/services/T/B/x",
        "/workflow",
    ]
    assert paths.count("/hook") == 3


def test_matrix_repeats_a_message_under_one_transaction_and_with_the_token(
    project: Project, receiver: Receiver
) -> None:
    channel(project, "matrix", receiver.url, "!room:example.org")
    tell_subscribers()
    for status in (502, 200):
        receiver.answer = lambda request, status=status: (status, {}, b'{"event_id": "$1"}')  # type: ignore[misc]
        make_due()
        send_due()
    first, second = receiver.requests
    assert first.method == "PUT" and first.path == second.path
    assert first.headers["authorization"] == f"Bearer {SECRET}"


def test_nobody_is_told_twice_of_one_event(untold: World, project: Project, receiver: Receiver) -> None:
    made = channel(project, "webhook", receiver.url)
    tell_subscribers()
    send_due()
    AlertEvent.objects.filter(kind="raised").update(untold=True)
    tell_subscribers()
    assert send_due() == 0
    row = Outbox.objects.get()
    with pytest.raises(IntegrityError, match="a_message_once_per_channel_alert_event"), transaction.atomic():
        Outbox.objects.create(channel=made, alert=row.alert, event=row.event)


def test_the_database_refuses_messages_to_nobody_and_to_two(project: Project) -> None:
    tell_subscribers()
    alert, made = Alert.objects.get(), channel(project, "webhook", "https://example.org")
    for fields in ({"recipient": ""}, {"recipient": "a@example.org", "channel": made}):
        with (
            pytest.raises(IntegrityError, match="a_message_goes_to_an_address_or_a_channel"),
            transaction.atomic(),
        ):
            Outbox.objects.create(alert=alert, event="x", **fields)
    with pytest.raises(IntegrityError, match="a_paused_channel_has_a_reason"), transaction.atomic():
        Channel.objects.update(paused_why="it has one without being paused")


def test_no_error_log_or_row_holds_a_secret(
    project: Project, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    made = channel(project, "slack", f"{receiver.url}/services/PASSWORD")
    Channel.objects.filter(pk=made.pk).update(origin=receiver.url)
    receiver.answer = lambda request: (404, {}, b"no_service")
    tell_subscribers()
    send_due()
    assert "404" in Channel.objects.get().error
    said = caplog.text + Outbox.objects.get().error + Channel.objects.get().error
    assert "PASSWORD" not in said and SECRET not in said
