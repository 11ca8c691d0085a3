"""The page about the API: every line for curl on it works against a real server."""

import html
import re
import subprocess
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from speedtrack.accounts.models import Role
from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import muting
from speedtrack.alerts.triage.muting import MuteRequest
from speedtrack.api.v1.published.pages import schema
from speedtrack.api.v1.tests.conftest import evidence_of, program
from speedtrack.api.v1.tests.test_operating import delivery
from speedtrack.projects.models import Annotation
from speedtrack.runs.models import Run
from speedtrack.runs.requests import byhand, comparing
from speedtrack.runs.requests.comparing import AskedComparison
from speedtrack.web.tests.world import World, counted

LINE = re.compile(r'<code class="curl">(.*?)</code>', re.DOTALL)


@pytest.mark.curl
@pytest.mark.django_db(transaction=True)
def test_every_line_for_curl(slow: tuple[World, Alert], live_server: Any, settings: Any) -> None:
    made, _ = slow
    settings.URL, settings.API_RATE, settings.API_RATE_ANONYMOUS = live_server.url, 0, 0
    owner = program("ada", project=made.project, role=Role.OWNER)
    Annotation.objects.create(project=made.project, moment=timezone.now(), text="moved")
    muting.mute(made.project, MuteRequest("set-p1", "", None, "noise", 1), User.objects.get(username="ada"))
    for revision in made.shas[:3]:
        byhand.queue_by_hand(byhand.choose("kvd", revision, [], None, fetches=False))
    byhand.cancel_run(Run.objects.order_by("-pk")[1].pk)
    evidence_of(made)
    bisecting.start(made.commit(0), made.commit(-1), made.machines[0])
    delivery(made.project, 1)
    comparing.ask(made.project, AskedComparison("main", made.shas[0]), None)
    User.objects.filter(username="ada").update(is_superuser=True)  # only an operator tracks repositories
    page = Client().get("/api/v1/docs")
    with counted() as context:
        Client().get("/api/v1/docs")
    assert len(context) <= 20
    lines = [html.unescape(line) for line in LINE.findall(page.content.decode())]
    assert len(lines) == sum(len(operations) for operations in schema()["paths"].values()) > 40
    failed = []
    for line in sorted(lines, key=lambda one: "/untrack" in one):  # the others need a tracked project
        line = line.replace("https://github.com/valkey-io/valkey", made.project.url)
        line = line.replace('"suite": "valkey"', f'"suite": "{made.project.suite}"')
        done = subprocess.run(["sh", "-c", line], env={"SPEEDTRACK_TOKEN": owner.token}, capture_output=True, text=True)
        if done.returncode:
            failed.append((line, done.stdout, done.stderr))
    assert failed == []


def test_an_empty_installation_has_the_page(db: None, client: Client) -> None:
    page = client.get("/api/v1/docs").content.decode()
    assert "/api/v1/projects/SLUG/commits/main" in page
    assert client.get("/api/v1/openapi.json").json()["openapi"].startswith("3.1")


def test_all_is_described() -> None:
    """Each operation says what it is, what it answers and how it refuses; each document, what it is."""
    for path, operations in schema()["paths"].items():
        for method, operation in operations.items():
            assert operation["summary"][0].isupper(), path
            assert {"401", "404", "422", "429"} <= operation["responses"].keys(), (method, path)
    for name, document in schema()["components"]["schemas"].items():
        assert document.get("description"), name
