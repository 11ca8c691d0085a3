"""Responses to requests that fail, for programs and for people, and their headers."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from speedtrack.runs.models import MachineToken
from speedtrack.web.tests.world import CPU, World

CLAIM, HOOK = "/api/runner/claim", "/hooks/x"
LIMITS = {CLAIM: 26 * 1024 * 1024, HOOK: 26 * 1024 * 1024, "/login/": 1024 * 1024, "/hooks": 1024 * 1024}


@contextmanager
def postgresql_away() -> Iterator[None]:
    """PostgreSQL does not listen at its address any more."""
    known = {key: connection.settings_dict[key] for key in ("HOST", "PORT")}
    connection.close()
    connection.settings_dict.update(HOST="127.0.0.1", PORT="1")
    try:
        yield
    finally:
        connection.close()
        connection.settings_dict.update(known)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("address", ["/", "/p/kvd/", "/queue/", "/runs/1/log.txt", "/machines/m1.json"])
def test_pages_say_that_the_database_is_away(client: Client, address: str, caplog: pytest.LogCaptureFixture) -> None:
    with postgresql_away():
        answer = client.get(address)
    assert answer.status_code == 503
    assert int(answer["Retry-After"]) > 0
    assert "database" in answer.content.decode()
    assert "Traceback" not in caplog.text
    assert client.get("/").status_code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("address", [CLAIM, HOOK])
def test_programs_are_told_that_the_database_is_away(client: Client, address: str) -> None:
    with postgresql_away():
        answer = client.post(
            address, b"{}", "application/json", headers={"authorization": f"Bearer {MachineToken.new_text().text}"}
        )
    assert (answer.status_code, answer["Content-Type"]) == (503, "application/json")
    assert int(answer["Retry-After"]) > 0
    assert "database" in answer.json()["error"]


@pytest.mark.django_db(transaction=True)
def test_a_missing_page_of_somebody_logged_in_while_the_database_is_away(client: Client) -> None:
    client.force_login(User.objects.create_superuser("ada"))
    client.raise_request_exception = False
    with postgresql_away():
        answer = client.get("/nowhere/")
    assert (answer.status_code, "Retry-After" in answer) == (503, True)


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", HOOK, 405),
        ("HEAD", CLAIM, 405),
        ("GET", CLAIM, 405),
        ("POST", HOOK, 404),
        ("GET", "/hooks/", 404),
        ("GET", "/api/", 404),
        ("POST", "/api/runner/nowhere", 404),
    ],
)
def test_programs_are_refused_in_json(client: Client, db: None, method: str, address: str, status: int) -> None:
    answer = client.generic(method, address)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/json")
    if method != "HEAD":
        assert answer.json()["error"]
    if status == 405:
        assert answer["Allow"] == "POST"


@pytest.mark.parametrize(("address", "limit"), LIMITS.items())
def test_a_body_that_is_too_large_is_refused_unread(client: Client, db: None, address: str, limit: int) -> None:
    answer = client.generic("POST", address, b"{}", "application/json", CONTENT_LENGTH=str(limit + 1))
    assert answer.status_code == 413
    assert str(limit) in answer.content.decode()


@pytest.mark.parametrize("address", [CLAIM, HOOK])
def test_a_body_of_unknown_length_is_refused(client: Client, db: None, address: str) -> None:
    answer = client.generic("POST", address, headers={"transfer-encoding": "chunked"})
    assert answer.status_code == 411
    assert "Content-Length" in answer.json()["error"]


def test_a_form_that_is_too_large_has_a_page(client: Client, db: None) -> None:
    length = str(LIMITS["/login/"] + 1)
    answer = client.generic("POST", "/login/", b"", "application/x-www-form-urlencoded", CONTENT_LENGTH=length)
    assert answer.status_code == 413
    assert "too large" in answer.content.decode()


def test_a_defect_of_the_server_is_told_without_its_traceback(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speedtrack.web.pages.home.project_cards", lambda *_: 1 // 0)
    client.raise_request_exception = False
    page = client.get("/")
    assert page.status_code == 500
    assert "ZeroDivisionError" not in page.content.decode()
    assert "site.css" in page.content.decode()


def test_a_form_without_its_token_has_a_page(db: None) -> None:
    answer = Client(enforce_csrf_checks=True).post("/login/", {"username": "a", "password": "b"})
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "<style" not in page and "send the form again" in page


@pytest.mark.parametrize(
    ("method", "address", "status"),
    [
        ("GET", "/static/web/mark.svg", 200),
        ("GET", "/static/nothing.js", 404),
        ("GET", "/healthz", 200),
        ("GET", "/nowhere/", 404),
        ("POST", "/", 405),
        ("POST", HOOK, 404),
        ("GET", CLAIM, 405),
    ],
)
def test_every_answer_has_the_headers(client: Client, db: None, method: str, address: str, status: int) -> None:
    answer = client.generic(method, address)
    assert answer.status_code == status
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["Referrer-Policy"] == "same-origin"


def test_a_request_for_another_host_has_the_headers(client: Client, db: None) -> None:
    answer = client.get("/", headers={"host": "evil.example"})
    assert answer.status_code == 400
    assert "default-src 'none'" in answer["Content-Security-Policy"]
    assert answer["X-Frame-Options"] == "DENY"


def test_pages_answer_to_head(client: Client, kvd: World) -> None:
    line = f"/p/kvd/timeline/get-p1/{CPU}"
    machine = kvd.machines[0].name
    addresses = [
        "/",
        "/p/kvd/",
        line,
        f"{line}.json",
        f"{line}.csv",
        f"/p/kvd/c/{kvd.shas[0]}/",
        "/p/kvd/alerts/",
        "/alerts/",
        "/runs/1/log.txt",
        "/queue/",
        f"/machines/{machine}/",
        f"/machines/{machine}.json",
        "/login/",
        "/healthz",
        "/alerts/1/",
        "/runs/1/",
        "/runs/1/reproduce.sh",
        "/profiles/1.folded",
    ]
    for address in addresses:
        page, head = client.get(address), client.head(address)
        assert (head.status_code, head.get("Content-Type")) == (page.status_code, page.get("Content-Type")), address
        assert b"".join(head) == b"", address
