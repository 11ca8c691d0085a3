"""``manage.py doctor``: the server's checks, and those that it leaves to the runner."""

import json
from io import StringIO
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

import speedtrack
from speedtrack.monitoring.heartbeats import DISPATCHER, Beating
from speedtrack.processes.devstack import BASE_DIR
from speedtrack.upkeep import doctor


def documents(*only: str) -> tuple[int, list[dict[str, Any]]]:
    out = StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("doctor", "--json", "--only", *only, stdout=out)
    return int(ended.value.code or 0), json.loads(out.getvalue())


def test_the_dispatcher_is_named_when_it_is_silent(db: None, settings: Any) -> None:
    code, (found,) = documents("dispatcher")
    assert (code, found["state"]) == (0, "note")
    assert "start `manage.py dispatch`" in found["words"]
    Beating(DISPATCHER, every_s=5).beat()
    assert documents("dispatcher")[1][0]["state"] == "good"
    settings.LEAST_FREE_MB = 10**9
    code, (found,) = documents("disk")
    assert (code, found["state"]) == (1, "bad")


@pytest.mark.parametrize("name", doctor.OF_RUNNER)
def test_the_machine_is_checked_as_its_runner_does(name: str) -> None:
    (found,) = doctor.examine([name])
    assert found.state in ("good", "note", "bad")
    assert found.words
    assert "Traceback" not in found.words


def test_only_a_host_that_measures_is_examined_as_a_machine(
    settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A server from a release archive has no driver, and needs none."""
    settings.HOME = tmp_path
    monkeypatch.setattr(doctor, "FILES_OF_RUNNER", (tmp_path / "speedbench",))
    for name in doctor.VARIABLES_OF_RUNNER:
        monkeypatch.delenv(name, raising=False)
    assert set(doctor.CHECKS) - set(doctor.usual_checks()) == set(doctor.OF_RUNNER)
    (found,) = doctor.examine(["runner"])
    assert found.state == "good" and "`python -m runners doctor` checks a machine" in found.words
    monkeypatch.setenv("SPEEDTRACK_TOKEN_FILE", "/somewhere")
    assert doctor.usual_checks() == list(doctor.CHECKS)
    monkeypatch.delenv("SPEEDTRACK_TOKEN_FILE")
    (tmp_path / "runner").mkdir()  # of `make serve` and `make demo`
    assert doctor.usual_checks() == list(doctor.CHECKS)


def test_server_and_runner_are_of_one_release() -> None:
    assert f'__version__ = "{speedtrack.__version__}"' in (BASE_DIR / "runners" / "__init__.py").read_text()


PRODUCTION = {
    "URL": "https://speedtrack.example.org",
    "IS_HTTPS": True,
    "BEHIND_TLS_PROXY": True,
    "SECURE_HSTS_SECONDS": 1000,
    "SECRET_KEY": "0123456789" * 6,
    "ALLOWED_HOSTS": ["speedtrack.example.org"],
    "ALLOW_LOCAL_REPOSITORIES": False,
    "BROKER_URL": "rediss://:word@broker/0",
    "EMAIL_HOST": "mail.example.org",
    "EMAIL_TLS": "starttls",
    "EMAIL_FILE_PATH": "",
}


@pytest.mark.parametrize(
    ("changed", "state", "words"),
    [
        ({}, "good", "reached as https://speedtrack.example.org, with safe settings"),
        ({"IS_HTTPS": False, "URL": "http://speedtrack.example.org"}, "bad", "in clear; put a TLS proxy before it"),
        ({"BEHIND_TLS_PROXY": False}, "bad", "nobody is redirected to https"),
        ({"SECURE_HSTS_SECONDS": 0}, "note", "HSTS_SECONDS is 0"),
        ({"DEBUG": True}, "bad", "show settings and source code"),
        ({"ALLOWED_HOSTS": ["*"]}, "bad", "list the names"),
        ({"SECRET_KEY": "short"}, "bad", "can be guessed"),
        ({"SECRET_KEY": "ab" * 40}, "bad", "can be guessed"),
        ({"ALLOW_LOCAL_REPOSITORIES": True}, "note", "each repository of this machine"),
        ({"GIT_HOSTS": ["*"]}, "note", "any public host"),
        ({"GIT_NETWORKS": [ip_network("0.0.0.0/0")]}, "bad", "GIT_NETWORKS has 0.0.0.0/0"),
        ({"CHANNEL_NETWORKS": [ip_network("::/0")]}, "bad", "CHANNEL_NETWORKS has ::/0"),
        ({"BROKER_URL": "redis://broker:6379/0"}, "bad", "set `requirepass` there"),
        ({"BROKER_URL": "redis://:word@broker/0"}, "note", "nudges cross the network in clear"),
        ({"BROKER_URL": "rediss://:word@broker/0?ssl_cert_reqs=none"}, "bad", "ssl_cert_reqs=none"),
        ({"EMAIL_TLS": "none"}, "note", "mails cross the network in clear"),
        ({"URL": "http://127.0.0.1:8000", "IS_HTTPS": False, "DEBUG": True}, "good", "from this machine only"),
    ],
)
def test_what_is_insecure_is_said_with_the_remedy(
    settings: Any, changed: dict[str, Any], state: str, words: str
) -> None:
    for name, value in {**PRODUCTION, **changed}.items():
        setattr(settings, name, value)
    (found,) = doctor.examine(["security"])
    assert (found.state, words in found.words) == (state, True), found.words


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("", "does not ask for TLS"),
        ("prefer", "does not ask for TLS"),
        ("require", "does not verify whom it reaches"),
        ("verify-ca", "does not verify whom it reaches"),
        ("verify-full", "with safe settings"),
    ],
)
def test_a_remote_database_is_reached_by_verified_tls(settings: Any, mode: str, words: str) -> None:
    for name, value in PRODUCTION.items():
        setattr(settings, name, value)
    known = settings.DATABASES["default"]
    options = known["OPTIONS"] | ({"sslmode": mode} if mode else {})
    settings.DATABASES = {"default": known | {"HOST": "db.example.org", "OPTIONS": options}}
    (found,) = doctor.examine(["security"])
    assert words in found.words


def test_a_key_that_others_may_read_is_said(settings: Any, tmp_path: Path) -> None:
    settings.HOME = tmp_path
    (tmp_path / "secret-key").write_text("x")
    (tmp_path / "secret-key").chmod(0o644)
    (found,) = doctor.examine(["security"])
    assert found.state == "bad" and "chmod 600" in found.words
