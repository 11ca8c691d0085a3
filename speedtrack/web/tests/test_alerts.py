"""Alerts: the list, the evidence, and the decisions of people."""

import re

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.alerts.triage import triage
from speedtrack.alerts.triage.triage import Decision, Stale
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.notices import mail
from speedtrack.notices.models import Outbox
from speedtrack.runs.models import Measurement, Series
from speedtrack.web.pages.alerting import alert as alert_page
from speedtrack.web.tests.world import World, html_of, queries

Slow = tuple[World, Alert]


def test_the_lists(client: Client, slow: Slow) -> None:
    _, alert = slow
    for address in ("/alerts/", "/p/kvd/alerts/", "/alerts/?status=confirmed", "/alerts/?status=all"):
        page = html_of(client.get(address))
        assert f'href="/alerts/{alert.pk}/"' in page
        assert "slower +20.1%" in page
    assert f'href="/alerts/{alert.pk}/"' not in html_of(client.get("/alerts/?status=fixed"))


def test_the_page_shows_the_paired_samples(client: Client, slow: Slow) -> None:
    made, alert = slow
    page = html_of(client.get(f"/alerts/{alert.pk}/"))
    assert re.search(r"\d+ pairs of .* on kvd-m1", page)
    assert page.count('class="before"') >= 6
    assert made.commit(5).short in page
    assert "both sides were measured again" in page
    assert "<script>alert" not in page
    assert "style=" not in page


def test_the_page_shows_the_pairs_that_confirmed_it_and_each_step_to_its_commit(client: Client, slow: Slow) -> None:
    _, alert = slow
    page = html_of(client.get(f"/alerts/{alert.pk}/"))
    worst = alert.change_points.get(series__metric="server_cpu_ns_per_request", series__benchmark__name="get-p1")
    ends = worst.verdicts.get(answer="different")
    assert (ends.base_id, ends.commit_id) != (alert.before_id, alert.commit_id)  # the bracket, not its narrowed range
    assert f'of <span class="sha">{ends.base.short}</span> and <span class="sha">{ends.commit.short}</span>' in page
    assert worst.verdicts.filter(answer__in=("old", "new")).count() >= 1
    assert "old level" in page or "new level" in page
    assert "The samples are no longer stored" not in page


def test_pairs_are_shown_from_the_change_on_that_is_asked_for(client: Client, slow: Slow) -> None:
    _, alert = slow
    count = alert.change_points.count()
    assert 1 < count <= alert_page.MOST_PAIRS

    def shown(pairs: str) -> int:
        return html_of(client.get(f"/alerts/{alert.pk}/", {"pairs": pairs})).count('<details class="pairs">')

    assert [shown(pairs) for pairs in ("", "1", "all", "-1", "99999999")] == [count] * 5
    assert (shown("2"), shown(str(count)), shown(str(count + 1))) == (count - 1, 1, 0)
    assert alert_page.shown_by("9") == range(8, 8 + alert_page.PAIRS_OF_PAGE)


def test_a_range_is_shown_as_a_range_everywhere(client: Client, slow: Slow) -> None:
    """No single commit is named while several may be the cause."""
    made, alert = slow
    first, last = made.commit(2), made.commit(5)
    Alert.objects.filter(pk=alert.pk).update(before=first, commit=last)
    alert.change_points.update(before=first, commit=last)
    page = html_of(client.get(f"/alerts/{alert.pk}/"))
    assert "by one of 3 commits; the range could not be narrowed further" in page
    assert all(f"/p/kvd/c/{made.commit(place).sha}" in page for place in (3, 4, 5))
    for address in ("/alerts/", "/p/kvd/", "/", f"/p/kvd/c/{made.commit(4).sha}/"):
        text = html_of(client.get(address, follow=True))
        assert "one of 3 commits" in text, address
    Outbox.objects.create(recipient="team@example.org", alert=alert, event="range")
    message = mail.alert_message(Outbox.objects.select_related("alert__project").get(event="range"))
    assert f"{first.short}..{last.short}" in message.subject
    assert "by one of 3 commits; which of them could not be told:" in str(message.body)
    assert all(made.commit(place).short in str(message.body) for place in (3, 4, 5))
    assert "One of 3 commits" in str(message.alternatives[0].content)


def test_an_unknown_alert(client: Client, db: None) -> None:
    assert client.get("/alerts/77/").status_code == 404


def test_only_people_who_logged_in_decide(client: Client, slow: Slow) -> None:
    _, alert = slow
    assert "<textarea" not in html_of(client.get(f"/alerts/{alert.pk}/"))
    answer = client.post(f"/alerts/{alert.pk}/", {"seen": "confirmed", "status": "fixed"})
    assert answer.status_code == 302
    assert answer["Location"].startswith("/login/")
    alert.refresh_from_db()
    assert alert.status == "confirmed"


def test_a_decision_is_kept_with_its_event(client: Client, slow: Slow) -> None:
    _, alert = slow
    ada = User.objects.create_superuser("ada")
    client.force_login(ada)
    form = {"seen": "confirmed", "status": "expected", "assignee": "ada", "note": "<i>meant</i>"}
    page = html_of(client.post(f"/alerts/{alert.pk}/", form, follow=True))
    assert "Saved." in page
    assert "&lt;i&gt;meant&lt;/i&gt;" in page
    alert.refresh_from_db()
    assert (alert.status, alert.assignee) == ("expected", ada)
    event = alert.events.latest("pk")
    assert (event.who, event.before, event.after) == (ada, "confirmed", "expected")
    assert event.note == "assigned to ada; <i>meant</i>"


def test_the_second_of_two_people_is_told(client: Client, slow: Slow) -> None:
    _, alert = slow
    client.force_login(User.objects.create_superuser("ada"))
    Alert.objects.filter(pk=alert.pk).update(status="invalid")
    form = {"seen": "confirmed", "status": "fixed"}
    page = html_of(client.post(f"/alerts/{alert.pk}/", form, follow=True))
    assert "Not saved: the alert is invalid meanwhile" in page
    alert.refresh_from_db()
    assert alert.status == "invalid"


def test_decide_refuses_what_is_not_a_persons_to_say(slow: Slow) -> None:
    _, alert = slow
    ada = User.objects.create_superuser("ada")
    with pytest.raises(ValueError, match="cannot be made 'suspected'"):
        triage.decide(alert, Decision("confirmed", "suspected", None), ada)
    with pytest.raises(Stale):
        triage.decide(alert, Decision("fixed", "confirmed", None), ada)


def test_a_decision_that_changes_nothing_writes_nothing(slow: Slow) -> None:
    _, alert = slow
    before = AlertEvent.objects.count()
    assert triage.decide(alert, Decision("confirmed", "confirmed", None), User.objects.create_superuser("ada")) is False
    assert AlertEvent.objects.count() == before


def test_a_note_alone_is_an_event(slow: Slow) -> None:
    _, alert = slow
    assert triage.decide(alert, Decision("confirmed", "confirmed", None, "looking"), User.objects.create_user("ada"))
    event = alert.events.latest("pk")
    assert (event.before, event.after, event.note) == ("", "", "looking")


def test_an_alert_as_values_and_addresses_in_notes_are_links(client: Client, slow: Slow) -> None:
    made, alert = slow
    ada = User.objects.create_user("ada")
    note = "see https://example.org/1?a=b&c=d\nand <b>javascript:alert(1)</b>"
    triage.decide(alert, Decision(alert.status, alert.status, None, note), ada)
    page = html_of(client.get(f"/alerts/{alert.pk}/"))
    assert 'see <a href="https://example.org/1?a=b&amp;c=d" rel="nofollow">https://example.org/1' in page
    assert "&lt;b&gt;javascript:alert(1)&lt;/b&gt;" in page and 'href="javascript' not in page
    found = client.get(f"/alerts/{alert.pk}.json").json()
    assert (found["schema"], found["id"], found["commit"]) == ("speedtrack.alert/2", alert.pk, made.shas[5])
    assert found["changes"][0]["pairs"] > 0 and found["changes"][0]["is_slowdown"]
    assert [one["note"] for one in found["history"] if one["who"] == "ada"] == [note]
    assert client.get("/alerts/9999.json").status_code == 404


def test_a_document_takes_as_many_queries_however_many_changes_it_has(client: Client, slow: Slow) -> None:
    _, alert = slow
    address = f"/alerts/{alert.pk}.json"
    changes = ChangePoint.objects.filter(alert=alert)
    few, count, change = queries(client, address), changes.count(), changes.latest("pk")
    for series in Series.objects.exclude(pk=change.series_id)[:3]:
        change.pk, change.series = None, series
        change.save(force_insert=True)
    assert len(client.get(address).json()["changes"]) == count + 3
    assert queries(client, address) == few


def test_the_number_of_queries_does_not_grow(client: Client, slow: Slow) -> None:
    made, alert = slow
    addresses = [f"/alerts/{alert.pk}/", "/alerts/?status=all"]
    few = [queries(client, address) for address in addresses]
    for _ in range(3):
        AlertEvent.objects.create(alert=alert, kind="grew", note="again", who=None)
    made.push(4)
    made.measure()
    assert [queries(client, address) for address in addresses] == few


def test_the_geometric_mean_over_the_suite(client: Client, slow: Slow) -> None:
    """Both benchmarks need 20% more CPU; if only one did, the mean would be about half of that."""
    _, alert = slow
    text = html_of(client.get(f"/alerts/{alert.pk}/"))
    mean = re.search(r"over the suite: <strong>\+([0-9.]+)%</strong> .*?geometric mean of 2 benchmarks", text)
    assert mean and 19.5 < float(mean[1]) < 20.5
    alert.change_points.filter(series__benchmark__name="set-p1").delete()
    Measurement.objects.filter(series__benchmark__name="set-p1", paired=False).update(value=7000.0)
    found = alert_page.load(alert).suite
    assert found and (found.benchmarks, found.moved) == (2, 1)
    assert 1.093 < found.ratio < 1.097
    alert.change_points.filter(series__metric=HEADLINE).update(alert=None)
    text = html_of(client.get(f"/alerts/{alert.pk}/"))
    assert "over the suite" not in text  # what single runs differ by is no effect
    assert re.search(r"no confirmed change in\s+any of the 2 benchmarks\s+measured on both sides", text)


def test_an_alert_is_moved_split_and_merged_by_form(client: Client, slow: Slow) -> None:
    made, alert = slow
    client.force_login(User.objects.create_superuser("ada"))
    address = f"/alerts/{alert.pk}/"
    page = html_of(client.post(f"{address}move/", {"commit": made.shas[6], "note": "<b>it</b>"}, follow=True))
    assert "Moved." in page and made.commit(6).short in page and "&lt;b&gt;it&lt;/b&gt;" in page
    part = alert.change_points.filter(series__metric="throughput_rps").first()
    assert part
    page = html_of(client.post(f"{address}split/", {"change": [part.pk]}, follow=True))
    other = Alert.objects.latest("pk")
    assert f"Split off as alert {other.pk}." in page
    answer = client.post(f"/alerts/{other.pk}/merge/", {"into": alert.pk}, follow=True)
    assert answer.redirect_chain[-1][0] == address
    assert f"alert {other.pk} was merged into it" in answer.content.decode()
    assert client.get(f"/alerts/{other.pk}/")["Location"] == address


def test_a_regrouping_that_cannot_be_says_why(client: Client, slow: Slow) -> None:
    _, alert = slow
    client.force_login(User.objects.create_superuser("ada"))
    for verb, form, says in (
        ("move", {"commit": "f" * 40}, "no tracked branch"),
        ("move", {"commit": "%"}, "at least seven"),
        ("split", {"change": ["x", "9" * 30]}, "but not all"),
        ("merge", {"into": "999999"}, "there is no alert"),
        ("merge", {"into": str(alert.pk)}, "another alert"),
    ):
        page = html_of(client.post(f"/alerts/{alert.pk}/{verb}/", form, follow=True))
        assert "Not saved: " in page and says in page, (verb, form)
    assert client.get(f"/alerts/{alert.pk}/move/")["Location"] == f"/alerts/{alert.pk}/"


def test_only_people_who_logged_in_regroup(client: Client, slow: Slow) -> None:
    _, alert = slow
    for verb in ("move", "split", "merge"):
        assert client.post(f"/alerts/{alert.pk}/{verb}/")["Location"].startswith("/login/")
    assert "split/" not in html_of(client.get(f"/alerts/{alert.pk}/"))


def test_improvements_have_a_list_of_their_own(client: Client, slow: Slow) -> None:
    _, alert = slow
    Alert.objects.filter(pk=alert.pk).update(improvement=True)
    link = f'href="/alerts/{alert.pk}/"'
    for status, there in (("open", False), ("confirmed", False), ("improvements", True), ("all", True)):
        assert (link in html_of(client.get(f"/alerts/?status={status}"))) == there, status
    for address in ("/p/kvd/", "/"):
        assert "1 open alert" not in html_of(client.get(address))


def test_a_fix_is_shown_with_its_branches(client: Client, slow: Slow) -> None:
    made, alert = slow
    Alert.objects.filter(pk=alert.pk).update(status="fixed", fixed_by=made.commit(7))
    page = html_of(client.get(f"/alerts/{alert.pk}/"))
    assert "Fixed by" in page and made.commit(7).short in page and "on main" in page
