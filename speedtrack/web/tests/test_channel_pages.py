"""The pages of a project's channels."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.notices.models import Channel
from speedtrack.notices.tests.receivers import Receiver, serving
from speedtrack.web.tests.world import HOSTILE, World, html_of

TOKEN = "glpat-0123456789abcdef"


@pytest.fixture
def ada(kvd: World, client: Client) -> Client:
    client.force_login(User.objects.create_superuser("ada"))
    return client


def address(kvd: World, rest: str = "") -> str:
    return f"/p/{kvd.project.slug}/channels/{rest}"


def add(client: Client, kvd: World, kind: str, **fields: str) -> Any:
    return client.post(address(kvd, f"add/{kind}/"), {"name": "ours", **fields}, follow=True)


def act(client: Client, kvd: World, verb: str) -> str:
    return html_of(client.post(address(kvd, f"{Channel.objects.get().pk}/{verb}"), follow=True))


def test_only_who_is_logged_in_sees_or_changes_channels(kvd: World, client: Client) -> None:
    for page in ("", "add/webhook/", "1/"):
        assert client.get(address(kvd, page)).status_code == 302
    assert client.post(address(kvd, "1/delete")).status_code == 302
    assert "channels" not in html_of(client.get(f"/p/{kvd.project.slug}/"))


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("webhook", {"url": "https://ci.example.org/hooks/PATH", "secret": TOKEN}),
        ("slack", {"url": "https://hooks.slack.com/services/PATH"}),
        ("teams", {"url": "https://x.logic.azure.com/workflows/PATH?sig=PATH"}),
        ("matrix", {"url": "https://matrix.example.org", "place": "!room:example.org", "secret": TOKEN}),
        ("github", {"url": "https://api.github.com", "place": "ann/kvd", "secret": TOKEN}),
        ("gitlab", {"url": "https://gitlab.com", "place": "group/sub/kvd", "secret": TOKEN}),
        ("gitea", {"url": "https://codeberg.org", "place": "ann/kvd", "secret": TOKEN}),
    ],
)
def test_a_channel_of_each_kind_is_added_and_its_secrets_are_never_shown_again(
    ada: Client, kvd: World, kind: str, fields: dict[str, str]
) -> None:
    assert ada.get(address(kvd, f"add/{kind}/")).status_code == 200
    page = html_of(add(ada, kvd, kind, **fields))
    made = Channel.objects.get()
    assert (made.kind, made.url.reveal()) == (kind, fields["url"])
    assert made.secret.reveal() == fields.get("secret", "")
    for text in (page, html_of(ada.get(address(kvd, f"{made.pk}/")))):
        assert "ours" in text and TOKEN not in text and "PATH" not in text


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("webhook", {"url": "ftp://x.example.org/", "secret": TOKEN}, "https://"),
        ("webhook", {"url": "https://x.example.org/", "secret": "short"}, "16 characters"),
        ("webhook", {"url": "https://u:p@x.example.org/", "secret": TOKEN}, "password"),
        ("webhook", {"url": "", "secret": TOKEN}, "required"),
        ("matrix", {"url": "https://m.example.org", "place": "#alias:example.org", "secret": TOKEN}, "valid value"),
        ("github", {"url": "https://api.github.com", "place": "../../x", "secret": TOKEN}, "valid value"),
        ("github", {"url": "https://api.github.com", "place": "ann/kvd"}, "required"),
    ],
)
def test_what_makes_no_channel_is_said_at_its_field(
    ada: Client, kvd: World, kind: str, fields: dict[str, str], words: str
) -> None:
    assert words in html_of(add(ada, kvd, kind, **fields))
    assert not Channel.objects.exists()


def test_a_name_is_given_once(ada: Client, kvd: World) -> None:
    for _ in range(2):
        page = html_of(add(ada, kvd, "slack", url="https://hooks.slack.com/services/x"))
    assert "has this name" in page and Channel.objects.count() == 1


def test_a_change_keeps_what_is_left_empty(ada: Client, kvd: World) -> None:
    add(ada, kvd, "gitlab", url="https://gitlab.com", place="a/b", secret=TOKEN)
    ada.post(address(kvd, f"{Channel.objects.get().pk}/"), {"name": "renamed", "place": "a/c"})
    made = Channel.objects.get()
    assert (made.name, made.place, made.secret.reveal(), made.url.reveal()) == (
        "renamed",
        "a/c",
        TOKEN,
        "https://gitlab.com",
    )


def test_a_webhook_of_before_is_turned_from_the_former_document(ada: Client, kvd: World) -> None:
    assert "former document" not in html_of(ada.get(address(kvd, "add/webhook/")))
    add(ada, kvd, "webhook", url="https://ci.example.org/hooks/a", secret=TOKEN)
    assert not Channel.objects.get().former_document
    Channel.objects.update(former_document=True)
    page = address(kvd, f"{Channel.objects.get().pk}/")
    assert "Send the former document" in html_of(ada.get(page))
    ada.post(page, {"name": "ours", "former_document": "on"})
    assert Channel.objects.get().former_document
    ada.post(page, {"name": "ours"})
    assert not Channel.objects.get().former_document


def test_a_token_is_not_sent_to_another_server_than_it_was_entered_for(ada: Client, kvd: World) -> None:
    add(ada, kvd, "gitlab", url="https://gitlab.com", place="a/b", secret=TOKEN)
    change = {"name": "ours", "place": "a/b", "url": "https://evil.example.org"}
    page = html_of(ada.post(address(kvd, f"{Channel.objects.get().pk}/"), change))
    assert "entered for another server" in page
    assert Channel.objects.get().url.reveal() == "https://gitlab.com"


def test_a_signing_secret_is_replaced_in_two_steps(ada: Client, kvd: World) -> None:
    add(ada, kvd, "webhook", url="https://ci.example.org/", secret=TOKEN)
    ada.post(address(kvd, f"{Channel.objects.get().pk}/"), {"name": "ours", "secret": "another secret of ours"})
    assert Channel.objects.get().former_secret.reveal() == TOKEN
    act(ada, kvd, "forget")
    made = Channel.objects.get()
    assert not made.former_secret and made.secret.reveal() == "another secret of ours"


def test_a_channel_is_paused_resumed_and_deleted(ada: Client, kvd: World) -> None:
    add(ada, kvd, "slack", url="https://hooks.slack.com/services/x")
    assert "paused by ada" in act(ada, kvd, "pause")
    assert "is resumed" in act(ada, kvd, "resume")
    assert Channel.objects.get().paused_at is None
    assert ada.get(address(kvd, f"{Channel.objects.get().pk}/delete")).status_code == 405
    assert ada.post(address(kvd, f"{Channel.objects.get().pk}/explode")).status_code == 404
    act(ada, kvd, "delete")
    assert not Channel.objects.exists()


def test_a_channel_of_another_project_is_not_found(ada: Client, kvd: World) -> None:
    add(ada, kvd, "slack", url="https://hooks.slack.com/services/x")
    assert ada.post(f"/p/other/channels/{Channel.objects.get().pk}/delete").status_code == 404


@pytest.mark.parametrize("kind", ["webhook", "slack", "teams", "matrix", "github", "gitlab", "gitea"])
def test_a_test_send_shows_its_answer(ada: Client, kvd: World, settings: Any, kind: str) -> None:
    place = {"matrix": "!room:example.org"}.get(kind, "ann/kvd")
    body = b'{"full_name": "ann/kvd"}'
    with serving(Receiver(lambda request: (200, {}, body)), settings) as receiver:
        add(ada, kvd, kind, url=receiver.url, place=place, secret=TOKEN)
        page = act(ada, kvd, "test")
    assert ("which can read ann/kvd" if kind in Channel.FORGES else "answered 200") in page
    assert len(receiver.requests) == 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://nobody.invalid/", "nobody.invalid is not resolved"),
        ("https://169.254.169.254/latest/", "never"),
        ("https://10.0.0.1/", "CHANNEL_NETWORKS"),
        ("https://example.org:22/", "CHANNEL_PORTS"),
    ],
)
def test_a_test_send_that_fails_says_why_in_words(ada: Client, kvd: World, url: str, words: str) -> None:
    add(ada, kvd, "webhook", url=url, secret=TOKEN)
    page = act(ada, kvd, "test")
    assert words in page and TOKEN not in page


@pytest.mark.parametrize(
    ("status", "words"), [(401, "enter a new one"), (404, "nothing at this address"), (302, "redirect")]
)
def test_a_test_send_that_is_refused_says_what_to_do(
    ada: Client, kvd: World, settings: Any, status: int, words: str
) -> None:
    with serving(Receiver(lambda request: (status, {}, b"<b>hostile</b>")), settings) as receiver:
        add(ada, kvd, "webhook", url=receiver.url, secret=TOKEN)
        page = act(ada, kvd, "test")
    assert str(status) in page and words in page
    assert "hostile" not in page


def test_hostile_names_stay_text(ada: Client, kvd: World) -> None:
    add(ada, kvd, "slack", url="https://hooks.slack.com/services/x", name=HOSTILE)
    Channel.objects.update(error=HOSTILE, failures=1, tried_at="2026-01-01T00:00:00Z")
    page = html_of(ada.get(address(kvd)))
    assert "<script>alert" not in page and "&lt;script&gt;" in page


def test_a_lost_key_is_said_and_breaks_no_page(ada: Client, kvd: World, settings: Any) -> None:
    add(ada, kvd, "webhook", url="https://ci.example.org/", secret=TOKEN)
    Channel.objects.update(failures=0)
    user = User.objects.get()
    settings.SECRET_KEY = "another one"
    ada.force_login(user)
    assert ada.get(address(kvd)).status_code == 200
    assert "SPEEDTRACK_ENCRYPTION_KEYS" in act(ada, kvd, "test")
