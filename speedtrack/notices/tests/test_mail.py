import email
import email.policy
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F
from django.db.models.functions import Now
from django.test import Client

from speedtrack.accounts.models import PersonToken, Scope
from speedtrack.accounts.tokens import issue
from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.alerts.tests.conftest import make_world
from speedtrack.notices import sending
from speedtrack.notices.mail import subject_of
from speedtrack.notices.models import Outbox, Subscriber
from speedtrack.notices.telling import tell_subscribers
from speedtrack.notices.tests.history import History
from speedtrack.notices.tests.servers import Mailbox, serving
from speedtrack.projects.models import Project
from speedtrack.runs.models import MachineEvent
from speedtrack.tasks.notify import notify
from speedtrack.tests import builders, worlds


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    with serving(Mailbox(), settings) as mailbox:
        yield mailbox


@worlds.shared
def announced(settings: Any, directory: Path) -> Alert:
    """An alert of which two subscribers are to be told."""
    world = make_world(settings, directory)
    world.shas.append(world.repository.commit("Make reads <b>safe</b>\nSubject: forged"))
    world.factors = {world.shas[12]: 1.4}
    builders.track(world.repository, emails=["dev@example.org", "ops@example.org"])
    world.until_quiet()
    return Alert.objects.get()


@pytest.fixture
def alert(announced: Alert) -> Alert:
    return announced


def test_each_subscriber_gets_one_mail_over_smtp(alert: Alert, mailbox: Mailbox) -> None:
    assert sending.send_due() == 2
    assert sending.send_due() == 0
    assert sorted(m["To"] for m in mailbox.messages) == ["dev@example.org", "ops@example.org"]


def test_the_mail_names_the_commit_and_the_change_as_text_and_as_html(alert: Alert, mailbox: Mailbox) -> None:
    sending.send_due()
    message = mailbox.messages[0]
    text, html = (message.get_body((kind,)).get_content() for kind in ("plain", "html"))  # type: ignore[union-attr]
    for body in (text, html):
        assert alert.commit.short in body
        assert "get-p1" in body
        assert f"/alerts/{alert.pk}/" in body
    assert message["Subject"].startswith("[repository] slower +")
    assert message["Auto-Submitted"] == "auto-generated"


def test_hostile_commit_text_stays_text(alert: Alert, mailbox: Mailbox) -> None:
    sending.send_due()
    message = mailbox.messages[0]
    html = message.get_body(("html",)).get_content()  # type: ignore[union-attr]
    assert "<b>safe</b>" not in html
    assert "&lt;b&gt;safe&lt;/b&gt;" in html
    assert len(message.get_all("Subject")) == 1


def test_announcing_twice_is_one_mail_each(alert: Alert) -> None:
    AlertEvent.objects.filter(kind="raised").update(untold=True)
    tell_subscribers()
    assert Outbox.objects.count() == 2


def test_mail_as_files_is_one_file_per_message(alert: Alert, settings: Any, tmp_path: Any) -> None:
    settings.EMAIL_FILE_PATH = str(tmp_path / "mail")
    settings.EMAIL_BACKEND = "speedtrack.notices.mailfiles.MailFileBackend"
    sending.send_due()
    files = sorted((tmp_path / "mail").glob("*.eml"))
    assert len(files) == 2
    message = email.message_from_bytes(files[0].read_bytes(), policy=email.policy.default)
    assert alert.commit.short in message["Subject"]


def test_a_mail_that_cannot_be_made_holds_back_no_other(alert: Alert, mailbox: Mailbox) -> None:
    Outbox.objects.filter(recipient="dev@example.org").update(recipient="bad\nBcc: x@example.org")
    assert sending.send_due() == 1
    assert [m["To"] for m in mailbox.messages] == ["ops@example.org"]
    bad = Outbox.objects.get(recipient__startswith="bad")
    assert bad.given_up_at is not None
    assert "Invalid address" in bad.error


def test_control_characters_of_a_commit_stay_out_of_the_subject(alert: Alert) -> None:
    alert.commit.subject = "a\x1b[31mred\x07\x7f"
    assert all(character.isprintable() for character in subject_of(alert))


@pytest.mark.parametrize("kind", ["quarantined", "lifted", "blind"])
def test_operators_are_told_of_a_machine_once(db: None, mailbox: Mailbox, settings: Any, kind: str) -> None:
    settings.OPERATORS = ["ops@example.org", "night@example.org"]
    machine = builders.machine("m1")
    MachineEvent.objects.create(machine=machine, kind=kind, why="its canary moved", untold=True)
    MachineEvent.objects.create(machine=machine, kind="canary", why="kvd from now on")
    for _ in range(2):
        notify()
    assert sorted(message["To"] for message in mailbox.messages) == ["night@example.org", "ops@example.org"]
    first = mailbox.messages[0]
    assert "m1" in first["Subject"] and first["Message-ID"]
    text = first.get_content()
    assert "its canary moved" in text and f"{settings.URL}/machines/m1" in text


def test_without_operators_the_log_tells(db: None, settings: Any, caplog: pytest.LogCaptureFixture) -> None:
    settings.OPERATORS = []
    MachineEvent.objects.create(machine=builders.machine("m1"), kind="blind", why="no such file", untold=True)
    notify()
    assert "no such file (no mail: OPERATORS names nobody)" in caplog.text
    assert not Outbox.objects.exists() and not MachineEvent.objects.filter(untold=True).exists()


def test_a_person_is_told_once_that_a_token_expires_soon(db: None, mailbox: Mailbox, settings: Any) -> None:
    ada, away = (User.objects.create_user(name, f"{name}@example.org") for name in ("ada", "away"))
    User.objects.filter(pk=away.pk).update(is_active=False)
    project = Project.objects.create(slug="redis", name="Redis", url="/r", default_branch="main", suite="tiny")
    for user, name, days, passed in (
        (ada, "next month", 90, 60),
        (ada, "in an hour\nor so", 30, 29.96),
        (ada, "made for a week", 7, 1),
        (ada, "over", 30, 31),
        (ada, "for ever", None, 0),
        (ada, "revoked", 30, 29),
        (away, "of nobody", 30, 29),
        (User.objects.create_user("mute"), "without an address", 30, 29),
    ):
        token, _ = issue(user, name, [Scope.READ, Scope.RESULTS], days, project)
        past = timedelta(days=passed)
        PersonToken.objects.filter(pk=token.pk).update(created=F("created") - past, expires_at=F("expires_at") - past)
    PersonToken.objects.filter(name="revoked").update(revoked_at=Now())
    for _ in range(2):
        notify()
    (message,) = mailbox.messages
    assert message["To"] == "ada@example.org"
    assert re.fullmatch(r"SpeedTrack: your token in an hour or so expires on \d{4}-\d\d-\d\d", message["Subject"])
    text = message.get_content()
    assert f"{settings.URL}/accounts/tokens/" in text and f"in {project.slug} only" in text and "never" in text
    assert "expires on 20" in text and "read" in text and "results" in text


def test_a_mail_tells_of_an_alert_or_of_a_machine(db: None) -> None:
    with pytest.raises(IntegrityError, match="a_message_tells_of_one_thing"), transaction.atomic():
        Outbox.objects.create(recipient="ops@example.org", event="blind")
    event = MachineEvent.objects.create(machine=builders.machine("m1"), kind="blind", why="no such file")
    Outbox.objects.create(recipient="ops@example.org", event="blind", machine_event=event)
    with pytest.raises(IntegrityError, match="a_mail_once_per_recipient_machine_event"), transaction.atomic():
        Outbox.objects.create(recipient="ops@example.org", event="again", machine_event=event)


def test_the_author_of_a_gain_is_praised_over_smtp_until_unsubscribing(
    db: None, client: Client, mailbox: Mailbox
) -> None:
    history = History()
    Subscriber.objects.create(email="ada@example.org")
    history.alert(ratio=0.9)
    Alert.objects.update(improvement=True)
    tell_subscribers()
    assert sending.send_due() == 1
    [message] = mailbox.messages
    assert message["To"] == "ada@example.org" and message["Subject"].startswith("[redis] faster -10.0%: get-p1")
    for kind in ("plain", "html"):
        part = message.get_body((kind,))
        assert part and "Your commit did this: well done!" in part.get_content()
    token = message["List-Unsubscribe"].strip("<>").partition("/unsubscribe/")[2]
    assert client.post(f"/unsubscribe/{token}").status_code == 200
    history.alert(ratio=0.8)
    tell_subscribers()
    assert (sending.send_due(), len(mailbox.messages)) == (0, 1)
