"""Who is told of what, when, and in how many mails."""

from collections import Counter
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from speedtrack.accounts import people
from speedtrack.accounts.models import Scope
from speedtrack.accounts.tokens import issue
from speedtrack.alerts.models import Alert, AlertEvent
from speedtrack.alerts.triage.raising import join_alert
from speedtrack.notices import mail, subscribing, telling
from speedtrack.notices.channels import telling as channels
from speedtrack.notices.errors import PermanentFailure
from speedtrack.notices.models import Notice, Outbox, Subscriber, Subscription
from speedtrack.notices.telling import tell_subscribers
from speedtrack.notices.tests.history import History, subscribed

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)  # a Wednesday
DAY = timedelta(days=1)


@pytest.fixture
def history(db: None) -> History:
    return History()


def told(now: datetime = NOON) -> Counter[str]:
    """Tell, and count what is in the outbox by recipient."""
    tell_subscribers(now)
    return Counter(Outbox.objects.values_list("recipient", flat=True))


@pytest.mark.parametrize(
    ("asked", "is_told"),
    [
        ({}, True),
        ({"branches": "unstable"}, True),
        ({"branches": "7.* 8.*"}, False),
        ({"branches": "7.* unst*"}, True),
        ({"benchmarks": "set-*"}, False),
        ({"benchmarks": "set-* get-*"}, True),
        ({"smallest_percent": 5.0}, True),
        ({"smallest_percent": 5.5}, False),
    ],
)
def test_a_subscription_says_what_is_wanted(history: History, asked: dict[str, Any], is_told: bool) -> None:
    subscribed("a@example.org", history.project, **asked)
    subscribed("all@example.org")
    subscribed("other@example.org", History("valkey").project)
    history.alert(ratio=1.052)
    assert told() == Counter({"all@example.org": 1, **({"a@example.org": 1} if is_told else {})})


def test_faster_is_told_to_those_who_ask(history: History) -> None:
    subscribed("slower@example.org", history.project)
    subscribed("both@example.org", history.project, direction="both")
    history.alert(ratio=0.9)
    assert told() == {"both@example.org": 1}


def test_overlapping_subscriptions_are_one_mail_and_the_soonest_counts(history: History) -> None:
    subscribed("a@example.org", history.project, pace="weekly")
    subscribed("a@example.org", pace="now", benchmarks="get-*")
    subscribed("a@example.org", pace="daily")
    history.alert()
    assert told() == {"a@example.org": 1}
    assert told(NOON + 8 * DAY) == {"a@example.org": 1}


def test_telling_again_tells_nobody_twice(history: History) -> None:
    subscribed("a@example.org", history.project)
    history.alert()
    assert told() == {"a@example.org": 1}
    AlertEvent.objects.update(untold=True)
    assert told() == {"a@example.org": 1}


def test_what_became_of_an_alert_is_told_to_those_told_of_it_and_not_to_who_did_it(history: History) -> None:
    ada = User.objects.create_user("ada", "a@example.org")
    subscribed("a@example.org", history.project, person={"user": ada})
    subscribed("b@example.org", history.project)
    subscribed("first@example.org", history.project, person={"follow_ups": False})
    subscribed("none@example.org", history.project, benchmarks="set-*")
    alert = history.alert()
    told()
    history.happen(alert, "decided", who=ada, note="looking at it")
    history.happen(alert, "grew")
    assert told() == {"a@example.org": 1, "b@example.org": 2, "first@example.org": 1}
    history.happen(alert, "fixed")
    assert told() == {"a@example.org": 2, "b@example.org": 3, "first@example.org": 1}


def test_a_change_that_joins_is_news_to_who_waited_for_it(history: History) -> None:
    subscribed("set@example.org", history.project, benchmarks="set-*")
    subscribed("get@example.org", history.project, benchmarks="get-*")
    alert = history.alert()
    assert told() == {"get@example.org": 1}
    history.grow(alert, 1.2, "set-p1")
    history.happen(alert, "grew")
    assert told() == {"get@example.org": 1, "set@example.org": 1}


def test_a_digest_is_one_mail_at_its_hour_in_the_persons_time_zone(history: History) -> None:
    tokyo = {"time_zone": "Asia/Tokyo", "digest_hour": 9}
    subscribed("daily@example.org", history.project, pace="daily", person=tokyo)
    subscribed("weekly@example.org", history.project, pace="weekly", person=tokyo)
    for _ in range(3):
        history.alert()
    assert told() == {}
    assert told(datetime(2026, 11, 18, 23, 59, tzinfo=UTC)) == {}
    assert told(datetime(2026, 11, 19, 0, 0, tzinfo=UTC)) == {"daily@example.org": 1}
    assert told(datetime(2026, 11, 22, 23, 59, tzinfo=UTC)) == {"daily@example.org": 1}
    assert told(datetime(2026, 11, 23, 0, 0, tzinfo=UTC)) == {"daily@example.org": 1, "weekly@example.org": 1}
    assert [row.digest and row.notices.count() for row in Outbox.objects.all()] == [3, 3]


def test_quiet_hours_hold_and_lose_nothing(history: History) -> None:
    night = {"time_zone": "Europe/Berlin", "quiet_from": time(22), "quiet_until": time(7, 30)}
    subscribed("a@example.org", history.project, person=night)
    history.alert()
    assert told(datetime(2026, 11, 18, 21, 30, tzinfo=UTC)) == {}
    history.alert()
    assert told(datetime(2026, 11, 19, 6, 29, tzinfo=UTC)) == {}
    assert told(datetime(2026, 11, 19, 6, 30, tzinfo=UTC)) == {"a@example.org": 2}


def test_what_comes_due_in_quiet_hours_waits(history: History) -> None:
    subscriber = subscribed("a@example.org", history.project)
    history.alert()
    telling.note_events(NOON)
    Subscriber.objects.filter(pk=subscriber.pk).update(quiet_from=time(11), quiet_until=time(13))
    assert told() == {}
    assert told(NOON + timedelta(hours=1)) == {"a@example.org": 1}


def test_own_commits_are_told_at_once_whatever_else(history: History) -> None:
    subscribed("ada@example.org", history.project, pace="weekly", person={"own_commits": True})
    Subscriber.objects.create(email="Bob@example.org")
    Subscriber.objects.create(email="eve@example.org", own_commits=False)
    for author in ("ada@example.org", "bob@EXAMPLE.org", "eve@example.org"):
        history.alert(author=author)
    assert told() == {"ada@example.org": 1, "Bob@example.org": 1}


def test_an_author_is_praised_once_for_what_certainly_got_faster(history: History) -> None:
    Subscriber.objects.create(email="ada@example.org")
    Subscriber.objects.create(email="eve@example.org", own_commits=False)
    history.alert(ratio=0.9, author="eve@example.org")
    history.alert(ratio=0.9, width=2)  # which of both commits it was is not known
    doubtful = history.alert(ratio=0.9)
    doubtful.change_points.update(status="history")
    assert told() == {}
    alert = history.alert(ratio=0.9)
    assert told() == {"ada@example.org": 1}
    history.grow(alert, 0.8, "set-p1")
    history.happen(alert, "grew")
    assert told() == {"ada@example.org": 1}
    assert Outbox.objects.get().alert == alert


def test_praise_respects_what_the_author_excludes(history: History) -> None:
    subscribed("ada@example.org", history.project, smallest_percent=20, person={"own_commits": True})
    history.alert(ratio=0.9)
    assert told() == {}
    history.alert(ratio=0.7)
    assert told() == {"ada@example.org": 1}


@pytest.mark.parametrize(
    ("limits", "is_told"),
    [
        ({}, True),
        ({"benchmarks": "set-*", "branches": "7.*"}, True),  # the author's own commit, whatever these name
        ({"smallest_percent": 5.5}, False),
        ({"smallest_percent": 5.0}, True),
    ],
)
def test_an_author_is_told_of_what_counts_by_the_authors_subscriptions(
    history: History, limits: dict[str, Any], is_told: bool
) -> None:
    subscribed("ada@example.org", history.project, pace="weekly", person={"own_commits": True}, **limits)
    subscribed("ada@example.org", History("valkey").project)
    history.alert(1.052)
    assert told() == ({"ada@example.org": 1} if is_told else {})


def test_an_author_with_several_subscriptions_is_told_of_what_counts_for_one(history: History) -> None:
    subscribed("ada@example.org", history.project, smallest_percent=50, person={"own_commits": True})
    Subscription.objects.create(subscriber=Subscriber.objects.get(), project=None, smallest_percent=3)
    alert = history.alert(1.052)
    Subscription.objects.filter(project=None).update(benchmarks="set-*")
    assert told() == {"ada@example.org": 1}
    assert Notice.objects.get(event__alert=alert).own


def deliver() -> None:
    Outbox.objects.filter(attempts=0).update(attempts=1, sent_at=NOON)


@pytest.mark.parametrize("first", ["faster", "slower"])
@pytest.mark.parametrize("is_sent", [True, False])
def test_better_here_and_worse_there_is_one_mail_or_one_answer_to_it_that_says_both(
    history: History, first: str, is_sent: bool
) -> None:
    """Whatever was confirmed first: who knows only half of it is told the rest below that mail, once."""
    sizes = {"faster": ("get-p1", 0.5), "slower": ("set-p1", 1.05)}
    subscribed("both@example.org", history.project, direction="both")
    subscribed("once@example.org", history.project, direction="both", person={"follow_ups": False})
    subscribed("slower@example.org", history.project)
    Subscriber.objects.create(email="ada@example.org")
    alert = history.alert(sizes[first][1], benchmarks=[sizes[first][0]])
    Alert.objects.filter(pk=alert.pk).update(improvement=first == "faster")
    alert.events.update(improvement=first == "faster")
    told()
    if is_sent:
        deliver()
    benchmark, ratio = sizes["slower" if first == "faster" else "faster"]
    joined = history.grow(alert, ratio, benchmark)
    alert.refresh_from_db()
    join_alert(alert, joined, has_event=False)
    history.grow(alert, 0.9, "other")
    history.happen(alert, "grew")
    counts = told()
    said = "slower +5.0%: set-p1; faster -50.0%: get-p1 and 1 more"
    answered = {("faster", True): {"both", "once", "ada"}, ("slower", True): {"both", "slower", "ada"}}.get(
        (first, is_sent), set()
    )
    names = ("both", "once", "slower", "ada")
    assert counts == {f"{name}@example.org": 1 + (name in answered) for name in names}
    for row in Outbox.objects.filter(attempts=0):
        message = mail.message_of(row)
        again = "Re: " if row.recipient.split("@")[0] in answered else ""
        assert message.subject.startswith(f"{again}[redis] {said}")
        assert bool(again) == ("What happened since" in str(message.body))


def test_99_alerts_at_once_are_one_mail(history: History) -> None:
    subscribed("a@example.org", history.project, person={"own_commits": True})
    for number in range(99):
        history.alert(author="a@example.org" if number % 2 else "ada@example.org")
    assert told() == {"a@example.org": 1}
    row = Outbox.objects.get()
    assert row.digest and row.notices.count() == 99
    assert told(NOON + DAY) == {"a@example.org": 1}


def test_what_is_over_the_most_per_day_comes_tomorrow_in_one_mail(history: History) -> None:
    subscribed("a@example.org", history.project, person={"most_per_day": 3})
    now = datetime.now(UTC).replace(hour=12)  # mails are counted by the database's clock
    for minute in range(15):
        history.alert()
        tell_subscribers(now + timedelta(minutes=minute))
    assert Outbox.objects.filter(digest=False).count() == 3 == Outbox.objects.count()
    tell_subscribers(now.replace(hour=8) + DAY)
    digest = Outbox.objects.get(digest=True)
    assert digest.notices.count() == 12 and Outbox.objects.count() == 4


def test_the_past_goes_into_digests_only(history: History) -> None:
    subscribed("a@example.org", history.project)
    history.alert()
    AlertEvent.objects.update(past=True)
    assert told() == {}
    assert told(NOON + DAY) == {"a@example.org": 1}
    assert Outbox.objects.get().digest


def test_several_events_of_an_alert_that_waited_are_one_mail(history: History) -> None:
    subscribed("a@example.org", history.project, person={"quiet_from": time(11), "quiet_until": time(13)})
    alert = history.alert()
    history.happen(alert, "decided", note="ours")
    assert told(NOON + timedelta(hours=2)) == {"a@example.org": 1}
    assert Outbox.objects.get().notices.count() == 2


def test_unsubscribing_drops_what_waits(history: History) -> None:
    subscriber = subscribed("a@example.org", history.project, pace="daily")
    history.alert()
    tell_subscribers(NOON)
    token = subscribing.unsubscribe_token(subscriber, Notice.objects.all())
    ending = subscribing.unsubscription_of(token)
    assert ending
    subscribing.unsubscribe(ending)
    assert not Subscription.objects.exists() and told(NOON + DAY) == {}


ATTACKS = {
    "a_subscriber_once_per_address": lambda s: Subscriber.objects.create(email=s.email.upper()),
    "quiet_hours_have_two_ends": lambda s: Subscriber.objects.update(quiet_from=time(1)),
    "a_digest_goes_out_at_an_hour_of_the_day": lambda s: Subscriber.objects.update(digest_hour=24),
    "at_least_one_mail_a_day": lambda s: Subscriber.objects.update(most_per_day=0),
    "a_subscription_once": lambda s: [Subscription.objects.create(subscriber=s) for _ in "ab"],
    "the_smallest_change_is_0_to_1000_percent": lambda s: Subscription.objects.create(
        subscriber=s, smallest_percent=-1
    ),
    "a_subscription_has_a_known_pace": lambda s: Subscription.objects.create(subscriber=s, pace="hourly"),
    "a_message_tells_of_one_thing": lambda s: Outbox.objects.create(recipient=s.email, event="nothing"),
    "a_mail_once_per_token_event": lambda s: [
        Outbox.objects.create(recipient=s.email, event="expires", token=token)
        for token in [issue(User.objects.create_user("ada"), "ci", [Scope.READ], 30)[0]]
        for _ in "ab"
    ],
    "a_digest_once_per_recipient": lambda s: [
        Outbox.objects.create(recipient=s.email, event="digest 1", digest=True) for _ in "ab"
    ],
}


@pytest.mark.parametrize("name", ATTACKS)
def test_the_database_refuses(db: None, name: str) -> None:
    subscriber = Subscriber.objects.create(email="a@example.org")
    with pytest.raises(IntegrityError, match=name), transaction.atomic():
        ATTACKS[name](subscriber)


def test_an_event_is_noticed_once_per_person(history: History) -> None:
    subscriber = subscribed("a@example.org", history.project)
    history.alert()
    told()
    event = AlertEvent.objects.get()
    with pytest.raises(IntegrityError, match="a_subscriber_is_told_once_of_an_event"), transaction.atomic():
        Notice.objects.create(subscriber=subscriber, event=event, pace="now", not_before=NOON)


def test_an_event_or_a_subscriber_that_fails_holds_up_no_other(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        subscribed(f"{name}@example.org", history.project)
    bad, good = history.alert(ratio=1.1), history.alert(ratio=1.2)
    queue, plan = channels.queue_messages, telling.plan_mails

    def queue_messages(event: AlertEvent) -> None:
        if event.alert == bad:
            raise ValueError("a defect of this event")
        queue(event)

    def plan_mails(due: list[Notice], room: int) -> telling.MailPlan:
        if due[0].subscriber.email == "a@example.org":
            raise TypeError("a defect of this subscriber")
        return plan(due, room)

    monkeypatch.setattr(channels, "queue_messages", queue_messages)
    monkeypatch.setattr(telling, "plan_mails", plan_mails)
    with pytest.raises(ValueError, match="a defect of this event"):  # the task counts as failed
        tell_subscribers(NOON)
    mailed = Outbox.objects.values_list("recipient", "alert")
    assert sorted(mailed) == [("b@example.org", good.pk), ("c@example.org", good.pk)]
    monkeypatch.undo()
    assert told() == {"a@example.org": 2, "b@example.org": 2, "c@example.org": 2}


def test_a_deactivated_account_gets_no_mail(history: History) -> None:
    ada, eve = (User.objects.create_user(name, f"{name}@example.org") for name in ("ada", "eve"))
    subscribed("ada@example.org", history.project, person={"user": ada})
    subscribed("eve@example.org", history.project, person={"user": eve})
    subscribed("list@example.org", history.project)
    alert = history.alert()
    people.deactivate(ada)
    assert told() == {"eve@example.org": 1, "list@example.org": 1}
    people.deactivate(eve)  # her mail waits in the outbox
    row = Outbox.objects.get(recipient="eve@example.org")
    with pytest.raises(PermanentFailure, match="may no longer see"):
        mail.message_of(row)
    assert alert.pk == row.alert_id
