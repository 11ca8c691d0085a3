"""A person's own board: what is pinned, in which order, and what of it the person may still see."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, connection, transaction
from django.test import Client

from speedtrack.accounts import members, pins
from speedtrack.accounts.models import MOST_PINS, AuditEntry, Pin, Role
from speedtrack.accounts.pins import BoardIsFull
from speedtrack.alerts.models import Alert
from speedtrack.projects.models import Project
from speedtrack.web.tests.world import CPU, World, html_of, queries

PER_PIN = 8  # queries: each is read as its own page is, and a board has few
LINE = f"/p/kvd/timeline/get-p1/{CPU}"


@pytest.fixture
def bob(db: None) -> User:
    return User.objects.create_user("bob")


@pytest.fixture
def his(client: Client, bob: User) -> Client:
    client.force_login(bob)
    return client


def pinned(his: Client, address: str) -> Any:
    return his.post("/board/", {"pin": address})


def numbers(bob: User) -> list[int]:
    return [one.pk for one in pins.pins_of(bob)]


def test_a_timeline_and_a_comparison_are_shown_with_their_sentences(
    his: Client, bob: User, slow: tuple[World, Alert]
) -> None:
    shas = slow[0].shas
    sides = f"/p/kvd/compare/?base={shas[4]}&head={shas[5]}"
    assert pinned(his, f"{LINE}?last=50").url == f"{LINE}?last=50"
    assert pinned(his, sides).url == sides
    page = html_of(his.get("/board/"))
    assert page.index(f'href="{LINE}?last=50"') < page.index(f'href="{sides.replace("&", "&amp;")}"')
    assert 'class="mark worse"' in page and ">! slower +20" in page
    assert "Slower +20" in page and ": get-p1 and 1 more" in page
    part = html_of(his.get("/board/?part=live"))
    assert "<html" not in part and part.count("Unpin</button>") == 2
    assert AuditEntry.objects.count() == 0


def test_the_same_is_pinned_once_however_it_is_written(his: Client, bob: User, kvd: World) -> None:
    pinned(his, f"{LINE}?branch=main&line=set-p1")
    pinned(his, f"{LINE.replace('get', '%67et')}?part=values&branch=main&line=set-p1")
    assert [one.address for one in pins.pins_of(bob)] == [f"{LINE}?branch=main&line=set-p1"]
    assert "and 1 more line</span>" in html_of(his.get("/board/"))
    pinned(his, f"{LINE}?branch=main&line=set-p1")
    assert "on your board already" in html_of(his.get(LINE))


@pytest.mark.parametrize(
    "address",
    [
        "",
        "/",
        "/p/kvd/",
        "https://[",
        "//elsewhere.example/p/kvd/board/",
        f"{LINE}?branch=a%00b",
        f"{LINE}?q={'a' * 2000}",
    ],
)
def test_only_timelines_and_comparisons_of_this_site_can_be_pinned(his: Client, kvd: World, address: str) -> None:
    assert pinned(his, address).status_code == 404
    assert Pin.objects.count() == 0


def test_pins_are_moved_and_removed(his: Client, bob: User, kvd: World) -> None:
    for last in (50, 200, 1000):
        pinned(his, f"{LINE}?last={last}")
    first, second, third = numbers(bob)
    assert his.post("/board/", {"earlier": third}).url == f"/board/#pin-{third}"
    assert numbers(bob) == [first, third, second]
    his.post("/board/", {"later": first})
    his.post("/board/", {"later": second})  # it is the last one already
    assert numbers(bob) == [third, first, second]
    his.post("/board/", {"unpin": third})
    his.post("/board/", {"unpin": third})  # from a page that is still open
    assert numbers(bob) == [first, second]
    assert [one.place for one in pins.pins_of(bob)] == [0, 1]
    assert his.post("/board/", {"unpin": "x"}).status_code == 404
    assert his.post("/board/", {}).status_code == 404


def test_nobody_changes_the_board_of_another(his: Client, bob: User, kvd: World) -> None:
    eve = User.objects.create_user("eve")
    pins.pin(eve, LINE)
    (number,) = numbers(eve)
    his.post("/board/", {"unpin": number})
    assert numbers(eve) == [number] and "Nothing is pinned" in html_of(his.get("/board/"))
    his.logout()
    assert his.get("/board/").url == "/login/?next=/board/"


def test_a_board_has_an_end(his: Client, bob: User, kvd: World) -> None:
    for last in range(MOST_PINS):
        pins.pin(bob, f"{LINE}?last={last + 1}")
    with pytest.raises(BoardIsFull, match="unpin one first"):
        pins.pin(bob, LINE)
    assert pinned(his, LINE).status_code == 302
    assert "Not pinned: your board has 20 pins" in html_of(his.get(LINE))
    with pytest.raises(IntegrityError, match="a_board_has_20_places"), transaction.atomic():
        Pin.objects.create(user=bob, address=LINE, place=MOST_PINS)


def test_the_database_refuses_a_pin_twice_and_two_in_one_place(bob: User) -> None:
    pins.pin(bob, LINE)
    with pytest.raises(IntegrityError, match="an_address_is_pinned_once"), transaction.atomic():
        Pin.objects.create(user=bob, address=LINE, place=1)
    with pytest.raises(IntegrityError, match="one_pin_per_place_of_a_board"), transaction.atomic():
        Pin.objects.create(user=bob, address="/p/kvd/compare/", place=0)
        connection.check_constraints()


def test_what_the_person_may_not_see_any_more_is_a_line(his: Client, bob: User, kvd: World) -> None:
    pinned(his, LINE)
    pinned(his, "/p/kvd/compare/")
    Project.objects.update(is_public=False)
    page = html_of(his.get("/board/"))
    assert page.count("The project kvd was deleted, or it is private now and you are not a member.") == 2
    assert page.count("Unpin</button>") == 2 and "quantity" not in page and 'class="spark"' not in page
    members.give_role(kvd.project, bob, Role.READER)
    assert 'class="spark"' in html_of(his.get("/board/"))


def test_names_that_are_gone_are_a_line(his: Client, bob: User, kvd: World) -> None:
    for address in (LINE, f"{LINE}?branch=gone", "/p/kvd/compare/?base=gone", "/p/gone/compare/"):
        pins.pin(bob, address)
    page = html_of(his.get("/board/"))
    assert "There is no branch" in page and "has no commit, branch or tag" in page
    assert "The project gone was deleted" in page
    assert len(re.findall(r'class="spark"', page)) == 1


def test_a_pin_costs_a_bounded_number_of_queries(his: Client, bob: User, slow: tuple[World, Alert]) -> None:
    shas = slow[0].shas
    empty = queries(his, "/board/")
    pins.pin(bob, LINE)
    chart = queries(his, "/board/")
    pins.pin(bob, f"/p/kvd/compare/?base={shas[4]}&head={shas[5]}")
    assert empty <= 12 and chart - empty <= PER_PIN and queries(his, "/board/") - chart <= PER_PIN
