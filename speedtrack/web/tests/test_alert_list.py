"""The list of alerts: filters, order and pages by the address, and decisions on several alerts."""

import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.accounts.access import ANYBODY, Access
from speedtrack.alerts.models import Alert
from speedtrack.web.pages.alerting import alerts as alerts_page
from speedtrack.web.tests.world import CPU, World, html_of, queries

Slow = tuple[World, Alert]


def copy_of(alert: Alert, world: World, place: int, **changes: Any) -> Alert:
    """Another alert, of another range of the same project."""
    made = Alert.objects.create(
        project=alert.project,
        branch=alert.branch,
        before=world.commit(place - 1),
        commit=world.commit(place),
        **{"status": "confirmed", **changes},
    )
    for cp in alert.change_points.all():
        cp.pk, cp.alert, cp.ratio = None, made, 1 + (cp.ratio - 1) / 2
        cp.save()
    return made


@dataclass
class Listed:
    client: Client
    world: World
    first: Alert
    second: Alert
    ada: User

    def shown(self, query: str) -> list[int]:
        page = html_of(self.client.get(f"/alerts/?{query}"))
        return [alert.pk for alert in (self.first, self.second) if f'href="/alerts/{alert.pk}/"' in page]

    def decide(self, action: str, note: str = "", seen: str = "confirmed") -> str:
        chosen = [f"{alert.pk}:{seen}" for alert in (self.first, self.second)]
        form = {"alert": chosen, "action": action, "note": note, "back": "/alerts/?status=all"}
        return html_of(self.client.post("/alerts/decide/", form, follow=True))


@pytest.fixture
def listed(client: Client, slow: Slow) -> Listed:
    world, first = slow
    ada = User.objects.create_superuser("ada")
    second = copy_of(first, world, 3, assignee=ada)
    second.change_points.filter(series__metric="throughput_rps").delete()
    return Listed(client, world, first, second, ada)


def test_the_address_filters_orders_and_pages_the_list(listed: Listed) -> None:
    client, first, second = listed.client, listed.first.pk, listed.second.pk
    for query, expected in {
        "": [first, second],
        "metric=throughput_rps": [first],
        "assignee=none": [first],
        "assignee=ada": [second],
        "project=kvd&q=SCRIPT": [first],
        f"q={listed.world.shas[3][:9]}": [second],
        "q=get-p1": [first, second],
        "project=nothing": [],
        "assignee=me": [],
    }.items():
        assert listed.shown(query) == expected, query
    assert 'name="alert"' not in html_of(client.get("/alerts/"))

    document = client.get("/p/kvd/alerts.json?assignee=ada").json()
    table = b"".join(client.get("/p/kvd/alerts.csv?assignee=ada")).decode().splitlines()
    assert table[0].startswith("id,project,") and len(table) - 1 == len(document["alerts"])
    assert (document["counts"]["confirmed"], document["after"]) == (1, "")
    [entry] = document["alerts"]
    assert (entry["id"], entry["assignee"], entry["commit"]) == (second, "ada", listed.world.shas[3])
    assert {change["metric"] for change in entry["changes"]} == {CPU}
    assert all(change["is_slowdown"] and change["low"] < change["high"] for change in entry["changes"])

    orders = {"newest": [second, first], "oldest": [first, second], "size": [first, second]}
    for order, expected in orders.items():
        found, after = [], ""
        for _ in range(2):
            filters = alerts_page.AlertListQuery(order=order, after=after)
            rows, after = alerts_page.page_of(alerts_page.standing_alerts(None, Access(ANYBODY)), filters, most=1)
            found += [row.alert.pk for row in rows]
        assert (found, after) == (expected, ""), order

    client.force_login(listed.ada)
    assert listed.shown("assignee=me") == [second]
    assert "open 1</a>" in html_of(client.get("/alerts/?assignee=me&status=fixed"))
    few = queries(client, "/alerts/?order=size&q=get")
    assert few <= 12
    for place in (2, 4, 7):
        copy_of(listed.first, listed.world, place)
    assert queries(client, "/alerts/?order=size&q=get") == few


@pytest.mark.parametrize("query", ["metric=nothing", "order=colour", "after=x", "order=size&after=1:y"])
def test_what_cannot_be_asked_for_is_said(client: Client, db: None, query: str) -> None:
    answer = client.get(f"/alerts/?{query}")
    assert answer.status_code == 404
    assert "Traceback" not in answer.content.decode()


def test_several_alerts_are_decided_at_once_each_by_itself(listed: Listed) -> None:
    client, ada = listed.client, listed.ada
    answer = client.post("/alerts/decide/", {"alert": f"{listed.first.pk}:confirmed", "action": "fixed"})
    assert answer["Location"].startswith("/login/")

    client.force_login(ada)
    assert "Saved: 2 alerts." in listed.decide("take", "looking")
    assert set(Alert.objects.values_list("status", "assignee__username")) == {("confirmed", "ada")}
    assert "say in a note why it is expected" in listed.decide("expected")
    assert "cannot be made 'nonsense'" in listed.decide("nonsense").replace("&#x27;", "'")

    Alert.objects.filter(pk=listed.first.pk).update(status="invalid")
    page = listed.decide("expected", "the price of <durability>")
    assert f"Not saved, alert {listed.first.pk}: the alert is invalid meanwhile" in page
    assert "Saved: 1 alert." in page
    assert dict(Alert.objects.values_list("pk", "status")) == {listed.first.pk: "invalid", listed.second.pk: "expected"}
    event = listed.second.events.latest("pk")
    assert (event.who, event.after, event.note) == (ada, "expected", "the price of <durability>")

    for form, says in (
        ({}, "No alert is selected"),
        ({"alert": ["x:y", "9" * 30]}, "No alert is selected"),
        ({"alert": "999:fixed"}, "does not exist"),
    ):
        assert says in html_of(client.post("/alerts/decide/", form, follow=True))
    form = {"alert": f"{listed.first.pk}:invalid", "action": "take", "back": "//evil.example/"}
    assert client.post("/alerts/decide/", form)["Location"] == "/alerts/"
    without_token = Client(enforce_csrf_checks=True)
    without_token.force_login(ada)
    assert without_token.post("/alerts/decide/", form).status_code == 403


def test_the_json_has_the_judgement_that_the_page_shows(listed: Listed) -> None:
    """Word, sign and colour, in the list, the alert's own document and the API; a settled one has no colour."""
    listed.first.change_points.filter(series__metric=CPU).update(ratio=0.8)
    Alert.objects.filter(pk=listed.second.pk).update(status="fixed")
    by_id = {row["id"]: row for row in listed.client.get("/alerts.json?status=all").json()["alerts"]}
    first, second = by_id[listed.first.pk], by_id[listed.second.pk]
    assert [first[key] for key in ("verdict", "look", "sign")] == ["worse", "worse", "!"]
    assert [second[key] for key in ("verdict", "look", "sign")] == ["worse", "settled", "!"]
    judged = {(row["look"], row["sign"], row["words"]) for row in first["changes"]}
    assert judged == {("better", "✓", "faster"), ("worse", "!", "slower")}
    assert {row["look"] for row in second["changes"]} == {"settled"}
    page = html_of(listed.client.get(f"/alerts/{listed.first.pk}/"))
    assert {look for look, *_ in judged} == set(re.findall(r'<td class="number (\w+)"><strong>', page))
    assert listed.client.get(f"/alerts/{listed.first.pk}.json").json()["changes"][0]["look"] == "worse"
    from_api = listed.client.get("/api/v1/projects/kvd/change-points").json()["items"]
    assert {row["look"] for row in from_api if row["alert"] == listed.second.pk} == {"settled"}


def test_the_judgements_of_more_changes_take_no_more_queries(listed: Listed) -> None:
    few = queries(listed.client, "/api/v1/projects/kvd/change-points")
    copy_of(listed.first, listed.world, 4)
    assert queries(listed.client, "/api/v1/projects/kvd/change-points") == few
