"""The outbox against real mail servers: good ones, and ones that refuse, hang or lie."""

import hmac
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from runners.tests.ports import free_port
from speedtrack.ground.postgres import pgsession
from speedtrack.notices import sending
from speedtrack.notices.models import MAIL_LANE, Outbox
from speedtrack.notices.smtp import Conversation, SmtpBackend, Utf8
from speedtrack.notices.tests.servers import Mailbox, Misbehaving, certificate, knows, serving, use
from speedtrack.runs.models import MachineEvent
from speedtrack.tests import builders


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    with serving(Mailbox(), settings) as mailbox:
        yield mailbox


@pytest.fixture
def rows(db: None) -> list[Outbox]:
    return waiting("a@example.org", "b@example.org", "c@example.org")


def waiting(*recipients: str) -> list[Outbox]:
    """Mails in the outbox; of a machine, for those are made fast."""
    machine = builders.machine("m1")
    event = MachineEvent.objects.create(machine=machine, kind="blind", why="no such file")
    return [Outbox.objects.create(recipient=r, machine_event=event, event="blind") for r in recipients]


def make_due() -> None:
    Outbox.objects.update(not_before=Now())


def recipients(mailbox: Mailbox) -> list[str]:
    return [message["To"] for message in mailbox.messages]


def test_one_connection_carries_a_batch(rows: list[Outbox], mailbox: Mailbox) -> None:
    assert sending.send_due() == 3
    assert (sending.send_due(), mailbox.connections) == (0, 1)
    assert recipients(mailbox) == ["a@example.org", "b@example.org", "c@example.org"]


def test_starttls_and_login(rows: list[Outbox], settings: Any, tmp_path: Path) -> None:
    context, settings.EMAIL_CA_FILE = certificate(tmp_path)
    settings.EMAIL_USE_TLS, settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = True, "tracker", "s3cret"
    options = {"tls_context": context, "require_starttls": True, "auth_required": True}
    with serving(Mailbox(), settings, authenticator=knows(b"tracker", b"s3cret"), **options) as mailbox:
        assert sending.send_due() == 3
        assert mailbox.encrypted == [True, True, True]


def test_tls_from_the_first_byte(rows: list[Outbox], settings: Any, tmp_path: Path) -> None:
    context, settings.EMAIL_CA_FILE = certificate(tmp_path)
    settings.EMAIL_USE_SSL = True
    with serving(Mailbox(), settings, ssl_context=context) as mailbox:
        assert sending.send_due() == 3
        assert mailbox.encrypted == [True, True, True]


@pytest.mark.parametrize("kind", ["unknown authority", "another name"])
def test_a_certificate_that_cannot_be_trusted_gets_no_mail(
    rows: list[Outbox], settings: Any, tmp_path: Path, kind: str
) -> None:
    context, authority = certificate(tmp_path, "127.0.0.1" if kind == "unknown authority" else "192.0.2.1")
    settings.EMAIL_CA_FILE = "" if kind == "unknown authority" else authority
    settings.EMAIL_USE_TLS = True
    with serving(Mailbox(), settings, tls_context=context) as mailbox:
        assert sending.send_due() == 0
        assert mailbox.messages == []
    rows[0].refresh_from_db()
    assert "its certificate is not trusted" in rows[0].error and "EMAIL_CA_FILE" in rows[0].error
    assert not Outbox.objects.exclude(given_up_at=None).exists()


def test_a_server_without_starttls_is_told_nothing(rows: list[Outbox], mailbox: Mailbox, settings: Any) -> None:
    settings.EMAIL_USE_TLS = True
    assert sending.send_due() == 0 and mailbox.messages == []
    rows[0].refresh_from_db()
    assert "STARTTLS" in rows[0].error


def test_a_refused_login_waits_for_the_operator(rows: list[Outbox], settings: Any, tmp_path: Path) -> None:
    context, settings.EMAIL_CA_FILE = certificate(tmp_path)
    settings.EMAIL_USE_TLS, settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = True, "tracker", "mistyped"
    options = {"tls_context": context, "authenticator": knows(b"tracker", b"s3cret"), "auth_required": True}
    with serving(Mailbox(), settings, **options) as mailbox:
        assert sending.send_due() == 0
        rows[0].refresh_from_db()
        assert "check EMAIL_HOST_USER" in rows[0].error and "mistyped" not in rows[0].error
        settings.EMAIL_HOST_PASSWORD = "s3cret"
        make_due()
        assert sending.send_due() == 3 == len(mailbox.messages)


@pytest.mark.parametrize("mechanism", ["PLAIN", "LOGIN"])
def test_a_login_may_have_any_characters(rows: list[Outbox], settings: Any, tmp_path: Path, mechanism: str) -> None:
    """RFC 4616: what is sent is UTF-8."""
    context, settings.EMAIL_CA_FILE = certificate(tmp_path)
    name, password = "trücker", "pässwörd€ 密码"
    settings.EMAIL_USE_TLS, settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = True, name, password
    options = {
        "tls_context": context,
        "auth_required": True,
        "auth_exclude_mechanism": {"PLAIN", "LOGIN"} - {mechanism},
    }
    with serving(Mailbox(), settings, authenticator=knows(name.encode(), password.encode()), **options) as mailbox:
        assert sending.send_due() == 3 == len(mailbox.messages)
    make_due()
    Outbox.objects.update(sent_at=None)
    with serving(Mailbox(), settings, authenticator=knows(b"another", b"one"), **options):
        assert sending.send_due() == 0
    rows[0].refresh_from_db()
    assert "sent as UTF-8" in rows[0].error and "codec" not in rows[0].error


def test_the_challenge_of_a_server_is_answered_in_utf_8() -> None:
    """CRAM-MD5 (RFC 2195), which the mail server of these tests does not have."""
    conversation = Conversation()
    conversation.user, conversation.password = Utf8("trücker"), Utf8("pässwörd")
    answer = conversation.auth_cram_md5(b"<1@example.org>")
    assert answer == f"trücker {hmac.new('pässwörd'.encode(), b'<1@example.org>', 'md5').hexdigest()}"


def test_a_mail_that_cannot_be_written_is_given_up_alone(db: None, mailbox: Mailbox, settings: Any) -> None:
    rows = waiting(f"a@{'x' * 64}.example.org", "a@example.org\nBcc: b@example.org", "c@example.org")
    assert sending.send_due() == 1 and recipients(mailbox) == ["c@example.org"]
    for row in rows[:2]:
        row.refresh_from_db()
        assert row.given_up_at and row.error.startswith("this mail cannot be written ("), row.error
        assert "correct the address" in row.error and "defect" not in row.error and "\n" not in row.error


def test_a_recipient_refused_for_good_is_given_up_and_the_others_get_theirs(
    rows: list[Outbox], mailbox: Mailbox
) -> None:
    mailbox.refused["b@example.org"] = "550 5.1.1 no such user"
    assert sending.send_due() == 2
    assert recipients(mailbox) == ["a@example.org", "c@example.org"]
    rows[1].refresh_from_db()
    assert rows[1].given_up_at is not None and rows[1].attempts == 1
    assert "550 5.1.1 no such user: check the address" in rows[1].error


def test_a_recipient_refused_for_now_is_tried_again_with_the_same_id(rows: list[Outbox], mailbox: Mailbox) -> None:
    mailbox.refused["a@example.org"] = "451 greylisted, come back later"
    assert sending.send_due() == 2
    rows[0].refresh_from_db()
    assert (rows[0].given_up_at, rows[0].sent_at, rows[0].attempts) == (None, None, 1)
    assert "come back later" in rows[0].error and not Outbox.objects.due().exists()
    mailbox.refused.clear()
    make_due()
    assert sending.send_due() == 1
    assert mailbox.messages[-1]["Message-ID"] == rows[0].message_id()


@pytest.mark.parametrize(("answer", "is_given_up"), [("451 try later", False), ("550 this is spam", True)])
def test_a_refused_message(rows: list[Outbox], mailbox: Mailbox, answer: str, is_given_up: bool) -> None:
    mailbox.refusal = answer
    assert sending.send_due() == 0
    for row in Outbox.objects.all():
        assert (row.given_up_at is not None) == is_given_up and answer in row.error


def test_pauses_double_and_end(rows: list[Outbox], mailbox: Mailbox) -> None:
    mailbox.refusal = "451 come back later"
    pauses = []
    for _ in range(sending.MAX_ATTEMPTS):
        begun = timezone.now()
        sending.send_due()
        rows[0].refresh_from_db()
        pauses.append(round((rows[0].not_before - begun).total_seconds() / 30))
        make_due()
    assert pauses[:4] == [1, 2, 4, 8]
    assert rows[0].given_up_at is not None and "the last" in rows[0].error
    assert sending.send_due() == 0


def test_a_server_that_is_away_costs_one_attempt_and_lets_all_wait(rows: list[Outbox], settings: Any) -> None:
    use(settings, free_port())
    assert sending.send_due() == 0
    assert [row.attempts for row in Outbox.objects.order_by("id")] == [1, 0, 0]
    assert not Outbox.objects.due().exists()
    assert Outbox.objects.filter(sent_at=None, given_up_at=None).count() == 3


@pytest.mark.parametrize("manner", ["silent", "dripping"])
def test_a_server_that_never_gets_to_the_point_is_left(rows: list[Outbox], settings: Any, manner: str) -> None:
    settings.EMAIL_TIMEOUT = 1
    with Misbehaving(manner) as server:
        use(settings, server.port)
        assert sending.send_due() == 0
    rows[0].refresh_from_db()
    assert "no answer within EMAIL_TIMEOUT (1 s)" in rows[0].error
    assert not Outbox.objects.due().exists()


def test_a_socket_that_times_out_first_is_told_the_same(
    rows: list[Outbox], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.EMAIL_TIMEOUT = 1
    monkeypatch.setattr(SmtpBackend, "cut", lambda backend: None)
    with Misbehaving("silent") as server:
        use(settings, server.port)
        assert sending.send_due() == 0
    rows[0].refresh_from_db()
    assert "no answer within EMAIL_TIMEOUT (1 s)" in rows[0].error


@pytest.mark.parametrize("manner", ["hanging", "dropping"])
def test_a_message_that_was_taken_without_an_answer_is_repeated_once(db: None, settings: Any, manner: str) -> None:
    settings.EMAIL_TIMEOUT = 3 if manner == "hanging" else 60
    (row,) = waiting("a@example.org")
    with Misbehaving(manner) as server:
        use(settings, server.port)
        for _ in range(4):
            sending.send_due()
            make_due()
        assert len(server.taken) == 2
        assert all(f"Message-ID: {row.message_id()}".encode() in taken for taken in server.taken)
    row.refresh_from_db()
    assert row.given_up_at is not None and "may have arrived" in row.error


@pytest.mark.django_db(transaction=True)
def test_while_a_server_hangs_no_row_is_locked_and_its_lane_alone_waits(settings: Any) -> None:
    rows = waiting("a@example.org", "b@example.org")
    settings.EMAIL_TIMEOUT = 4
    with Misbehaving("hanging") as server:
        use(settings, server.port)
        hung = threading.Thread(target=lambda: (sending.send_due(), connection.close()))
        hung.start()
        while not server.taken:
            hung.join(0.01)
            assert hung.is_alive()
        holding = partial(pgsession.holding, sending.LANE_LOCK)
        with holding(MAIL_LANE) as is_mine, holding(1) as is_another:
            assert (is_mine, is_another) == (False, True)
        assert sending.send_due() == 0 and len(server.taken) == 1
        Outbox.objects.select_for_update(nowait=True).update(event="blind")
        hung.join()
    assert {row.attempts for row in Outbox.objects.filter(pk=rows[0].pk)} == {1}


def test_a_row_whose_sender_crashed_is_sent_later(rows: list[Outbox], mailbox: Mailbox) -> None:
    assert sending.take_row(MAIL_LANE) == rows[0]
    assert sending.send_due() == 2
    make_due()
    assert sending.send_due() == 1
    assert Outbox.objects.get(pk=rows[0].pk).attempts == 2
