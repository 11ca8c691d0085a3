"""The Atom feeds, read as a feed reader reads them."""

from xml.etree import ElementTree

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import triage
from speedtrack.projects.models import Commit, Project
from speedtrack.web.tests.world import HOSTILE, World, queries

ATOM = "{http://www.w3.org/2005/Atom}"


def read(client: Client, address: str) -> ElementTree.Element:
    answer = client.get(address)
    assert answer.status_code == 200
    assert answer["Content-Type"].startswith("application/atom+xml")
    return ElementTree.fromstring(answer.content)  # noqa: S314 - of our own making


def entries(client: Client, address: str) -> list[ElementTree.Element]:
    return read(client, address).findall(f"{ATOM}entry")


def test_an_alert_is_an_entry_of_its_project_and_of_all(slow: tuple[World, Alert], client: Client) -> None:
    alert = slow[1]
    for address in ("/alerts.atom", f"/p/{alert.project.slug}/alerts.atom"):
        [entry] = entries(client, address)
        assert entry.findtext(f"{ATOM}id") == f"tag:127.0.0.1,2026:speedtrack/alert/{alert.pk}"
        title = entry.findtext(f"{ATOM}title") or ""
        assert "slower +20.1%" in title and "(confirmed)" in title
        link = entry.find(f"{ATOM}link")
        assert link is not None and link.get("href") == f"http://127.0.0.1:8000/alerts/{alert.pk}/"


def test_hostile_text_stays_text_and_the_feed_stays_xml(slow: tuple[World, Alert], client: Client) -> None:
    alert = slow[1]
    Commit.objects.filter(pk=alert.commit_id).update(author_name="Eve\x1b[31m\x07\ufffe")
    Project.objects.update(name="a & b\x01 <c>")
    [entry] = entries(client, "/alerts.atom")
    summary = entry.find(f"{ATOM}summary")
    assert summary is not None and summary.get("type") == "html"
    assert "<script>" not in (summary.text or "") and "&lt;script&gt;" in (summary.text or "")
    assert read(client, f"/p/{alert.project.slug}/alerts.atom").findtext(f"{ATOM}title") == "a & b <c>: alerts"
    assert HOSTILE.split()[0] in alert.commit.subject


def test_a_reader_that_has_it_gets_304_until_something_happens(slow: tuple[World, Alert], client: Client) -> None:
    alert = slow[1]
    first = client.get("/alerts.atom")
    for headers in ({"If-None-Match": first["ETag"]}, {"If-Modified-Since": first["Last-Modified"]}):
        assert client.get("/alerts.atom", headers=headers).status_code == 304
    assert client.get("/alerts.atom?status=fixed")["ETag"] != first["ETag"]
    before = entries(client, "/alerts.atom")[0]
    triage.decide(alert, triage.Decision("confirmed", "expected", None, "it is meant"), User.objects.create_user("ada"))
    second = client.get("/alerts.atom", headers={"If-None-Match": first["ETag"]})
    assert second.status_code == 200
    after = entries(client, "/alerts.atom")[0]
    assert after.findtext(f"{ATOM}id") == before.findtext(f"{ATOM}id")
    assert (after.findtext(f"{ATOM}updated") or "") > (before.findtext(f"{ATOM}updated") or "")
    assert after.findtext(f"{ATOM}published") == before.findtext(f"{ATOM}published")


@pytest.mark.parametrize(("status", "count"), [("open", 1), ("confirmed", 1), ("fixed", 0), ("all", 1), ("<x>", 1)])
def test_a_feed_is_filtered_as_the_page_is(slow: tuple[World, Alert], client: Client, status: str, count: int) -> None:
    assert len(entries(client, f"/alerts.atom?status={status}")) == count


def test_pages_name_their_feeds(slow: tuple[World, Alert], client: Client) -> None:
    slug = slow[1].project.slug
    assert 'type="application/atom+xml"' in client.get("/").content.decode()
    for page in (f"/p/{slug}/", f"/p/{slug}/alerts/", f"/alerts/{slow[1].pk}/"):
        assert f'href="/p/{slug}/alerts.atom"' in client.get(page).content.decode()


def test_a_feed_of_nothing_is_a_feed(kvd: World, client: Client) -> None:
    assert entries(client, "/alerts.atom") == []
    assert client.get("/p/nobody/alerts.atom").status_code == 404
    assert client.post("/alerts.atom").status_code == 405


def test_a_feed_takes_few_queries(slow: tuple[World, Alert], client: Client) -> None:
    assert queries(client, "/alerts.atom") <= 12
