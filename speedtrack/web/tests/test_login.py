"""Failed logins are limited per user name and address, and affect nobody else."""

import re
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.conf import settings as live_settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models import F
from django.test import Client, RequestFactory

from speedtrack.web.requests.login import client_address

LIMIT = live_settings.AXES_FAILURE_LIMIT


@pytest.fixture(autouse=True)
def users(db: None) -> None:
    for name in ("ada", "bob"):
        User.objects.create_user(name, password="secret")


def log_in(client: Client, password: str, name: str = "ada", **where: Any) -> Any:
    return client.post("/login/", {"username": name, "password": password}, **where)


def fail_often(client: Client, **where: Any) -> Any:
    for _ in range(LIMIT - 1):
        assert log_in(client, "wrong", **where).status_code == 200
    return log_in(client, "wrong", **where)


def test_too_many_failures_are_told_when_to_come_back(client: Client) -> None:
    answer = fail_often(client)
    assert answer.status_code == 429
    assert 0 < int(answer["Retry-After"]) <= 15 * 60
    assert re.search(r"Try again in (15|14) min", answer.content.decode())
    assert log_in(client, "secret").status_code == 429
    assert "_auth_user_id" not in client.session


def test_who_comes_back_then_is_let_in(client: Client) -> None:
    fail_often(client)
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=14))
    answer = log_in(client, "secret")
    assert answer.status_code == 429
    assert int(answer["Retry-After"]) <= 60
    AccessAttempt.objects.update(attempt_time=F("attempt_time") - timedelta(minutes=1))
    assert log_in(client, "secret").status_code == 302


def test_failures_hold_up_nobody_else(client: Client) -> None:
    fail_often(client, REMOTE_ADDR="192.0.2.1")
    assert log_in(client, "secret", REMOTE_ADDR="192.0.2.2").status_code == 302
    assert log_in(client, "secret", "bob", REMOTE_ADDR="192.0.2.1").status_code == 302


def test_another_browser_is_the_same_client(client: Client) -> None:
    for number in range(LIMIT):
        answer = log_in(client, "wrong", headers={"user-agent": f"browser {number}"})
    assert answer.status_code == 429


def test_a_good_login_begins_the_count_anew(client: Client) -> None:
    for _ in range(LIMIT - 1):
        log_in(client, "wrong")
    assert log_in(client, "secret").status_code == 302
    client.post("/logout/")
    assert log_in(client, "wrong").status_code == 200


def test_a_client_does_not_choose_its_address(client: Client) -> None:
    for number in range(LIMIT):
        answer = log_in(client, "wrong", headers={"x-forwarded-for": f"192.0.2.{number}"})
    assert answer.status_code == 429


@pytest.mark.parametrize(
    ("forwarded", "connected", "address"),
    [
        ("", "127.0.0.1", "127.0.0.1"),
        ("192.0.2.7", "127.0.0.1", "192.0.2.7"),
        ("203.0.113.9, 192.0.2.7", "127.0.0.1", "192.0.2.7"),
        ("no address", "127.0.0.1", "127.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "127.0.0.1", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "127.0.0.1", "192.0.2.7"),
        ("", "", None),
    ],
)
def test_behind_a_proxy_its_word_counts(settings: Any, forwarded: str, connected: str, address: str | None) -> None:
    settings.BEHIND_TLS_PROXY = True
    request = RequestFactory().get("/", headers={"x-forwarded-for": forwarded}, REMOTE_ADDR=connected)
    assert client_address(request) == address


@pytest.mark.parametrize("name", ["x" * 151, "x" * 300, "\u202e"])
def test_odd_names_are_refused_as_unknown(client: Client, name: str) -> None:
    assert b"do not match" in log_in(client, "wrong", name).content


def test_what_is_kept_of_a_failure_holds_no_password(client: Client) -> None:
    log_in(client, "almost-the-password")
    kept = AccessAttempt.objects.get()
    assert "almost-the-password" not in f"{kept.post_data} {kept.get_data} {kept.path_info}"


def test_nothing_is_wrong_with_the_settings() -> None:
    call_command("check", fail_level="WARNING", tags=["security", "compatibility"])
