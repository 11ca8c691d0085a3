"""Search: by sha, words, names and numbers; the page and what the box suggests."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.projects.models import Commit
from speedtrack.web.pages import search
from speedtrack.web.tests.world import HOSTILE, World, html_of, queries


def found(client: Client, text: str) -> list[tuple[str, str]]:
    answer = client.get("/search.json", {"q": text})
    assert answer.status_code == 200
    results: list[dict[str, str]] = json.loads(answer.content)["results"]
    for one in results:
        assert client.get(one["url"]).status_code == 200, one
    return [(one["kind"], one["url"]) for one in results]


def test_each_kind_is_found(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    commit = ("commit", f"/p/kvd/c/{made.shas[5]}/")
    assert found(client, made.shas[5][:7].upper()) == [commit]
    for text in (str(alert.pk), f"#{alert.pk}", f"alert {alert.pk}"):
        assert found(client, text)[0] == ("alert", f"/alerts/{alert.pk}/")
    assert ("machine", "/machines/kvd-m1/") in found(client, "KVD-")
    assert ("project", "/p/kvd/") in found(client, "kvd")
    benchmark = ("benchmark", "/p/kvd/timeline/get-p1/server_cpu_ns_per_request")
    assert found(client, "kvd get") == [("alert", f"/alerts/{alert.pk}/"), benchmark]
    assert ("commit", f"/p/kvd/c/{made.shas[1]}/") in found(client, "NUMBER 2 change")
    assert found(client, "quotes single") == [("alert", f"/alerts/{alert.pk}/"), commit]


def test_alerts_are_found_by_what_they_are_about(client: Client, slow: tuple[World, Alert]) -> None:
    _, alert = slow
    for text in ("get-p1", "server cpu", "kvd-m1 set", "CONFIRMED", "open kvd", "script alert", "kvd get cpu"):
        assert ("alert", f"/alerts/{alert.pk}/") in found(client, text), text
    for text in ("kvd", "fixed", "get p99", "improvement", "kvd no-such", "c"):
        assert "alert" not in dict(found(client, text)), text


def test_what_is_hostile_finds_nothing_and_breaks_nothing(client: Client, slow: tuple[World, Alert]) -> None:
    for text in ("%", "_", "100% \\", "'; DROP TABLE x; --", "9" * 19, "9" * 30, "#", "abc\u202egpj", "x" * 5000, " "):
        assert found(client, text) == [], text
    page = html_of(client.get("/search/", {"q": HOSTILE}))
    assert "<script>alert" not in page and "&lt;script&gt;" in page
    page = html_of(client.get("/search/", {"q": "alert(1)"}))
    assert "<script>alert" not in page and "Commits" in page
    assert "Nothing was found" in html_of(client.get("/search/", {"q": "no such thing"}))


def test_commits_with_percent_signs_are_found_as_written(client: Client, kvd: World) -> None:
    Commit.objects.filter(sha=kvd.shas[0]).update(subject=r"Save 100% of C:\temp_1")
    for text in ("100%", r"c:\temp", "temp_1"):
        assert found(client, text) == [("commit", f"/p/kvd/c/{kvd.shas[0]}/")], text
    assert found(client, "temp%1") == []


def test_the_newest_commits_are_searched_and_come_first(
    client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Commit.objects.filter(sha=kvd.shas[2]).update(committed_at=datetime(2050, 1, 1, tzinfo=UTC))
    addresses = [url for kind, url in found(client, "change number") if kind == "commit"]
    assert len(addresses) == 4 and addresses[0] == f"/p/kvd/c/{kvd.shas[2]}/"
    monkeypatch.setattr(search, "NEWEST_COMMITS", 1)
    assert found(client, "change number") == [("commit", f"/p/kvd/c/{kvd.shas[2]}/")]


def test_it_takes_few_queries(client: Client, slow: tuple[World, Alert]) -> None:
    for text in ("change", "abcd", "1"):
        assert queries(client, f"/search.json?q={text}") <= 8  # the first one: which projects are private


def test_a_page_of_the_machines_lists_them(client: Client, db: None, kvd: World, settings: Any) -> None:
    page = html_of(client.get("/machines/"))
    assert 'href="/machines/kvd-m1/"' in page and 'href="/p/kvd/"' in page and "never seen" in page
