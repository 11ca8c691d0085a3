"""The page where people choose their notifications, and the links that end them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, time
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from runners.tests.ports import free_port
from speedtrack.notices import mail, subscribing
from speedtrack.notices.models import Outbox, Subscriber, Subscription
from speedtrack.notices.telling import tell_subscribers
from speedtrack.notices.tests.history import History, subscribed
from speedtrack.notices.tests.servers import Mailbox, serving, use

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
PAGE = "/settings/notifications/"
PERSON = {
    "act": "person",
    "own_commits": "on",
    "time_zone": "Europe/Berlin",
    "quiet_from": "22:00",
    "quiet_until": "07:30",
    "digest_hour": "9",
    "most_per_day": "5",
}
ASKED = {
    "act": "subscription",
    "project": "redis",
    "branches": " unstable   8.* ",
    "benchmarks": "",
    "smallest_percent": "2.5",
    "direction": "both",
    "pace": "daily",
}


@pytest.fixture
def ada(client: Client, db: None) -> User:
    user = User.objects.create_superuser("ada", "ada@example.org")
    client.force_login(user)
    return user


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    with serving(Mailbox(), settings) as mailbox:
        yield mailbox


def said(client: Client, given: dict[str, str]) -> str:
    """The messages of the page after a form was sent."""
    answer = client.post(PAGE, given, follow=True)
    found = re.search(r'<ul class="messages".*?</ul>', answer.content.decode(), re.S)
    return " ".join(re.sub(r"<[^>]+>", "", found[0]).split()) if found else ""


def test_the_page_needs_a_login(client: Client, db: None) -> None:
    assert client.get(PAGE)["Location"].startswith("/login/")


def test_a_person_says_when(client: Client, ada: User) -> None:
    assert said(client, PERSON) == "Saved."
    person = Subscriber.objects.get(user=ada)
    assert (person.quiet_from, person.quiet_until, person.time_zone) == (time(22), time(7, 30), "Europe/Berlin")
    assert (person.own_commits, person.follow_ups, person.digest_hour, person.most_per_day) == (True, False, 9, 5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"time_zone": "Mars/Olympus"}, "There is no time zone Mars/Olympus"),
        ({"time_zone": "../../etc/passwd"}, "There is no time zone"),
        ({"quiet_until": ""}, "give both, or neither"),
        ({"quiet_until": "22:00"}, "give both, or neither"),
        ({"digest_hour": "24"}, "a number from 0 to 23"),
        ({"most_per_day": "0"}, "at least one mail a day"),
    ],
)
def test_a_wrong_hour_is_explained(client: Client, ada: User, change: dict[str, str], words: str) -> None:
    assert words in said(client, PERSON | change)
    assert Subscriber.objects.get(user=ada).time_zone == "UTC"


def test_subscriptions_are_added_changed_and_removed(client: Client, ada: User) -> None:
    History()
    assert said(client, ASKED) == "Saved."
    [one] = Subscription.objects.all()
    assert (one.branches, one.benchmarks, one.pace) == ("unstable 8.*", "*", "daily")
    assert "The same subscription exists already" in said(client, ASKED)
    assert "0 to 1000 percent" in said(client, ASKED | {"smallest_percent": "-1", "branches": "x"})
    assert "project: " in said(client, ASKED | {"project": "nowhere"})
    assert said(client, ASKED | {"number": str(one.pk), "project": "", "pace": "now"}) == "Saved."
    one.refresh_from_db()
    assert (one.project, one.pace, one.skip_same_instructions) == (None, "now", False)
    assert said(client, ASKED | {"number": str(one.pk), "skip_same_instructions": "on"}) == "Saved."
    assert "not with the same instructions" in " ".join(client.get(PAGE).content.decode().split())
    assert said(client, {"act": "remove", "number": str(one.pk)}) == "Removed."
    assert not Subscription.objects.exists()


def test_nobody_touches_what_is_anothers(client: Client, ada: User) -> None:
    subscribed("bob@example.org")
    number = str(Subscription.objects.get().pk)
    for act in (ASKED | {"project": ""}, {"act": "remove"}):
        assert "does not exist any more" in said(client, act | {"number": number})
    assert Subscription.objects.get().branches == "*"


def test_a_test_mail_tells_what_the_server_says(client: Client, ada: User, mailbox: Mailbox) -> None:
    assert "has accepted the test mail" in said(client, {"act": "trial"})
    assert [message["To"] for message in mailbox.messages] == ["ada@example.org"]
    mailbox.refused["ada@example.org"] = "550 no such user"
    assert "550 no such user: check the address" in said(client, {"act": "trial"})


def test_a_test_mail_without_a_server(client: Client, ada: User, settings: Any) -> None:
    use(settings, free_port())
    assert "refused" in said(client, {"act": "trial"})


def test_an_account_without_address_is_told_what_to_do(client: Client, ada: User) -> None:
    User.objects.update(email="")
    assert "an operator gives it one" in client.get(PAGE).content.decode()


def test_an_account_takes_over_what_its_address_was_subscribed_to(client: Client, ada: User) -> None:
    subscribed("Ada@example.org", History().project)
    assert "redis" in client.get(PAGE).content.decode()
    assert Subscriber.objects.get().user == ada


@pytest.fixture
def link(db: None) -> str:
    history = History()
    subscribed("a@example.org", history.project)
    subscribed("a@example.org", benchmarks="set-*")
    history.alert()
    tell_subscribers(NOON)
    headers = mail.message_of(Outbox.objects.get()).extra_headers
    return headers["List-Unsubscribe"].strip("<>").partition("8000")[2] or "/"


def test_one_click_unsubscribes_without_login_or_cookie(link: str) -> None:
    program = Client(enforce_csrf_checks=True)
    for method in (program.get, program.head):
        assert method(link).status_code == 200
    assert Subscription.objects.count() == 2
    body = "List-Unsubscribe=One-Click"
    answer = program.post(link, body, content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 200 and b"no longer gets these mails" in answer.content
    assert [one.benchmarks for one in Subscription.objects.all()] == ["set-*"]
    assert program.post(link, body, content_type="application/x-www-form-urlencoded").status_code == 200
    assert Subscription.objects.count() == 1


def test_a_forged_link_does_nothing(link: str, client: Client) -> None:
    forged = link.replace("/unsubscribe/W", "/unsubscribe/X")
    assert client.post(forged).status_code == 404
    assert client.get("/notifications/forged/").status_code == 404
    assert Subscription.objects.count() == 2


def test_an_address_without_account_is_managed_by_its_link_until_it_has_one(link: str, client: Client) -> None:
    subscriber = Subscriber.objects.get()
    address = f"/notifications/{subscribing.manage_token(subscriber)}/"
    answer = client.post(address, PERSON | {"most_per_day": "7"}, follow=True)
    assert "Saved." in answer.content.decode() and "Send a test mail" not in answer.content.decode()
    assert client.post(address, {"act": "trial"}).status_code == 404
    subscriber.refresh_from_db()
    assert subscriber.most_per_day == 7
    Subscriber.objects.update(user=User.objects.create_superuser("ada"))
    assert client.get(address).status_code == 404
