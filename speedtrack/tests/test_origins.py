"""Addresses in settings: spelt as browsers spell them, or refused with a sentence, on every way a process starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.test import override_settings

from speedtrack.http import origins
from speedtrack.processes.devstack import BASE_DIR

#: Also read by the tests of the runner: addresses with their spelling, and what is none with a word of the sentence.
KNOWN = json.loads((BASE_DIR / "speedtrack/tests/server_addresses.json").read_text())
#: Of the address under which the server is reached, the server asks for more than its callers do.
WORSE = {
    "https://": "no name of a host",
    "https://:8000": "no name of a host",
    "https://speed_track.example.org": "no name of a host",
    "https://-speed.example.org": "no name of a host",
    "https://*.example.org": "no name of a host",
    "https://example.org;script-src": "no name of a host",
    f"https://{'a' * 64}.example.org": "no name of a host",
    "https://speed.example.org:0": "the port 0",
    "http://::1:8000": "IPv6 in brackets",
    "http://[fe80::1%25eth0]": "no IP address",
    "http://[127.0.0.1]": "no IP address of a server",
    "http://300.1.1.1": "no IP address",
    "http://127.1": "no IP address",
    "http://0x7f.1": "no IP address",
    "http://0.0.0.0:8000": "where programs listen",
    "http://[::]:8000": "where programs listen",
}


@pytest.mark.parametrize("text", KNOWN["spelt"])
def test_an_address_is_spelt_as_browsers_do(text: str) -> None:
    assert str(origins.read_origin("SPEEDTRACK_URL", text)) == KNOWN["spelt"][text]


@pytest.mark.parametrize("text", KNOWN["refused"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        origins.read_origin("SPEEDTRACK_URL", text)
    sentence = str(refusal.value)
    assert sentence.startswith("SPEEDTRACK_URL: ") and KNOWN["refused"][text] in sentence, sentence
    assert "planted" not in sentence and "\n" not in sentence


@pytest.mark.parametrize("text", WORSE)
def test_an_address_that_nobody_can_call_is_refused(text: str) -> None:
    with pytest.raises(ImproperlyConfigured) as refusal:
        origins.read_origin("SPEEDTRACK_URL", text)
    assert WORSE[text] in str(refusal.value), refusal.value


@pytest.mark.parametrize("text", ["http://[2001:db8::1]:8000", "https://größe.example", "http://127.0.0.1:8000"])
def test_what_a_browser_sends_as_its_host_is_allowed(text: str) -> None:
    origin = origins.read_origin("SPEEDTRACK_URL", text)
    request = HttpRequest()
    request.META["HTTP_HOST"] = str(origin).partition("://")[2]
    with override_settings(ALLOWED_HOSTS=[origin.host]):
        assert request.get_host() == request.META["HTTP_HOST"]


SHOWN = """
from django.conf import settings as s
cookies = s.SESSION_COOKIE_SECURE, s.SECURE_HSTS_SECONDS > 0, s.SESSION_COOKIE_NAME
hosts = ",".join(s.ALLOWED_HOSTS), s.CSRF_TRUSTED_ORIGINS[0], s.SECURE_CSP["connect-src"].replace(" ", "+")
print(s.URL, s.LIVE_URL or "-", *cookies, *hosts, s.EMAIL_HOST, s.DEFAULT_FROM_EMAIL, sep="|")
"""


def started(home: Path, *command: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    known = {"PATH": os.environ["PATH"], "SPEEDTRACK_HOME": str(home), "DATABASE_URL": "postgresql:///nowhere"}
    known["DJANGO_SETTINGS_MODULE"] = "speedtrack.settings"
    return subprocess.run(
        [sys.executable, *(command or ("-c", SHOWN))],
        env=known | environment,
        capture_output=True,
        text=True,
        cwd=BASE_DIR,
    )


@pytest.mark.parametrize(
    ("environment", "shown"),
    [
        (
            {"SPEEDTRACK_URL": " HTTPS://Speed.Example.org:443/ ", "SPEEDTRACK_LIVE_URL": "same"},
            "https://speed.example.org|https://speed.example.org|True|True|__Host-sessionid"
            "|speed.example.org,localhost,127.0.0.1,[::1]|https://speed.example.org|'self'+https://speed.example.org"
            "|localhost|SpeedTrack <speedtrack@speed.example.org>",
        ),
        (
            {"SPEEDTRACK_URL": "http://[2001:DB8::1]:8000", "SPEEDTRACK_LIVE_URL": "HTTP://[2001:DB8::1]:8001/"},
            "http://[2001:db8::1]:8000|http://[2001:db8::1]:8001|False|False|sessionid"
            "|[2001:db8::1],localhost,127.0.0.1,[::1]|http://[2001:db8::1]:8000|'self'+http://[2001:db8::1]:8001"
            "|localhost|SpeedTrack <speedtrack@[IPv6:2001:db8::1]>",
        ),
        (
            {"SPEEDTRACK_DOMAIN": "Größe.example", "ALLOWED_HOSTS": "web, ::1,.example.org", "EMAIL_HOST": "[::1]"},
            "https://xn--gre-6ka8i.example|-|True|True|__Host-sessionid|xn--gre-6ka8i.example,web,[::1],.example.org"
            "|https://xn--gre-6ka8i.example|'self'|::1|SpeedTrack <speedtrack@xn--gre-6ka8i.example>",
        ),
    ],
)
def test_every_setting_is_made_of_the_one_address(tmp_path: Path, environment: dict[str, str], shown: str) -> None:
    done = started(tmp_path, **environment)
    assert done.stdout.strip() == shown, done.stderr


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("SPEEDTRACK_URL", "speed.example.org", "does not begin with https:// or http://"),
        ("SPEEDTRACK_DOMAIN", "https://speed.example.org", "no name of a host"),
        ("SPEEDTRACK_LIVE_URL", "https://speed.example.org/live", "give the address without it"),
        ("SPEEDTRACK_LIVE_URL", "sane", "does not begin with https:// or http://"),
        ("ALLOWED_HOSTS", "https://speed.example.org", "without scheme and port"),
        ("ALLOWED_HOSTS", "speed.example.org:8000", "without scheme and port"),
        ("EMAIL_HOST", "smtp.example.org:587", "without a port"),
        ("EMAIL_HOST", "smtps://me:planted@smtp.example.org", "without a port"),
        ("EMAIL_HOST", "smtp example", "no name of a host"),
        ("EMAIL_PORT", "70000", "give a port from 1 to 65535"),
        ("EMAIL_PORT", "²", "give a whole number"),
    ],
)
def test_a_wrong_address_stops_the_start(tmp_path: Path, name: str, value: str, sentence: str) -> None:
    done = started(tmp_path, **{name: value})
    last = done.stderr.splitlines()[-1]
    assert done.returncode and f"{name}" in last and sentence in last, done.stderr
    assert "planted" not in last


@pytest.mark.parametrize(
    "command", [("manage.py", "migrate"), ("manage.py", "up"), ("manage.py", "serve"), ("-m", "speedtrack", "web")]
)
def test_every_start_says_it_in_one_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = started(tmp_path, *command, SPEEDTRACK_URL="http://localhost:port")
    assert done.returncode == 1 and done.stderr.startswith("error: SPEEDTRACK_URL: "), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_secret_in_a_wrong_database_address_is_not_shown(tmp_path: Path) -> None:
    done = started(tmp_path, "manage.py", "check", DATABASE_URL="mysql//me:planted@db.example.org/x")
    assert done.returncode == 1 and done.stderr.startswith("error: DATABASE_URL is no PostgreSQL address"), done.stderr
    assert "planted" not in done.stderr and "Traceback" not in done.stderr


def environment_of(**given: str) -> dict[str, Any]:
    origins.spell_in_environment(given)
    return given


def test_programs_without_settings_read_the_same_address() -> None:
    assert environment_of(SPEEDTRACK_URL="HTTPS://Speed.example.org/", SPEEDTRACK_LIVE_URL="same", X="y") == {
        "SPEEDTRACK_URL": "https://speed.example.org",
        "SPEEDTRACK_LIVE_URL": "same",
        "X": "y",
    }
    assert environment_of(SPEEDTRACK_URL=" ", SPEEDTRACK_LIVE_URL="") == {}
