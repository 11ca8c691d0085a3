import hashlib
import hmac
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as live_settings
from django.http import HttpResponse
from django.test import Client

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.projects.models import Delivery, Project


@pytest.fixture
def project(db: None, tmp_path: Path, settings: Any) -> Project:
    """A project whose repository, mirror, git and broker are all out of reach."""
    settings.MIRRORS = tmp_path / "mirrors"
    settings.BROKER_URL = "redis://127.0.0.1:1/0"
    return Project.objects.create(
        slug="kvd",
        name="kvd",
        url=str(tmp_path / "nowhere"),
        default_branch="main",
        suite="tiny",
        hook_secret=Secret.of("s3cret"),
    )


def call(project: Project, client: Client, body: bytes, **headers: str) -> HttpResponse:
    signature = "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest()
    given = {"X-Hub-Signature-256": signature, "X-GitHub-Event": "push", "X-GitHub-Delivery": "d1", **headers}
    return client.post(f"/hooks/{project.hook_id}", body, content_type="application/json", headers=given)


def test_a_delivery_is_stored_and_answered_without_git_and_broker(
    project: Project, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # there is no git
    answer = call(project, client, b"{}")
    assert (answer.status_code, answer.content) == (202, b'{"status": "received"}')
    assert Delivery.objects.get().status == "received"
    assert not (tmp_path / "mirrors").exists()


def test_too_many_calls_of_a_webhook_are_refused_for_a_while(project: Project, client: Client, settings: Any) -> None:
    settings.HOOK_RATE = 2
    answers = [call(project, client, str(number).encode(), **{"X-GitHub-Delivery": str(number)}) for number in range(3)]
    assert [one.status_code for one in answers] == [202, 202, 429]
    assert 0 < int(answers[2].headers["Retry-After"]) <= 30
    assert Delivery.objects.count() == 2
    other = Project.objects.create(slug="b", url="b", suite="tiny", hook_secret=Secret.of("s3cret"))
    assert call(other, client, b"{}").status_code == 202


def test_a_delivery_makes_three_statements_beside_its_transaction(
    project: Project, client: Client, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(5):
        call(project, client, b"{}")


def test_a_repeated_delivery_is_answered_as_such(project: Project, client: Client) -> None:
    call(project, client, b"{}")
    answer = call(project, client, b"{}")
    assert (answer.status_code, answer.content) == (202, b'{"status": "repeated"}')
    assert Delivery.objects.count() == 1


def test_a_ping_is_answered_and_ignored(project: Project, client: Client) -> None:
    answer = call(project, client, b'{"zen": "Keep it logically awesome."}', **{"X-GitHub-Event": "ping"})
    assert (answer.status_code, answer.content) == (
        202,
        b'{"status": "ignored", "reason": "a test call: the address and the secret are right"}',
    )


def test_a_wrong_signature_answers_401_and_stores_nothing(project: Project, client: Client) -> None:
    answer = call(project, client, b"{}", **{"X-Hub-Signature-256": "sha256=" + "0" * 64})
    assert answer.status_code == 401
    assert b"set the project's secret" in answer.content
    assert not Delivery.objects.exists()


def test_a_body_of_20_megabytes_is_stored(project: Project, client: Client) -> None:
    body = b'{"commits": "' + b"x" * (20 * 1024 * 1024) + b'"}'
    assert call(project, client, body).status_code == 202
    assert bytes(Delivery.objects.get().body) == body


def test_a_body_that_is_not_utf8_is_stored(project: Project, client: Client) -> None:
    assert call(project, client, b"\xff\x00\xfe").status_code == 202
    assert bytes(Delivery.objects.get().body) == b"\xff\x00\xfe"


def test_a_body_beyond_the_limit_is_refused(project: Project, client: Client) -> None:
    assert call(project, client, b"x" * (26 * 1024 * 1024 + 1)).status_code == 413
    assert not Delivery.objects.exists()


@pytest.mark.curl
@pytest.mark.django_db(transaction=True)
def test_the_example_of_the_documentation_causes_a_look(project: Project, live_server: Any) -> None:
    text = (live_settings.BASE_DIR / "docs" / "webhooks.md").read_text()
    script = text.partition("```sh\n")[2].partition("```")[0]
    own = script.replace("https://speed.example.org/hooks/ID", f"{live_server.url}/hooks/{project.hook_id}")
    environment = {"PATH": os.environ["PATH"], "SECRET": "s3cret"}
    done = subprocess.run(["bash", "-ec", own], env=environment, capture_output=True, check=True, text=True)
    assert json.loads(done.stdout) == {"status": "received"}
    assert Delivery.objects.get().summary == "asked to look at the repository"


def test_an_unknown_hook_answers_404(project: Project, client: Client) -> None:
    project.hook_id = "unknown"
    assert call(project, client, b"{}").status_code == 404


def test_a_hook_is_called_by_post_and_needs_no_csrf_token(project: Project) -> None:
    client = Client(enforce_csrf_checks=True)
    assert call(project, client, b"{}").status_code == 202
    assert client.get(f"/hooks/{project.hook_id}").status_code == 405
