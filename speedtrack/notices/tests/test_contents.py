"""The mail of an alert as a whole: pictures, the thread, the ways out, the digest."""

import io
import re
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from django.test import Client
from PIL import Image

from speedtrack.alerts.models import Alert
from speedtrack.alerts.tests.conftest import World
from speedtrack.alerts.triage import raising
from speedtrack.notices import charts, mail, subscribing
from speedtrack.notices.channels import statuses
from speedtrack.notices.channels.document import message_of
from speedtrack.notices.matching import facts_of
from speedtrack.notices.models import CommitStatus, Notice, Outbox
from speedtrack.notices.telling import tell_subscribers
from speedtrack.notices.tests.channels import channel
from speedtrack.notices.tests.history import History, subscribed
from speedtrack.tests import builders

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if "http" not in line]


def test_the_mail_of_a_measured_change_shows_it(world: World) -> None:
    world.shas.append(world.repository.commit("Copy each reply twice"))
    world.factors = {world.shas[12]: 1.4}
    builders.track(world.repository, emails=["dev@example.org"])
    world.until_quiet()
    sent = mail.message_of(Outbox.objects.get()).message()
    assert sent.get_content_type() == "multipart/related"
    alternative, *pictures = cast(list[Any], sent.get_payload())
    assert [part.get_content_type() for part in alternative.get_payload()] == ["text/plain", "text/html"]
    html = alternative.get_payload()[1].get_payload(decode=True).decode()
    assert re.findall(r'src="cid:([^"]+)"', html) == [p["Content-ID"].strip("<>") for p in pictures]
    assert 1 <= len(pictures) <= mail.MOST_PICTURES
    for picture in pictures:
        content = picture.get_payload(decode=True)
        with Image.open(io.BytesIO(content)) as image:
            assert image.size == (charts.WIDTH * charts.SCALE, charts.HEIGHT * charts.SCALE)
        assert len(content) <= 40 * 1024
    change = mail.changes_of(Alert.objects.get())[0]
    assert len(charts.ratios(change)) >= 5
    assert all(1.3 < ratio < 1.5 for ratio in charts.ratios(change))
    assert [p.position for p in charts.line_around(change)] == list(range(len(world.shas)))


@pytest.fixture
def history(db: None) -> History:
    return History()


def only(alert: Alert) -> list[Outbox]:
    return list(Outbox.objects.filter(alert=alert).order_by("pk"))


@pytest.mark.parametrize(
    ("ratio", "benchmarks", "width", "expected"),
    [
        (1.052, ["get-p16"], 1, "[redis] slower +5.2%: get-p16, unstable 02ababab"),
        (1.052, ["get-p16", "a", "b"], 1, "[redis] slower +5.2%: get-p16 and 2 more, unstable 02ababab"),
        (1.052, ["get-p16"], 3, "[redis] slower +5.2%: get-p16, unstable 01abababab..04ababab"),
        (0.9, ["get-p16"], 1, "[redis] faster -10.0%: get-p16, unstable 02ababab"),
        (3.0, ["get-p16"], 1, "[redis] slower +200%: get-p16, unstable 02ababab"),
        (12.0, ["get-p16"], 1, "[redis] slower x12.0: get-p16, unstable 02ababab"),
    ],
)
def test_the_subject(history: History, ratio: float, benchmarks: list[str], width: int, expected: str) -> None:
    alert = history.alert(ratio, benchmarks=benchmarks, width=width)
    line = mail.subject_of(alert)
    assert line.startswith(expected) and line.isascii()


def mixed(history: History) -> Alert:
    """An alert of a commit that is slower in three benchmarks, and faster in two."""
    alert = history.alert(0.5, benchmarks=["much-faster"])
    for benchmark, ratio in (("slower", 1.05), ("a", 1.03), ("b", 1.02), ("a-little-faster", 0.9)):
        history.grow(alert, ratio, benchmark)
    history.grow(alert, 1.04, "slower", "callgrind_instructions_per_request")
    return alert


def test_every_face_says_what_got_worse_and_what_got_better(history: History) -> None:
    """Both directions by one function; only benchmarks that moved the same way are counted with each."""
    subscribed("a@example.org", history.project)
    subscribed("d@example.org", history.project, pace="daily")
    alert = mixed(history)
    said = "slower +5.0%: slower and 2 more; faster −50.0%: much-faster and 1 more"
    tell_subscribers(NOON)
    tell_subscribers(NOON.replace(day=19))
    single, digest = (mail.message_of(row) for row in Outbox.objects.order_by("digest"))
    assert single.subject.startswith(f"[redis] {said.replace('−', '-')}, unstable ")
    assert digest.subject.endswith("1 change, the largest: slower +5.0%: slower and 2 more")
    for message in (single, digest):
        for body in (str(message.body), str(message.alternatives[0].content)):
            text = " ".join(body.split())
            assert "lower +5.0%" in text and "and 2 more" in text and "aster −50.0%" in text and "and 1 more" in text
    first = str(single.body).splitlines()[:2]
    assert [line.partition(" (")[0] for line in first] == ["Slower +5.0%", "Faster −50.0%"]
    assert message_of(alert.events.get(), "1").alert.summary == said
    client = Client()
    assert client.get("/alerts.json").json()["alerts"][0]["summary"] == said
    assert client.get(f"/api/v1/alerts/{alert.pk}").json()["summary"] == said
    assert f"<title>[redis] {said} (confirmed)</title>" in client.get("/alerts.atom").content.decode()
    row = client.get("/alerts/").content.decode().partition('<p class="finding">')[2].partition("</p>")[0]
    words = " ".join(re.sub("<[^>]+>", " ", row).split())
    assert words.startswith("slower +5.0% slower, Server CPU per request and 2 more ; faster −50.0% much-faster")
    page = client.get(f"/alerts/{alert.pk}/").content.decode()
    assert f"<title>Alert {alert.pk}: {said} ·" in page
    heading = " ".join(re.sub("<[^>]+>", " ", page.partition("<h1>")[2].partition("</h1>")[0]).split())
    assert heading.startswith("! slower +5.0% slower") and "✓ faster −50.0% much-faster" in heading
    assert client.get(f"/alerts/{alert.pk}.json").json()["summary"] == said


@pytest.mark.parametrize("kind", ["step", "drift"])
def test_no_commit_is_told_that_it_caused_a_drift(history: History, kind: str) -> None:
    alert = history.alert(1.8)
    alert.change_points.update(kind=kind, reference="7.4.0")
    status = CommitStatus(channel=channel(history.project, "github", "https://example.org"), commit=alert.commit)
    is_named = kind == "step"
    assert (statuses.alert_naming(status) == alert, bool(facts_of(alert).authors)) == (is_named, is_named)
    Alert.objects.filter(pk=alert.pk).update(status="expected")
    alert.refresh_from_db()
    raising.join_alert(alert, alert.change_points.get(), has_event=False)
    assert (alert.commit.short in alert.events.latest("id").note) == is_named


def test_what_follows_is_threaded_below_the_first_mail(history: History) -> None:
    subscribed("a@example.org", history.project)
    alert = history.alert()
    tell_subscribers(NOON)
    for kind, note in (("decided", "meant so"), ("narrowed", "one commit is left"), ("fixed", "reverted")):
        history.happen(alert, kind, note=note)
        tell_subscribers(NOON)
    first, *following = [(row, mail.message_of(row).message()) for row in only(alert)]
    assert first[1]["References"] is None and len(following) == 3
    for place, (_, sent) in enumerate(following):
        earlier = [first[0], *[row for row, _ in following[:place]]]
        assert sent["References"].split() == [row.message_id() for row in earlier]
        assert sent["In-Reply-To"] == earlier[-1].message_id()
        assert sent["Subject"] == f"Re: {first[1]['Subject']}"
    assert "SpeedTrack: meant so" in str(mail.message_of(following[0][0]).body)


def test_a_mail_says_how_to_end_it(history: History) -> None:
    subscriber = subscribed("a@example.org", history.project)
    alert = history.alert()
    tell_subscribers(NOON)
    sent = mail.message_of(only(alert)[0])
    address = sent.extra_headers["List-Unsubscribe"].strip("<>")
    assert sent.extra_headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    assert address in str(sent.body) and address in str(sent.alternatives[0].content)
    ending = subscribing.unsubscription_of(address.rstrip("/").rpartition("/")[2])
    assert ending and ending.subscriber == subscriber and len(ending.subscriptions) == 1
    assert subscribing.unsubscription_of("forged") is None


def test_the_text_keeps_to_80_columns(history: History) -> None:
    subscribed("a@example.org", history.project)
    subscribed("d@example.org", history.project, pace="daily")
    history.alert(subject="A subject as long as they get " * 8, width=4, benchmarks=["b" * 60, "get"])
    tell_subscribers(NOON)
    tell_subscribers(NOON.replace(day=19))
    for row in Outbox.objects.all():
        text = str(mail.message_of(row).body)
        assert max(map(len, lines(text))) <= 80
        assert ("one of 4 commits" if row.digest else "A subject as long as they get") in text


def test_99_alerts_are_one_table_that_says_how_many_it_leaves_out(history: History) -> None:
    subscribed("a@example.org", history.project)
    for number in range(99):
        history.alert(1.03 + number / 1000, subject="<b>bold</b>")
    tell_subscribers(NOON)
    row = Outbox.objects.get()
    assert Notice.objects.filter(mail=row).count() == 99
    sent = mail.message_of(row)
    assert sent.subject == "[redis] 99 changes, the largest: slower +12.8%: get-p1"
    for body in (str(sent.body), str(sent.alternatives[0].content)):
        assert "and 74 more" in body and body.count("/alerts/") == mail.MOST_LISTED + 1
    assert "<b>bold" not in str(sent.alternatives[0].content)


def test_a_change_without_line_and_pairs_is_told_all_the_same(history: History) -> None:
    subscribed("a@example.org", history.project)
    alert = history.alert()
    tell_subscribers(NOON)
    sent = mail.message_of(only(alert)[0]).message()
    assert [part.get_content_type() for part in sent.walk()][-1] == "image/png"
    alert.change_points.all().delete()
    assert "[redis] alert" in mail.message_of(only(alert)[0]).subject
