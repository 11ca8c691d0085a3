"""What operators see of mails that were not sent, and do about it."""

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from speedtrack.notices.models import Outbox, Subscriber
from speedtrack.notices.tests.history import subscribed
from speedtrack.notices.tests.test_sending import waiting
from speedtrack.tasks import notify
from speedtrack.upkeep import doctor


def test_what_was_given_up_is_listed_and_sent_again(db: None, capsys: pytest.CaptureFixture[str]) -> None:
    row, other = waiting("a@example.org", "b@example.org")
    assert doctor.check_mails()[0] == "good"
    Outbox.objects.filter(pk=other.pk).update(error="451 later", attempts=1)
    assert doctor.check_mails() == ("note", "some wait to be tried again, as the one to b@example.org: 451 later")
    Outbox.objects.filter(pk=row.pk).update(error="550 no such user", attempts=3, given_up_at=Now())
    assert doctor.check_mails()[0] == "bad"
    call_command("outbox")
    assert f"{row.pk}  a@example.org  given up after 3 attempts: 550 no such user" in capsys.readouterr().out
    with pytest.raises(CommandError, match=f"{other.pk}: not given up"):
        call_command("outbox", "again", str(other.pk))
    call_command("outbox", "again")
    row.refresh_from_db()
    assert (row.given_up_at, row.attempts) == (None, 0)


def test_notices_that_cannot_be_written_hold_up_no_mail(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def tell_subscribers() -> None:
        raise ValueError("a defect")

    row = waiting("a@example.org")[0]
    monkeypatch.setattr(notify, "tell_subscribers", tell_subscribers)
    with pytest.raises(ValueError, match="a defect"):  # the task counts as failed
        notify.notify()
    row.refresh_from_db()
    assert row.sent_at


def test_an_account_gets_an_address(db: None) -> None:
    ada = User.objects.create_user("ada")
    call_command("address", "ada", "ada@example.org")
    ada.refresh_from_db()
    assert ada.email == "ada@example.org"
    subscribed("bob@example.org", person={"user": User.objects.create_user("bob")})
    call_command("address", "bob", "robert@example.org")
    assert Subscriber.objects.get().email == "robert@example.org"
    for user, address, words in (
        ("eve", "eve@example.org", "there is no account 'eve'"),
        ("ada", "nonsense", "is not a mail address"),
        ("ada", "ROBERT@example.org", "belongs to another account"),
    ):
        with pytest.raises(CommandError, match=words):
            call_command("address", user, address)
