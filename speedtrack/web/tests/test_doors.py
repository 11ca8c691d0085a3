"""What is shown elsewhere: badges, feeds, embedded charts, and the pictures of links."""

import io
import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

import pytest
from django.test import Client
from PIL import Image

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.projects.models import Project, Tag
from speedtrack.web.drawing.small.badges import badge_svg
from speedtrack.web.drawing.small.cards import LinkPicture, card_png
from speedtrack.web.pages.sharing import releaseentries
from speedtrack.web.tests.world import CPU, World, html_of, queries, world

ATOM = "{http://www.w3.org/2005/Atom}"
LINE = f"p/kvd/timeline/get-p1/{CPU}"


def parsed(content: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(content)  # noqa: S314 - of our own making


def message(client: Client, show: str) -> tuple[str, str, str]:
    """Label, message and colour of a badge; the picture says the same."""
    found = json.loads(client.get(f"/p/kvd/badge.json?show={show}").content)
    assert found["schemaVersion"] == 1
    picture = client.get(f"/p/kvd/badge.svg?show={show}")
    assert picture["Content-Type"] == "image/svg+xml" and "max-age" in picture["Cache-Control"]
    words = [text.text for text in parsed(picture.content).iter("{http://www.w3.org/2000/svg}text")]
    assert words == [found["label"], found["message"]]
    return found["label"], found["message"], found["color"]


def release(made: World, place: int, name: str) -> None:
    Tag.objects.create(project=made.project, name=name, sha=made.shas[place])


def test_badges_say_what_is_open_measured_and_changed(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    assert message(client, "alerts") == ("speed alerts", "1 open", "red")
    assert message(client, "freshness") == ("measured", "head", "brightgreen")
    assert message(client, "release") == ("since release", "not measured", "lightgrey")
    release(made, 2, "v1.0.0")
    label, words, colour = message(client, "release")
    assert (label, words, colour) == ("since v1.0.0", "! +20.0%", "red")
    Alert.objects.filter(pk=alert.pk).update(status="expected")
    made.push(2)
    assert message(client, "alerts") == ("speed alerts", "none", "brightgreen")
    assert message(client, "freshness") == ("measured", "2 commits behind", "yellow")


def test_a_badge_that_does_not_exist_is_named(client: Client, kvd: World) -> None:
    for address, named in (("badge.svg?show=<b>", "&lt;b&gt;"), ("badge.gif", "gif"), ("badge.json?show=", "alerts")):
        answer = client.get(f"/p/kvd/{address}")
        assert answer.status_code == 404 and named in answer.content.decode()
    assert client.get("/p/nobody/badge.svg").status_code == 404


def test_long_and_hostile_words_stay_text_in_a_badge() -> None:
    drawn = parsed(badge_svg("<b>&\"'", "x" * 500, "good").encode())
    texts = [text.text or "" for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[0] == "<b>&\"'" and len(texts[1]) == 40


def test_an_embedded_chart_may_be_framed_and_nothing_else(client: Client, slow: tuple[World, Alert]) -> None:
    answer = client.get(f"/embed/{LINE}?last=50&machine=kvd-m1")
    assert "frame-ancestors *" in answer["Content-Security-Policy"]
    assert "X-Frame-Options" not in answer and not answer.cookies and "script" not in answer.content.decode()
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', answer.content.decode())
    assert len(pictures) == 7  # of three sizes, light and dark, and without media queries
    for address in pictures:
        drawn = client.get(address.replace("&amp;", "&"))
        assert drawn["Content-Type"].startswith("image/svg+xml") and not drawn.cookies
        assert "get-p1" in "".join(parsed(drawn.content).itertext())
    assert html_of(client.get(f"/embed/{LINE}?theme=dark")).count("theme=dark") == 3
    assert client.get(f"/embed/p/kvd/timeline/nope/{CPU}").status_code == 404
    for address in ("/", "/p/kvd/", f"/{LINE}", "/search/", "/login/", f"/embed/p/kvd/timeline/nope/{CPU}"):
        other = client.get(address)
        assert "frame-ancestors 'none'" in other["Content-Security-Policy"], address
        assert other["X-Frame-Options"] == "DENY", address


def test_the_snippets_of_a_project_lead_somewhere(client: Client, kvd: World) -> None:
    page = html_of(client.get("/p/kvd/"))
    addresses = set(re.findall(r"http://127\.0\.0\.1:8000(/[^)\]\s&\"]+)", page))
    assert any(address.startswith("/embed/") for address in addresses)
    assert any("badge.svg" in address for address in addresses)
    for address in addresses:
        assert client.get(address).status_code == 200, address


def test_links_have_a_title_and_a_picture(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    base, head = made.shas[1], made.shas[6]
    pages = {
        "/p/kvd/": "kvd",
        f"/{LINE}?machine=kvd-m1": "kvd: get-p1",
        f"/alerts/{alert.pk}/": f"Alert {alert.pk} of kvd",
        f"/p/kvd/compare/?base={base}&head={head}": f"kvd: {head[:10]} against {base[:10]}",
    }
    for address, title in pages.items():
        page = html_of(client.get(address))
        properties = dict(re.findall(r'<meta property="(og:[a-z:]+)" content="([^"]*)">', page))
        assert properties["og:title"] == title
        assert "<script>" not in properties["og:description"]
        picture = urlsplit(properties["og:image"])
        answer = client.get(f"{picture.path}?{picture.query}")
        assert answer["Content-Type"] == "image/png" and "max-age" in answer["Cache-Control"]
        assert Image.open(io.BytesIO(answer.content)).size == (1200, 630)
        assert len(answer.content) < 60_000
    assert "og:image" not in html_of(client.get("/"))


def test_a_picture_of_what_is_missing(client: Client, db: None, settings: Any, tmp_path: Path) -> None:
    world(settings, tmp_path)
    assert client.get("/cards/p/kvd.png").status_code == 200
    for address in ("/cards/p/nobody.png", f"/cards/{LINE}.png", "/cards/alerts/99.png"):
        assert client.get(address).status_code == 404, address


def test_names_of_any_length_and_values_of_any_kind_are_drawn() -> None:
    long = "x" * 500 + "🦀\u202e"
    for values in ([], [None], [1.0], [5.0, None, 5.0], [-1.0, 0.0, 1e300], [None, 3.0, 4.0]):
        assert card_png(LinkPicture("", long, long, long, "worse", values, [(0, "better")])).startswith(b"\x89PNG")


def titles(client: Client, address: str) -> list[str]:
    answer = client.get(address)
    assert answer["Content-Type"].startswith("application/atom+xml")
    return [entry.findtext(f"{ATOM}title") or "" for entry in parsed(answer.content).findall(f"{ATOM}entry")]


def test_certain_changes_are_entries_and_suspicions_are_not(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    Project.objects.update(name="a & b\x01 <c>")
    (title,) = titles(client, "/p/kvd/changes.atom")
    assert title == "Slower +20.1%: get-p1 and 1 more, confirmed"
    content = client.get("/p/kvd/changes.atom").content.decode()
    assert f"/alerts/{alert.pk}/" in content and made.commit(5).short in content and "<script>" not in content
    ChangePoint.objects.update(status="suspected", alert=None)
    assert titles(client, "/p/kvd/changes.atom") == []
    assert queries(client, "/p/kvd/changes.atom") <= 6


def test_releases_are_entries_with_their_change(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    newest = (3, "v99999999999999999999.1")
    for place, name in ((1, "v1.0.0"), (2, "v1.1.0-rc1"), (3, "v1.1.0"), (7, "v1.10.0"), newest):
        release(made, place, name)
    found = titles(client, "/p/kvd/releases.atom")
    assert [title.split(":")[0] for title in found] == ["v99999999999999999999.1", "v1.10.0", "v1.0.0"]
    assert found[1] == "v1.10.0: slower, +20.1% against v1.0.0" and found[2] == "v1.0.0: measured"
    assert client.get("/p/nobody/releases.atom").status_code == 404


def test_with_many_benchmarks_a_page_of_the_feed_has_fewer_releases(
    client: Client, slow: tuple[World, Alert], monkeypatch: Any
) -> None:
    """Each page links to the one behind it; together they have the same entries."""
    made, _ = slow
    for place, name in ((1, "v1.0"), (3, "v1.9"), (5, "v1.10"), (7, "v2.0")):
        release(made, place, name)
    whole = titles(client, "/p/kvd/releases.atom")
    assert 'rel="next"' not in client.get("/p/kvd/releases.atom").content.decode()
    monkeypatch.setattr(releaseentries, "MOST_COMPARED", 2)
    address, pages = "/p/kvd/releases.atom", []
    while address:
        pages.append(titles(client, address))
        links = parsed(client.get(address).content).findall(f"{ATOM}link")
        address = next((link.get("href", "") for link in links if link.get("rel") == "next"), "")
    assert len(pages) == len(whole) == 4 and [title for page in pages for title in page] == whole
    assert client.get("/p/kvd/releases.atom?before=main").status_code == 404
    assert titles(client, "/p/kvd/releases.atom?before=v0.1") == []


@pytest.mark.parametrize(
    ("address", "most"), [("/p/kvd/badge.svg?show=release", 12), ("/p/kvd/releases.atom", 12), ("/cards/p/kvd.png", 12)]
)
def test_they_take_few_queries(client: Client, kvd: World, address: str, most: int) -> None:
    release(kvd, 0, "1.0")
    release(kvd, 3, "1.1")
    assert queries(client, address) <= most
