"""Calls that no forge should send: wrongly signed, broken, far too deep, many at once. None is lost or fails."""

import hashlib
import hmac
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.projects import hooks, intake
from speedtrack.projects.forges.signing import BadSignature
from speedtrack.projects.models import Delivery, Project, PullRequest, Refusal
from speedtrack.projects.tests import calls
from speedtrack.projects.tests.calls import CALLS, PULLS, SECRET, SampleCall

PUSH, PULL = CALLS["github"], PULLS["github"]
DEEP = b'{"ref":' + b"[" * 10_000 + b"]" * 10_000 + b"}"
BROKEN = {
    "truncated": PULL.body[:-20],
    "empty": b"",
    "not JSON": b"hello",
    "UTF-16": PULL.body.decode().encode("utf-16"),
    "Latin-1": b'{"title": "\xe9"}',
    "a byte order mark": b"\xef\xbb\xbf" + PULL.body,
    "10,000 deep": DEEP,
    "a number of 5,000 digits": b'{"number": ' + b"9" * 5000 + b"}",
    "zeros": b"\0" * 100,
    "longer than what is read": b'{"a": "' + b"x" * 2_000_001 + b'"}',
}


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(
        slug="kvd", name="kvd", url="/kvd", default_branch="main", suite="tiny", hook_secret=Secret.of(SECRET)
    )


def post(project: Project, call: SampleCall, **headers: str) -> Any:
    return Client().post(
        f"/hooks/{project.hook_id}",
        call.body,
        content_type=call.headers["Content-Type"],
        headers={k: v for k, v in (call.signed() | headers).items() if k != "Content-Type"},
    )


@pytest.mark.parametrize("body", BROKEN.values(), ids=list(BROKEN))
def test_a_signed_push_with_a_broken_body_still_causes_a_look(project: Project, body: bytes) -> None:
    answer = post(project, PUSH.saying(body))
    assert (answer.status_code, answer.json()["status"]) == (202, "received")
    assert bytes(Delivery.objects.get().body) == body
    assert Project.objects.with_deliveries().exists()


@pytest.mark.parametrize("body", BROKEN.values(), ids=list(BROKEN))
def test_a_signed_pull_request_with_a_broken_body_is_ignored_with_the_reason(project: Project, body: bytes) -> None:
    answer = post(project, PULL.saying(body))
    assert (answer.status_code, answer.json()["status"]) == (202, "ignored")
    assert answer.json()["reason"]
    assert not PullRequest.objects.exists()


@pytest.mark.parametrize(
    "document",
    [DEEP, {"pull_request": {"head": [[]] * 1000, "base": "x" * 10**6}, "number": {}}, [1], "text", None, True, 1e308],
)
def test_odd_documents_of_every_forge_are_answered(project: Project, document: Any) -> None:
    for call in [*CALLS.values(), *PULLS.values()]:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        assert post(project, call.saying(body)).status_code == 202


def test_a_form_of_github_is_read(project: Project) -> None:
    form = urlencode({"payload": PULL.body.decode()}).encode()
    call = PULL.saying(form, **{"Content-Type": "application/x-www-form-urlencoded"})
    assert post(project, call).json()["reason"] == "pull request 12 was noted"
    assert PullRequest.objects.get().title == "Make GET faster"
    assert bytes(Delivery.objects.get().body) == form, "as it was signed"


@pytest.mark.parametrize("form", [b"", b"a=b", b"payload=", b"payload=%FF", b"&".join([b"a=1"] * 100)])
def test_a_form_without_a_document_is_ignored(project: Project, form: bytes) -> None:
    call = PULL.saying(form, **{"Content-Type": "application/x-www-form-urlencoded"})
    assert post(project, call).json()["status"] == "ignored"


def test_unsigned_wrong_and_sha1_are_refused_and_counted_apart(project: Project) -> None:
    key, body = SECRET.encode(), PUSH.body
    sha1 = {"X-Hub-Signature": "sha1=" + hmac.new(key, body, hashlib.sha1).hexdigest()}
    for headers in ({}, {"X-Hub-Signature-256": "sha256=" + "0" * 64}, sha1, sha1):
        answer = Client().post(
            f"/hooks/{project.hook_id}",
            body,
            content_type="application/json",
            headers={"X-GitHub-Event": "push", "X-GitHub-Delivery": "d1", **headers},
        )
        assert answer.status_code == 401
        assert "X-Hub-Signature-256" in answer.json()["error"]
    counts = dict(Refusal.objects.values_list("reason", "count"))
    assert counts == {"unsigned": 1, "wrong": 1, "sha1": 2}
    assert not Delivery.objects.exists()
    assert Refusal.objects.get(reason="wrong").event == "push"
    assert Refusal.objects.get(reason="wrong").size == len(body)


@pytest.mark.parametrize("headers", [{}, {"X-Odd": "1"}, {"X-Hub-Signature": "sha1=00"}, {"Authorization": "x"}])
def test_a_call_of_nobody_says_what_is_expected(project: Project, headers: dict[str, str]) -> None:
    with pytest.raises(BadSignature, match=r"X-Hub-Signature-256 \(GitHub\).*X-SpeedTrack-Signature-256|webhook-sign"):
        intake.receive(project, headers, b"{}")


def test_a_flood_of_refused_calls_leaves_one_row_and_then_writes_nothing(
    project: Project, django_assert_num_queries: Any
) -> None:
    def refused() -> None:
        with pytest.raises(BadSignature):
            intake.receive(project, PUSH.headers, PUSH.body)

    refused()
    Refusal.objects.update(count=hooks.COUNTED - 1)
    refused()
    before = Refusal.objects.values_list("last_at").get()
    refused()
    assert Refusal.objects.values_list("count").get() == (hooks.COUNTED,)
    assert Refusal.objects.values_list("last_at").get() == before
    assert Refusal.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_hundred_copies_at_once_are_one_delivery(project: Project) -> None:
    together = threading.Barrier(20)
    headers = PUSH.signed()

    def copy(number: int) -> bool:
        try:
            if number < 20:
                together.wait()
            return intake.receive(project, headers, PUSH.body) is not None
        finally:
            connection.close()

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(copy, range(100))) == 1
    assert Delivery.objects.values_list("copies", "status").get() == (100, "received")


def test_two_pushes_out_of_order_cause_one_look_that_covers_both(project: Project) -> None:
    later = PUSH.saying(calls.PUSH | {"before": calls.NEW, "after": "c3" * 20}, **{"X-GitHub-Delivery": "d2"})
    assert post(project, later).json()["status"] == "received"
    assert post(project, PUSH).json()["status"] == "received"
    assert Project.objects.with_deliveries().count() == 1


def test_a_repeated_report_of_a_pull_request_is_one_delivery(project: Project) -> None:
    assert [post(project, PULL).json()["status"] for _ in range(3)] == ["processed", "repeated", "repeated"]
    assert Delivery.objects.values_list("copies").get() == (3,)


def test_a_secret_that_cannot_be_decrypted_is_the_operators_matter(
    project: Project, caplog: pytest.LogCaptureFixture
) -> None:
    Project.objects.update(hook_secret=Secret("nonsense"))
    answer = post(project, PUSH)
    assert answer.status_code == 503
    assert "cannot be decrypted" in caplog.text and "nonsense" not in answer.content.decode()
