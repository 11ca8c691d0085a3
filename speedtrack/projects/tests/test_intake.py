import hashlib
import hmac
import json
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.projects import intake
from speedtrack.projects.forges.signing import BadSignature
from speedtrack.projects.models import Delivery, Project

PUSH = json.dumps({"ref": "refs/heads/main", "before": "0" * 40, "after": "1" * 40}).encode()


def signature(body: bytes, key: str = "s3cret") -> str:
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def headers(body: bytes, id: str = "d1", event: str = "push", **changes: str) -> dict[str, str]:
    return {"X-Hub-Signature-256": signature(body), "X-GitHub-Event": event, "X-GitHub-Delivery": id, **changes}


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(
        slug="kvd", name="kvd", url="/kvd", default_branch="main", suite="tiny", hook_secret=Secret.of("s3cret")
    )


def test_a_signed_push_is_stored_as_it_came(project: Project) -> None:
    delivery = intake.receive(project, headers(PUSH, **{"User-Agent": "GitHub-Hookshot/1"}), PUSH)
    assert delivery is not None
    row = Delivery.objects.get()
    assert bytes(row.body) == PUSH
    assert (row.delivery_id, row.event, row.provider, row.status) == ("d1", "push", "github", "received")
    assert row.headers["User-Agent"] == "GitHub-Hookshot/1"
    assert list(Project.objects.with_deliveries()) == [project]


def test_the_example_of_github_holds_as_openssl_computes_it(project: Project) -> None:
    secret, payload = "It's a Secret to Everybody", b"Hello, World!"
    said = subprocess.run(
        ["openssl", "dgst", "-sha256", "-hmac", secret], input=payload, capture_output=True, check=True
    ).stdout.decode()
    project.hook_secret = Secret.of(secret)
    project.save()
    signed = {"X-Hub-Signature-256": f"sha256={said.split('= ')[1].strip()}", "X-GitHub-Event": "push"}
    assert intake.receive(project, signed, payload) is not None


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"X-Hub-Signature-256": ""},
        {"X-Hub-Signature-256": "sha256="},
        {"X-Hub-Signature-256": signature(PUSH, "other")},
        {"X-Hub-Signature-256": signature(PUSH + b" ")},
        {"X-Hub-Signature-256": signature(PUSH).removeprefix("sha256=")},
        {"X-Hub-Signature-256": signature(PUSH)[:-1]},
        {"X-Hub-Signature-256": signature(PUSH, "")},
        {"X-Hub-Signature-256": "sha256=é"},
        {"X-Hub-Signature": "sha1=" + hmac.new(b"s3cret", PUSH, hashlib.sha1).hexdigest()},
    ],
)
def test_a_call_without_the_right_signature_stores_nothing(project: Project, given: dict[str, str]) -> None:
    with pytest.raises(BadSignature, match=r"X-Hub-Signature-256"):
        intake.receive(project, {"X-GitHub-Event": "push", "X-GitHub-Delivery": "d1", **given}, PUSH)
    assert not Delivery.objects.exists()


def test_the_signature_of_another_project_is_refused(project: Project) -> None:
    other = Project.objects.create(slug="b", name="b", url="/b", default_branch="main", suite="tiny")
    with pytest.raises(BadSignature):
        intake.receive(other, headers(PUSH), PUSH)


def test_the_same_call_again_is_one_delivery(project: Project) -> None:
    assert intake.receive(project, headers(PUSH), PUSH) is not None
    assert intake.receive(project, headers(PUSH), PUSH) is None
    assert Delivery.objects.count() == 1


def test_a_redelivery_by_hand_of_what_was_processed_causes_a_look(project: Project) -> None:
    intake.receive(project, headers(PUSH), PUSH)
    Delivery.objects.update(status="processed", outcome="nothing new")
    assert intake.receive(project, headers(PUSH), PUSH) is not None
    assert Delivery.objects.values_list("status", "outcome").get() == ("received", "")
    assert Project.objects.with_deliveries().exists()


def test_the_same_body_under_another_id_is_one_delivery_while_it_waits(project: Project) -> None:
    intake.receive(project, headers(PUSH, "d1"), PUSH)
    assert intake.receive(project, headers(PUSH, "d2"), PUSH) is None
    assert Delivery.objects.count() == 1


def test_the_same_body_after_the_look_is_another_delivery(project: Project) -> None:
    intake.receive(project, headers(PUSH, "d1"), PUSH)
    Delivery.objects.update(status="processed")
    assert intake.receive(project, headers(PUSH, "d2"), PUSH) is not None
    assert Project.objects.with_deliveries().exists()
    assert Delivery.objects.count() == 2


@pytest.mark.parametrize("id", ["d1", "d2"])
def test_an_ignored_call_swallows_no_real_one(project: Project, id: str) -> None:
    """Event and id are not signed: somebody who saw a push may send its body first, as something else."""
    intake.receive(project, headers(PUSH, "d1", event="ping"), PUSH)
    delivery = intake.receive(project, headers(PUSH, id), PUSH)
    assert delivery is not None and delivery.event == "push"
    assert Project.objects.with_deliveries().exists()


def test_an_ignored_call_under_a_known_id_changes_nothing(project: Project) -> None:
    intake.receive(project, headers(PUSH), PUSH)
    assert intake.receive(project, headers(b"other", event="ping"), b"other") is None
    assert Delivery.objects.values_list("status", "event").get() == ("received", "push")


def test_a_redelivery_while_an_equal_one_waits_is_covered_by_that(project: Project) -> None:
    intake.receive(project, headers(PUSH, "d1"), PUSH)
    Delivery.objects.update(status="processed")
    intake.receive(project, headers(PUSH, "d2"), PUSH)
    assert intake.receive(project, headers(PUSH, "d1"), PUSH) is None
    assert sorted(Delivery.objects.values_list("delivery_id", "status")) == [("d1", "processed"), ("d2", "received")]


def test_a_repeated_call_makes_the_one_that_waits_as_new_as_itself(project: Project) -> None:
    """A look that began before the delivery came does not process it."""
    intake.receive(project, headers(PUSH, "d1"), PUSH)
    before = Delivery.objects.get().received_at
    intake.receive(project, headers(PUSH, "d2"), PUSH)
    assert Delivery.objects.get().received_at > before


def test_the_same_body_to_two_projects_is_two_deliveries(project: Project) -> None:
    other = Project.objects.create(
        slug="b", name="b", url="/b", default_branch="main", suite="tiny", hook_secret=Secret.of("s3cret")
    )
    assert intake.receive(project, headers(PUSH), PUSH) is not None
    assert intake.receive(other, headers(PUSH), PUSH) is not None


def test_calls_without_an_id_are_told_apart_by_their_bodies(project: Project) -> None:
    for body in (b"one", b"two"):
        assert intake.receive(project, headers(body, id=""), body) is not None


@pytest.mark.django_db(transaction=True)
def test_thirty_calls_at_once_are_one_delivery(project: Project) -> None:
    together = threading.Barrier(30)

    def call(_: int) -> bool:
        try:
            together.wait()
            return intake.receive(project, headers(PUSH), PUSH) is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(30) as pool:
        assert sum(pool.map(call, range(30))) == 1
    assert Delivery.objects.count() == 1


@pytest.mark.parametrize("event", ["ping", "star", "", "x" * 300])
def test_an_event_of_no_interest_is_kept_and_wakes_nobody(project: Project, event: str) -> None:
    delivery = intake.receive(project, headers(PUSH, event=event), PUSH)
    assert delivery is not None
    assert delivery.status == "ignored"
    assert not Project.objects.with_deliveries().exists()


@pytest.mark.parametrize("event", ["push", "create", "delete"])
def test_events_that_move_branches_wake_the_sync(project: Project, event: str) -> None:
    intake.receive(project, headers(PUSH, event=event), PUSH)
    assert Project.objects.with_deliveries().exists()


@pytest.mark.parametrize("body", [b"", b"\xff\xfe\x00 not UTF-8", b"\0" * 10, b"no json", b"{" * 1000])
def test_a_signed_body_is_kept_whatever_it_is(project: Project, body: bytes) -> None:
    intake.receive(project, headers(body), body)
    assert bytes(Delivery.objects.get().body) == body


def test_a_long_id_and_odd_headers_are_kept(project: Project) -> None:
    given: dict[str, Any] = headers(PUSH, id="i" * 500, **{"X-Odd": "Ã©\x7f", "Cookie": "session=1"})
    intake.receive(project, given, PUSH)
    row = Delivery.objects.get()
    assert row.delivery_id == "i" * 100
    assert "Cookie" not in row.headers
