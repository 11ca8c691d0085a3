"""Secrets that are planted in the settings, in requests and in the database are found nowhere else, whatever fails.

The processes run as they are served, with all that they log, on servers that are away or refuse them.
"""

import base64
import hashlib
import hmac
import html
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import httpx
import pytest
from django.contrib.auth.models import User

from speedtrack.accounts import tokens as person_tokens
from speedtrack.accounts.models import Scope
from speedtrack.ground.secrets.sealed import Secret
from speedtrack.notices.models import Channel
from speedtrack.processes import devstack
from speedtrack.projects.models import Credential, Project
from speedtrack.runs.models import MachineToken
from speedtrack.tests import builders
from speedtrack.tests.installation import Installation, server_environment
from speedtrack.tests.upgrades.dump import dump

NOBODY = "127.0.0.1:1"  # nothing listens there


def planted(what: str) -> str:
    """Recognisable, and spelled otherwise in addresses, HTML and JSON."""
    return f'Zq7/{what}+plant"ed&{what}=9xW'


OF_SETTINGS = {
    name: planted(name) for name in ("secret-key-" + "k" * 40, "encryption" + "e" * 30, "metrics" + "m" * 30)
}
KEY, ENCRYPTION, METRICS = OF_SETTINGS.values()
DATABASE, BROKER, MAIL, OAUTH = (planted(name) for name in ("database", "broker", "mail", "oauth"))
HOOK, GIT, CHANNEL, PASSWORD = (planted(name) for name in ("hook", "git", "channel", "password"))
COOKIE, BEARER, BASIC, QUERY = (planted(name) for name in ("cookie", "bearer", "basic", "query"))
FAILING = {"SECRET_KEY": KEY, "SPEEDTRACK_ENCRYPTION_KEYS": ENCRYPTION, "METRICS_TOKEN": METRICS, "EMAIL_FILES": "",
           "EMAIL_HOST": "127.0.0.1", "EMAIL_PORT": "1", "EMAIL_HOST_USER": "mailer", "EMAIL_HOST_PASSWORD": MAIL,
           "EMAIL_TLS": "none", "GITHUB_CLIENT_ID": "x", "GITHUB_CLIENT_SECRET": OAUTH, "LOG_LEVEL": "DEBUG",
           "ACCESS_LOG": "true"}  # fmt: skip


def forms(secret: str) -> Iterator[str]:
    """All spellings in which it might be written."""
    yield from {
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        html.escape(secret),
        repr(secret)[1:-1],
    }
    yield from {json.dumps(secret)[1:-1], secret.encode().hex()}
    for offset in range(3):  # inside a longer text that is encoded
        encoded = base64.b64encode(b"\0" * offset + secret.encode()).decode()
        yield encoded[4 : len(encoded) - 4]


@dataclass
class Found:
    """All that was written, by what wrote it."""

    secrets: dict[str, str]
    texts: dict[str, str] = field(default_factory=dict)

    def leaks(self) -> list[tuple[str, str, str]]:
        return [
            (place, name, text[max(0, at - 120) : at + 40])
            for place, text in self.texts.items()
            for name, secret in self.secrets.items()
            for form in forms(secret)
            if (at := text.find(form)) >= 0
        ]


@pytest.fixture
def installation(transactional_db: None, settings: Any, tmp_path: Path) -> Iterator[Installation]:
    """On the test's database, in which secrets are stored, with a broker and a mail server that are away."""
    settings.SECRET_KEY, settings.SPEEDTRACK_ENCRYPTION_KEYS = KEY, [ENCRYPTION]
    builders.use_suite(settings, tmp_path / "suites")
    repository = builders.Repository(tmp_path / "kvd")
    repository.commits(2)
    builders.machine("m1")
    project = builders.track(repository).project
    Project.objects.filter(pk=project.pk).update(hook_secret=Secret.of(HOOK))
    Credential.objects.create(
        project=project, kind="token", origin=f"https://{NOBODY}", user="me", secret=Secret.of(GIT)
    )
    Channel.objects.create(
        project=project,
        kind="webhook",
        url=Secret.of(f"https://{NOBODY}/{quote(CHANNEL, safe='')}"),
        origin="x",
        name="x",
    )
    User.objects.create_user("ada", "ada@example.org", PASSWORD)
    environment = server_environment(tmp_path, f"redis://:{quote(BROKER, safe='')}@{NOBODY}/0", **FAILING)
    made = Installation(tmp_path, dict(environment))
    yield made
    made.stop()


def ask(url: str, hook_id: str, machine: str, person: str) -> Iterator[str]:
    """Requests that fail, each with a secret; what is answered."""
    headers = [
        {"Authorization": f"Bearer {machine[:-1]}"},
        {"Authorization": f"Bearer {person}x"},
        {"Authorization": f"Bearer {BEARER}"},
        {"Authorization": "Basic " + base64.b64encode(f"me:{BASIC}".encode()).decode()},
        {"Cookie": f'sessionid="{quote(COOKIE)}"; csrftoken="{quote(COOKIE)}"'},
        {"X-Gitlab-Token": BEARER, "X-GitHub-Event": "push", "X-Hub-Signature-256": f"sha256={quote(BEARER)}"},
        {"Host": "elsewhere.example", "Authorization": f"Bearer {BEARER}"},
    ]
    paths = ("/api/runner/claim", f"/hooks/{hook_id}", "/login/", "/settings/", "/metrics", "/nowhere", "/%00")
    with httpx.Client(timeout=120) as client:
        for one, path, method in itertools.product(headers, paths, ("GET", "POST")):
            address = f"{url}{path}?token={quote(QUERY, safe='')}"
            answer = client.request(method, address, headers=one, content=b'{"a":')
            yield str(answer.headers) + answer.text
    form = {"username": "ada", "password": PASSWORD + "x", "csrfmiddlewaretoken": COOKIE}
    yield httpx.post(f"{url}/login/", data=form, timeout=120).text
    yield httpx.get(f"{url.replace('//', '//me:word@')}/login/", timeout=120).text


def run(installation: Installation, *words: str, **changed: str) -> str:
    """What a command says that fails, or is ended because it would go on trying."""
    command = [sys.executable, "manage.py", *words]
    environment = installation.environment | changed
    try:
        done = subprocess.run(command, cwd=devstack.BASE_DIR, env=environment, capture_output=True, timeout=60)
    except subprocess.TimeoutExpired as e:
        return ((e.stdout or b"") + (e.stderr or b"")).decode()
    return (done.stdout + done.stderr).decode()


def test_they_are_nowhere(installation: Installation, settings: Any) -> None:
    project = Project.objects.get()
    machine = MachineToken.new_text()
    MachineToken.store(project.machines.get(), machine)
    _, person = person_tokens.issue(User.objects.get(), "x", [Scope.READ], 1, None)
    found = Found(
        {"key": KEY, "encryption": ENCRYPTION, "metrics": METRICS, "database": DATABASE, "broker": BROKER, "mail": MAIL,
         "oauth": OAUTH, "hook": HOOK, "git": GIT, "channel": CHANNEL, "password": PASSWORD, "cookie": COOKIE,
         "bearer": BEARER, "basic": BASIC, "query": QUERY, "machine": machine.text[18:-8], "person": person[18:-8]}
    )  # fmt: skip
    away = f"postgresql://someone:{quote(DATABASE, safe='')}@{NOBODY}/x"
    for form in ("line", "json"):
        installation.start_web(SPEEDTRACK_LOG_FORMAT=form)
        answers = "\n".join(ask(installation.url, project.hook_id, machine.text, person))
        installation.stop("web")
        found.texts[f"answers, {form}"] = answers.replace(quote(QUERY, safe=""), "")  # a login page repeats the address
    installation.start_web(SPEEDTRACK_LOG_FORMAT="json", DATABASE_URL=away)
    found.texts["without a database"] = httpx.get(f"{installation.url}/", timeout=120).text
    installation.start("dispatcher", "notify", SPEEDTRACK_LOG_FORMAT="json")
    installation.until(lambda: installation.log("dispatcher").stat().st_size > 0, "the dispatcher writes")
    few = ("doctor", "--only", "database", "broker", "mails", "security")
    with_password = f"https://me:{quote(GIT, safe='')}@github.com/a/b"
    for words, changed in (
        (("check", "--deploy"), {}),
        (few, {}),
        (("track", with_password, "--suite", "tiny"), {}),
        (few, {"DATABASE_URL": away}),
        (("migrate",), {"DATABASE_URL": away}),
    ):
        name = f"{words[0]} {' '.join(changed)}"
        found.texts[name] = run(installation, *words, **changed)
    installation.stop()
    found.texts |= {log.name: log.read_text(errors="replace") for log in installation.home.glob("*.log")}
    found.texts["the database"] = dump("--data-only")
    assert found.leaks() == []
    assert all(found.texts[name] for name in ("web.log", "dispatcher.log", "notify.log", "the database"))
    planted_again = Found({"one": BEARER}, {"a log": f"x{base64.b64encode(b'me:' + BEARER.encode()).decode()}"})
    assert planted_again.leaks()  # it would be seen


def test_json_that_is_nested_without_end_is_refused(installation: Installation) -> None:
    machine, project = MachineToken.new_text(), Project.objects.get()
    MachineToken.store(project.machines.get(), machine)
    body = b'{"a":' * 200_000
    signature = hmac.new(HOOK.encode(), body, hashlib.sha256).hexdigest()
    installation.start_web()
    with httpx.Client(base_url=installation.url, timeout=120) as client:
        by_runner = {"Authorization": f"Bearer {machine.text}"}
        by_forge = {"X-GitHub-Event": "push", "X-GitHub-Delivery": "1", "X-Hub-Signature-256": f"sha256={signature}"}
        assert client.post("/api/runner/claim", content=body, headers=by_runner).status_code == 422
        assert (
            client.post(f"/hooks/{project.hook_id}", content=body, headers=by_forge).status_code == 202
        )  # only a hint
        assert client.get("/healthz").status_code == 200
