"""Mutes: their page and form, and the other pages that show them."""

from django.contrib.auth.models import User
from django.test import Client

from speedtrack.alerts.models import Alert, Mute
from speedtrack.web.tests.world import World, html_of, queries

PAGE = "/p/kvd/mutes/"
FORM = {"benchmark": "get-p1", "metric": "", "machine": "kvd-m1", "days": "3", "reason": "<b>new disk</b>"}


def test_a_mute_is_made_shown_and_ended(client: Client, kvd: World) -> None:
    client.force_login(User.objects.create_superuser("ada"))
    page = html_of(client.post(PAGE, FORM, follow=True))
    assert "Muted: get-p1 on kvd-m1." in page and "&lt;b&gt;new disk&lt;/b&gt;" in page and "ada" in page
    mute = Mute.objects.get()
    page = html_of(client.post(f"{PAGE}{mute.pk}/end/", follow=True))
    assert "The mute has ended." in page and "Nothing is muted." in page and "Ended" in page
    assert "has ended already" in html_of(client.post(f"{PAGE}{mute.pk}/end/", follow=True))


def test_what_cannot_be_muted_is_said(client: Client, kvd: World) -> None:
    client.force_login(User.objects.create_superuser("ada"))
    for changes, says in (
        ({"reason": ""}, "say why"),
        ({"days": "x"}, "how many days"),
        ({"benchmark": "none"}, "no benchmark"),
        ({"metric": "none"}, "no metric"),
        ({"machine": "none"}, "no machine"),
        ({"benchmark": "", "machine": ""}, "which benchmark or machine"),
    ):
        page = html_of(client.post(PAGE, FORM | changes, follow=True))
        assert "Not muted: " in page and says in page, changes
    assert not Mute.objects.exists()


def test_only_people_who_logged_in_mute(client: Client, kvd: World) -> None:
    assert "<textarea" not in html_of(client.get(PAGE))
    assert client.post(PAGE, FORM)["Location"].startswith("/login/")
    assert client.get("/p/none/mutes/").status_code == 404


def test_a_mute_is_shown_on_the_alert_and_the_timeline(client: Client, slow: tuple[World, Alert]) -> None:
    _, alert = slow
    client.force_login(User.objects.create_superuser("ada"))
    client.post(PAGE, FORM)
    assert "&lt;b&gt;new disk&lt;/b&gt;" in html_of(client.get(f"/alerts/{alert.pk}/"))
    page = html_of(client.get("/p/kvd/timeline/get-p1/server_cpu_ns_per_request"))
    assert "Muted on kvd-m1 until" in page and "&lt;b&gt;new disk&lt;/b&gt;" in page
    other = html_of(client.get("/p/kvd/timeline/set-p1/server_cpu_ns_per_request"))
    assert "Muted on" not in other


def test_the_number_of_queries_does_not_grow(client: Client, kvd: World) -> None:
    client.force_login(User.objects.create_superuser("ada"))
    client.post(PAGE, FORM)
    few = queries(client, PAGE)
    for _ in range(3):
        client.post(PAGE, FORM)
    assert queries(client, PAGE) == few
