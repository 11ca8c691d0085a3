"""Annotations: on commits, timelines and lists, by people who are logged in."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from speedtrack.accounts.models import AuditEntry
from speedtrack.projects.models import Annotation
from speedtrack.web.tests.world import CPU, World, html_of, world

JSON = f"/p/kvd/timeline/get-p1/{CPU}.json"


@pytest.fixture
def ada(kvd: World, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("ada"))
    return client


def add(client: Client, address: str = "/p/kvd/annotations/", **fields: str) -> str:
    return html_of(client.post(address, {"text": "**new** compiler", **fields}, follow=True))


def shown(client: Client, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(client.get(JSON + query).content)["annotations"]
    return found


def moment(world: World, place: int, minutes: int = 0) -> str:
    return f"{world.commit(place).committed_at + timedelta(minutes=minutes):%Y-%m-%d %H:%M}"


def test_a_commit_is_annotated_and_its_page_and_timeline_say_so(ada: Client, kvd: World) -> None:
    before = ada.get(JSON)["ETag"]
    page = add(ada, place=kvd.shas[2][:8])
    assert "<strong>new</strong> compiler" in page and "Noted." in page
    pk = Annotation.objects.get().pk
    assert shown(ada) == [{"at": 2, "text": "new compiler", "id": pk, "author": "ada"}]
    assert ada.get(JSON)["ETag"] != before
    assert "<strong>new</strong>" in html_of(Client().get(f"/p/kvd/c/{kvd.shas[2]}/"))
    assert "<strong>new</strong>" not in html_of(Client().get(f"/p/kvd/c/{kvd.shas[1]}/"))


def test_visitors_find_annotations(ada: Client, kvd: World) -> None:
    add(ada, place=kvd.shas[2][:8], text="a **new** compiler <script>alert(1)</script>")
    add(ada, place=moment(kvd, 1), text="moved to another rack")
    add(ada, "/annotations/", place=moment(kvd, 1), text="all moved")
    of_commit, of_moment, of_all = Annotation.objects.order_by("pk")
    visitor = Client()
    for page in (f"/p/kvd/c/{kvd.shas[2]}/", JSON.removesuffix(".json")):
        assert 'href="/p/kvd/annotations/"' in html_of(visitor.get(page))
    assert 'data-annotations="/p/kvd/annotations/"' in html_of(visitor.get(JSON.removesuffix(".json")))

    def found(words: str) -> list[tuple[str, str]]:
        results = json.loads(visitor.get("/search.json", {"q": words}).content)["results"]
        hits = [(one["title"], one["url"]) for one in results if one["kind"] == "annotation"]
        for _, address in hits:
            page, _, anchor = address.partition("#")
            assert f'id="{anchor}"' in html_of(visitor.get(page))
        return hits

    (title, address), *more = found("COMPILER new")
    assert address == f"/p/kvd/c/{kvd.shas[2]}/#annotation-{of_commit.pk}" and not more
    assert title.startswith("a new compiler")
    assert "<script>alert" not in html_of(visitor.get("/search/", {"q": "compiler"}))
    assert found("moved") == [
        ("all moved", f"/annotations/#annotation-{of_all.pk}"),
        ("moved to another rack", f"/p/kvd/annotations/#annotation-{of_moment.pk}"),
    ]
    assert found("100%") == found("_") == found("m") == []


def test_a_moment_is_at_the_first_commit_after_it(ada: Client, kvd: World) -> None:
    for at in (moment(kvd, 1, -1), moment(kvd, 1), moment(kvd, 1, 1), moment(kvd, 3, 1)):
        add(ada, place=at, everywhere="on")
    assert [one["at"] for one in shown(ada)] == [1, 1, 2, 3]
    assert [one["at"] for one in shown(ada, "?last=2")] == [0, 1], "of the two newest commits"
    add(ada, place=moment(kvd, 0, -60))
    assert len(shown(ada)) == 4, "before the history"
    around = f"?from={kvd.shas[0]}&to={kvd.shas[1]}"
    assert [one["at"] for one in shown(ada, around)] == [1, 1], "what followed is out of sight"


def test_what_concerns_all_is_in_all_projects(ada: Client, kvd: World, settings: Any, tmp_path: Any) -> None:
    other = world(settings, tmp_path, name="other")
    other.measure()
    add(ada, "/annotations/", place=moment(kvd, 2))
    add(ada, place=moment(kvd, 2), text="mine alone")
    address = JSON.replace("/kvd/", "/other/")
    assert [one["text"] for one in json.loads(ada.get(address).content)["annotations"]] == ["new compiler"]
    assert [one["text"] for one in shown(ada)] == ["new compiler", "mine alone"]
    assert "mine alone" not in html_of(ada.get("/p/other/annotations/"))
    assert "mine alone" not in html_of(ada.get("/annotations/"))


BAD_INPUT: list[tuple[dict[str, str], str]] = [
    ({"place": ""}, "This field is required"),
    ({"place": "yesterday"}, "neither a date"),
    ({"place": "2026-13-45"}, "neither a date"),
    ({"place": "abcdef"}, "has no commit"),
    ({"place": "abc"}, "6 digits or more"),
    ({"place": "9999-01-01"}, "in the future"),
    ({"place": "<img src=x onerror=alert(1)>"}, "neither a date"),
    ({"everywhere": "on"}, "belongs to one project"),
    ({"text": " \n "}, "This field is required"),
    ({"text": "x" * 10_001}, "too long"),
]


def test_bad_input_is_said(ada: Client, kvd: World) -> None:
    for fields, words in BAD_INPUT:
        page = add(ada, **({"place": kvd.shas[0]} | fields))
        assert words in page and "<img" not in page.partition("<main")[2], fields
    assert not Annotation.objects.exists()


def test_an_annotation_is_changed_and_deleted(ada: Client, kvd: World) -> None:
    add(ada, place=kvd.shas[2])
    address = f"/annotations/{Annotation.objects.get().pk}/"
    assert kvd.shas[2][:12] in html_of(ada.get(address))
    html_of(ada.post(address, {"place": kvd.shas[1], "text": "moved"}))
    assert [(one["at"], one["text"]) for one in shown(ada)] == [(1, "moved")]
    assert "its text was: moved" in html_of(ada.post(address + "delete", follow=True))
    assert ada.get(address).status_code == 404
    assert shown(ada) == []


def test_a_note_of_a_timeline_is_answered_as_its_document_has_it(ada: Client, kvd: World) -> None:
    address, sha = "/p/kvd/annotations/?part=note", kvd.shas[1]
    answer = ada.post(address, {"place": sha, "text": "*moved* & <b>away</b>"})
    assert answer.status_code == 201
    (note,) = ada.get(f"/p/kvd/timeline/get-p1/{CPU}.json").json()["annotations"]
    assert answer.json() == {key: note[key] for key in ("id", "text", "author")}
    assert AuditEntry.objects.get().action == "annotation.create"
    assert not list(get_messages(answer.wsgi_request)), "no later page says it again"
    for place, text, problem in ((sha, "", "This field is required"), ("00000000", "x", "kvd has no commit 00000000")):
        refusal = ada.post(address, {"place": place, "text": text})
        assert (refusal.status_code, refusal.json()) == (400, {"problem": problem})


def test_only_who_is_logged_in_annotates(kvd: World, client: Client) -> None:
    note = Annotation.objects.create(project=kvd.project, commit=kvd.commit(0), text="x")
    form = {"place": kvd.shas[0], "text": "y"}
    for address in (
        "/p/kvd/annotations/",
        "/p/kvd/annotations/?part=note",
        "/annotations/",
        f"/annotations/{note.pk}/",
        f"/annotations/{note.pk}/delete",
    ):
        assert client.post(address, form)["Location"].startswith("/login/")
    assert "Log in" in html_of(client.get("/p/kvd/annotations/"))
    assert Annotation.objects.get().text == "x"


def test_the_database_refuses_what_is_about_nothing_or_about_two_things(kvd: World) -> None:
    now = timezone.now()
    for fields in (
        {"project": kvd.project},
        {"commit": kvd.commit(0)},
        {"project": kvd.project, "commit": kvd.commit(0), "moment": now},
        {"moment": datetime(2026, 1, 1, tzinfo=UTC), "text": ""},
    ):
        with pytest.raises(IntegrityError, match="an_annotation_"), transaction.atomic():
            Annotation.objects.create(**({"text": "x"} | fields))  # type: ignore[misc]
