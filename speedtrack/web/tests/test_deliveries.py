"""The pages of webhook calls, secrets and new names of repositories."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models.functions import Now
from django.test import Client

from speedtrack.accounts.models import AuditEntry
from speedtrack.projects import hooks, intake
from speedtrack.projects.forges.signing import BadSignature
from speedtrack.projects.models import Delivery, Project, Refusal
from speedtrack.tests import builders
from speedtrack.web.pages.settings import deliveries as deliveries_page
from speedtrack.web.tests.test_settings import POLICY
from speedtrack.web.tests.world import HOSTILE, World, html_of, queries

PUSH = {"ref": "refs/heads/main", "before": "a1" * 20, "after": "b2" * 20}
PAGE = "/p/kvd/deliveries/"


@pytest.fixture
def ada(kvd: World, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("ada"))
    return client


def act(client: Client, act: str, **fields: Any) -> str:
    return html_of(client.post(PAGE, {"act": act, **fields}, follow=True))


def call(kvd: World, number: int, event: str = "push") -> Delivery:
    delivery = builders.call_hook(kvd.project, PUSH | {"number": number}, event, f"d{number}")
    assert delivery is not None
    return delivery


def test_calls_are_shown_with_what_followed(ada: Client, kvd: World) -> None:
    assert "No call has been accepted yet" in html_of(ada.get(PAGE))
    call(kvd, 1)
    call(kvd, 2, "star")
    with pytest.raises(BadSignature):
        intake.receive(kvd.project, {"X-GitHub-Event": "push"}, b"{}")
    page = html_of(ada.get(PAGE))
    for words in (
        "main pushed to b2b2b2b2b2",
        "waits for a look",
        "event &#x27;star&#x27; is not interesting",
        "not signed",
        "1 call of the last day was refused",
    ):
        assert words in page, words
    kvd.push(1)
    assert "1 new, 0 gone, 1 runs queued" in html_of(ada.get(PAGE))
    ignored = html_of(ada.get(PAGE + "?status=ignored"))
    assert "star" in ignored and "main pushed" not in ignored
    assert ada.get(PAGE + "?status=nonsense").status_code == 404
    assert ada.get(PAGE + "?before=x").status_code == 404


def test_a_call_is_shown_with_its_headers_and_body(ada: Client, kvd: World) -> None:
    delivery = builders.call_hook(kvd.project, PUSH | {"by": HOSTILE}, id="<b>1")
    assert delivery
    page = html_of(ada.get(f"{PAGE}{delivery.pk}/"))
    assert "X-Hub-Signature-256" in page and "refs/heads/main" in page and "&lt;b&gt;1" in page
    assert "<script>alert" not in page and "<b>1" not in page
    assert kvd.project.hook_secret.reveal() not in page
    assert ada.get(f"{PAGE}{delivery.pk + 1}/").status_code == 404
    assert Client().get(f"{PAGE}{delivery.pk}/").status_code == 302


def test_of_a_long_body_the_beginning_is_shown(ada: Client, kvd: World) -> None:
    delivery = builders.call_hook(kvd.project, {"a": "x" * 300_000})
    assert delivery
    answer = ada.get(f"{PAGE}{delivery.pk}/")
    assert len(answer.content) < 60_000 and "more are not shown" in html_of(answer)


def test_calls_are_paged_with_few_queries(ada: Client, kvd: World) -> None:
    for number in range(deliveries_page.PER_PAGE + 3):
        call(kvd, number)
    assert queries(ada, PAGE) <= 8
    first = html_of(ada.get(PAGE))
    assert first.count('name="delivery"') == deliveries_page.PER_PAGE
    (before,) = re.findall(r"before=(\d+)", first)
    second = html_of(ada.get(f"{PAGE}?before={before}"))
    assert second.count('name="delivery"') == 3 and "Newest" in second


def test_one_and_several_are_replayed(ada: Client, kvd: World) -> None:
    rows = [call(kvd, number) for number in range(3)]
    Delivery.objects.update(status="processed")
    asked = act(ada, "replay", delivery=[row.pk for row in rows[1:]], preview="yes")
    assert "Nothing was done. It would be: 2 deliveries are" in asked and asked.count("checked") == 2
    assert Delivery.objects.filter(status="processed", copies=1).count() == 3 and not AuditEntry.objects.exists()
    assert "1 delivery is replayed" in act(ada, "replay", delivery=rows[0].pk)
    assert "2 deliveries are replayed" in act(ada, "replay", delivery=[row.pk for row in rows[1:]])
    assert Delivery.objects.filter(status="received").count() == 3
    for odd in ({}, {"delivery": "x"}, {"delivery": 10**17}, {"delivery": "9" * 40}):
        assert "Not done" in act(ada, "replay", **odd)
    assert "Not done" in act(ada, "explode")
    Project.objects.update(untracked_at=Now())
    assert "track it again first" in act(ada, "replay", delivery=rows[0].pk)


def test_old_calls_are_deleted_once_that_is_confirmed(ada: Client, kvd: World) -> None:
    call(kvd, 1, "ping")
    assert "confirm" in act(ada, "purge", days="0")
    assert "number of days" in act(ada, "purge", days="-1", sure="yes")
    asked = act(ada, "purge", days="0", preview="yes")
    assert "Nothing was done. It would be: 1 deliveries and 0 counts" in asked and "no run would be queued" in asked
    assert 'value="0"' in asked and "checked" not in asked
    assert "checked" in act(ada, "purge", days="0", sure="yes", preview="yes")
    assert "number of days" in act(ada, "purge", days="-1", preview="yes")
    assert Delivery.objects.exists() and not AuditEntry.objects.exists()
    assert "1 deliveries and 0 counts" in act(ada, "purge", days="0", sure="yes")
    assert not Delivery.objects.exists()


def test_somebody_who_is_not_logged_in_does_nothing(kvd: World, client: Client) -> None:
    row = call(kvd, 1, "ping")
    for fields in ({"act": "replay", "delivery": row.pk}, {"act": "purge", "days": "0", "sure": "yes"}):
        assert client.post(PAGE, fields)["Location"].startswith("/login/")
    assert Delivery.objects.get().status == "ignored"


def test_a_former_secret_is_shown_with_its_last_use_and_ended(ada: Client, kvd: World) -> None:
    entered = {"days": "3", "given": "made-by-the-forge-1234", "sure": "yes"}
    asked = html_of(ada.post("/p/kvd/settings/secret", entered | {"preview": "yes"}, follow=True))
    assert 'value="3"' in asked and 'value="made-by-the-forge-1234"' in asked and "checked" in asked
    refused = html_of(ada.post("/p/kvd/settings/secret", entered | {"given": "short&"}, follow=True))
    assert "Not changed" in refused and 'value="short&amp;"' in refused and 'value="3"' in refused
    assert "made-by-the-forge" not in html_of(ada.get("/p/kvd/settings/"))
    asked = html_of(ada.post("/p/kvd/settings/secret", {"days": "3", "preview": "yes"}, follow=True))
    assert "Nothing was done" in asked and "the former one is valid for 3 days" in asked
    assert "new secret of the webhook" not in asked and not AuditEntry.objects.exists()
    assert Project.objects.get().hook_secret.reveal() == kvd.project.hook_secret.reveal()
    assert "confirm" in html_of(ada.post("/p/kvd/settings/secret", {"days": "3"}, follow=True))
    page = html_of(ada.post("/p/kvd/settings/secret", {"sure": "yes", "days": "3"}))
    assert "are accepted until" in page and "The former secret is valid until" in page
    old = kvd.project.hook_secret.reveal()
    builders.call_hook(Project.objects.get(), PUSH, secret=old)
    assert "former secret" in html_of(ada.get(PAGE))
    assert "are refused" in html_of(ada.post("/p/kvd/settings/end-former-secret", follow=True))
    assert "The former secret is valid" not in html_of(ada.get("/p/kvd/settings/"))
    with pytest.raises(BadSignature):
        builders.call_hook(Project.objects.get(), PUSH | {"again": 1}, id="d2", secret=old)


def test_a_secret_of_the_forge_is_entered_and_not_shown(ada: Client, kvd: World) -> None:
    given = "made-by-the-forge-1234"
    page = html_of(ada.post("/p/kvd/settings/secret", {"sure": "yes", "days": "0", "given": given}, follow=True))
    assert "has a new secret; the former one is refused" in page and given not in page
    assert Project.objects.get().hook_secret.reveal() == given


def test_untracking_ends_both_secrets(ada: Client, kvd: World) -> None:
    hooks.rotate(kvd.project)
    ada.post("/p/kvd/settings/untrack/", {"slug": "kvd"})
    after = Project.objects.get()
    assert not after.former_hook_secret and after.hook_id != kvd.project.hook_id


def test_a_new_name_is_told_until_somebody_has_looked(ada: Client, kvd: World) -> None:
    builders.call_hook(kvd.project, {"action": "renamed", "repository": {"full_name": HOSTILE}}, "repository")
    for address in ("/p/kvd/", "/p/kvd/settings/"):
        page = html_of(ada.get(address))
        assert "is now called <strong>&lt;script&gt;" in page and kvd.project.url in page
    assert "Change the address" not in html_of(Client().get("/p/kvd/"))
    assert "keeps its address" in html_of(ada.post("/p/kvd/settings/keep-address", follow=True))
    assert "is now called" not in html_of(ada.get("/p/kvd/"))


def test_a_new_address_answers_the_question_of_the_name(ada: Client, kvd: World, tmp_path: Any) -> None:
    Project.objects.update(renamed_to="kv/new")
    moved = kvd.repository.path.rename(tmp_path / "moved")
    fields = {"name": "kvd", "url": str(moved), "suite": "tiny", "default_branch": "main", **POLICY}
    assert "Saved" in html_of(ada.post("/p/kvd/settings/", fields, follow=True))
    assert Project.objects.get().renamed_to == ""


def test_counts_of_refused_calls_say_where_they_end(ada: Client, kvd: World) -> None:
    Refusal.objects.create(project=kvd.project, hour=Now(), reason="time", count=hooks.COUNTED, event=HOSTILE[:40])
    page = html_of(ada.get(PAGE))
    assert "1000 or more" in page and "signed too long ago" in page and "<script>alert" not in page
