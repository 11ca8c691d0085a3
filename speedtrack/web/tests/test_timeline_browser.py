"""The chart of a timeline, explored in a real browser with pointer, wheel, keys and fingers."""

import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, Locator, Page, Route, expect

from speedtrack.accounts import members
from speedtrack.accounts.models import Role
from speedtrack.alerts.models import Alert
from speedtrack.projects.models import Annotation, Commit
from speedtrack.web.tests.test_browser import OVERFLOW, chart_is_drawn, chromium, shown, watched  # noqa: F401
from speedtrack.web.tests.test_triage_browser import log_in
from speedtrack.web.tests.world import CPU, World

pytestmark = pytest.mark.browser

LINE = f"/p/kvd/timeline/get-p1/{CPU}"
HAS_COLOUR = """
    wanted => {
        const canvas = document.querySelector("canvas#chart");
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        for (let i = 0; i < data.length; i += 4)
            if (wanted.every((part, at) => data[i + at] === part)) return true;
        return false;
    }
"""
PLACES = range(6, 98, 2)  # percent of a chart's width


def box_of(canvas: Locator) -> Any:
    box = canvas.bounding_box()
    assert box
    return box


def hover(page: Page, sha: str) -> tuple[float, float]:
    """Move the mouse along the chart until the tip is that of a commit; the place of the mouse."""
    box = box_of(page.locator("canvas#chart"))
    for percent in PLACES:
        place = (box["x"] + box["width"] * percent / 100, box["y"] + box["height"] / 2)
        page.mouse.move(*place)
        tip = page.locator(".tip")
        if tip.is_visible() and sha[:10] in tip.inner_text():
            return place
    raise AssertionError(f"no tip of {sha}")


def drag(page: Page, canvas: str, begin: float, end: float) -> None:
    """Drag along a canvas, between two parts of its width."""
    box = box_of(page.locator(canvas))
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * begin, y)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * end, y, steps=4)
    page.mouse.up()


def shown_range(page: Page, made: World) -> tuple[int, int]:
    """The positions of the first and the last commit shown, from ``from`` and ``to`` in the address."""
    page.wait_for_function("() => location.search.includes('from=')")
    page.wait_for_timeout(300)  # the address follows when the reader pauses
    query = parse_qs(urlparse(page.url).query)
    shas = [sha[:12] for sha in made.shas]
    return shas.index(query["from"][0]), shas.index(query["to"][0])


def is_ready(page: Page) -> None:
    page.wait_for_function("() => document.querySelector('.chartstate').textContent === ''")


def whole_is_shown(page: Page) -> None:
    page.wait_for_function("() => !location.search.includes('from=')")
    assert page.locator("#reset").is_hidden()


def move_by_wheel_and_strip(page: Page, made: World) -> None:
    """The wheel zooms about the pointer, and the strip below moves what is shown."""
    box = box_of(page.locator("canvas#chart"))
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] / 2)
    page.wait_for_timeout(400)  # the page was scrolled to the chart: until then, the wheel scrolls on
    page.mouse.wheel(0, -300)
    first, last = shown_range(page, made)
    assert 0 < first < last == 7
    strip = box_of(page.locator("canvas#overview"))
    drag(page, "canvas#overview", 0.8, 0.8 - 200 / strip["width"])
    page.wait_for_function("before => !location.search.includes(before)", arg=f"from={made.shas[first][:12]}")
    assert shown_range(page, made)[0] < first
    page.reload()
    is_ready(page)
    assert page.locator("#reset").is_visible()
    page.locator("#reset").click()
    whole_is_shown(page)


def move_by_keys(page: Page, made: World) -> None:
    page.locator("canvas#chart").focus()
    page.keyboard.press("Home")
    assert made.shas[0][:10] in (page.locator("#said").text_content() or "")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert made.shas[1][:10] in page.locator("#pins article").inner_text()
    page.keyboard.press("+")
    assert shown_range(page, made)[1] < 7
    page.keyboard.press("End")
    page.wait_for_function("sha => location.search.includes(sha)", arg=f"to={made.shas[7][:12]}")
    for _ in range(3):
        page.keyboard.press("Escape")
    whole_is_shown(page)


def test_the_chart_is_explored(shown: tuple[World, Alert, str], chromium: Browser) -> None:  # noqa: F811
    made, alert, url = shown
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    page.goto(f"{url}{LINE}?last=200")
    chart_is_drawn(page)

    # Hovering tells what is known of a commit.
    slow = hover(page, made.shas[5])
    tip = page.locator(".tip").inner_text()
    assert "<script>alert(1)</script>" in tip and "Ada Example, 2023-11-" in tip and "n = 5)" in tip
    assert "+20" in tip and "against the commit before" in tip
    assert f"slower +20.1%, confirmed, alert {alert.pk}" in tip

    # A click pins it, a second one compares.
    page.mouse.click(*slow)
    card = page.locator("#pins article").first
    assert made.shas[5][:10] in card.inner_text()
    assert card.get_by_role("link", name=f"alert {alert.pk}").get_attribute("href") == f"/alerts/{alert.pk}/"
    card.get_by_role("link", name="reproduce").wait_for()  # comes with the run, after the card
    assert card.get_by_text(re.compile("µs, .* µs, ")).count() == 1
    page.mouse.click(*hover(page, made.shas[2]))
    difference = page.locator("#pins article.difference")
    assert "B against A" in difference.inner_text()
    # The cards show the server's verdicts, which come after them.
    expect(difference.locator("span.better")).to_have_text(re.compile(r"^✓ faster −16\.\d% \(−\d"))
    expect(card.locator("dd span.worse").first).to_have_text(re.compile(r"^! slower \+20\.1% \(\+\d"))
    # A drag zooms, a double click shows the whole again; what is pinned stays, and the opened table follows.
    page.get_by_text("All values as a table").click()
    rows = page.locator("details.values tbody tr")
    rows.nth(7).wait_for()
    page.locator("canvas#chart").scroll_into_view_if_needed()
    drag(page, "canvas#chart", 0.4, 0.8)
    first, last = shown_range(page, made)
    assert 0 < first < last < 7
    is_ready(page)
    assert "last=200" in page.url
    assert f"from={made.shas[first][:12]}" in (page.get_by_role("link", name="CSV").get_attribute("href") or "")
    expect(rows).to_have_count(last - first + 1)
    pins = page.locator("#pins").inner_text()
    page.locator("canvas#chart").dblclick()
    whole_is_shown(page)
    assert page.locator("#pins article").count() == 3 and page.locator("#pins").inner_text() == pins
    expect(rows).to_have_count(8)
    page.get_by_role("button", name=f"Unpin {made.shas[5][:10]}").click()
    assert page.locator("#pins article").count() == 1
    page.locator("canvas#chart").focus()
    page.keyboard.press("Escape")
    assert page.locator("#pins").is_hidden()

    move_by_wheel_and_strip(page, made)
    move_by_keys(page, made)
    assert complaints == []


def test_a_table_that_could_not_be_loaded_is_loaded_when_it_is_opened_again(
    shown: tuple[World, Alert, str],  # noqa: F811
    chromium: Browser,  # noqa: F811
) -> None:
    page = watched(chromium, 1280, [])
    page.goto(f"{shown[2]}{LINE}?last=200")
    chart_is_drawn(page)
    page.route("**/*part=values*", lambda route: route.abort())
    opener = page.get_by_text("All values as a table")
    opener.click()
    problem = page.get_by_text("The table could not be loaded: the server does not answer. The CSV has all values.")
    problem.wait_for()
    opener.click()
    page.unroute("**/*part=values*")
    opener.click()
    expect(page.locator("details.values tbody tr")).to_have_count(8)
    assert problem.count() == 0


def test_lines_and_axes_are_chosen(shown: tuple[World, Alert, str], chromium: Browser) -> None:  # noqa: F811
    made, _, url = shown
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    page.goto(f"{url}{LINE}")
    is_ready(page)

    # Lines are found by their words, and removed in the legend.
    page.get_by_role("combobox", name="Add a line").press_sequentially("throughput set")
    page.get_by_role("option", name=re.compile("set-p1 · Throughput")).wait_for()
    page.keyboard.press("Enter")
    page.wait_for_url("**line=*")
    is_ready(page)
    assert page.locator(".linelist li").count() == 2
    assert page.locator("#coverage").inner_text().count("8 of 8") == 2
    hover(page, made.shas[5])
    assert "k/s" in page.locator(".tip").inner_text() and "µs" in page.locator(".tip").inner_text()

    # Relative to a commit, over time, logarithmic; each is in the address, and the others stay.
    page.mouse.click(*hover(page, made.shas[2]))
    page.get_by_role("link", name="Set as base").click()
    page.wait_for_url("**base=*")
    is_ready(page)
    hover(page, made.shas[5])
    assert re.search(r"(19\.9|20\.\d)%, 6\.0\d µs", page.locator(".tip").inner_text())
    for name in ("time", "log", "single trials"):
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_load_state()
        is_ready(page)
    query = parse_qs(urlparse(page.url).query)
    assert {key: query[key] for key in ("axis", "y", "trials")} == {"axis": ["time"], "y": ["log"], "trials": ["1"]}
    assert query["base"] == [made.shas[2][:12]] and len(query["line"]) == 1
    hover(page, made.shas[5])
    with page.expect_download() as saved:
        page.get_by_role("link", name="PNG").click()
    assert saved.value.suggested_filename == f"get-p1-{CPU}.png"
    page.get_by_role("link", name=re.compile("Remove set-p1")).click()
    page.wait_for_url(lambda address: "line=" not in address)
    is_ready(page)
    assert page.locator(".linelist li").count() == 1

    # On a phone, a tap pins and nothing scrolls sideways.
    context = chromium.new_context(has_touch=True, viewport={"width": 390, "height": 800})
    phone = context.new_page()
    phone.goto(f"{url}{LINE}?line=/set-p1")
    is_ready(phone)
    phone.locator("canvas#chart").scroll_into_view_if_needed()
    box = box_of(phone.locator("canvas#chart"))
    phone.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    phone.locator("#pins article").wait_for()
    assert phone.evaluate(OVERFLOW) <= 0

    # In the dark it is drawn in other colours; on paper never.
    for media, scheme, blue in (("screen", "dark", [116, 170, 255]), ("print", "dark", [27, 95, 208])):
        phone.emulate_media(media=media, color_scheme=scheme)  # type: ignore[arg-type]
        phone.wait_for_function(HAS_COLOUR, arg=blue)
    phone.emulate_media(media="screen", color_scheme="light")

    # Two fingers that part zoom.
    fingers = context.new_cdp_session(phone)
    box = box_of(phone.locator("canvas#chart"))
    middle = box["x"] + box["width"] * 0.7

    def touch(kind: str, *apart: float) -> None:
        places = [{"x": middle + by, "y": box["y"] + box["height"] / 2, "id": i} for i, by in enumerate(apart)]
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    touch("touchStart", -15, 15)
    for by in (25, 40, 60):
        touch("touchMove", -by, by)
    touch("touchEnd")
    first, last = shown_range(phone, made)
    assert 0 < first < last
    assert phone.locator("#pins article").count() == 1
    assert complaints == []


def test_another_benchmark_and_metric_keep_the_query(shown: tuple[World, Alert, str], chromium: Browser) -> None:  # noqa: F811
    _, _, url = shown
    page = watched(chromium, 1280, complaints := [])
    page.goto(f"{url}{LINE}?last=all&machine=kvd-m1")
    benchmarks, metrics = page.locator("select[data-go]").first, page.locator("select[data-go]").nth(1)
    benchmarks.select_option(f"/p/kvd/timeline/set-p1/{CPU}")
    page.wait_for_url(f"**/set-p1/{CPU}?last=all&machine=kvd-m1")
    metrics.select_option("/p/kvd/timeline/set-p1/throughput_rps")
    page.wait_for_url("**/set-p1/throughput_rps?last=all&machine=kvd-m1")
    chart_is_drawn(page)
    assert complaints == []


def test_an_embedded_chart_stays_legible(shown: tuple[World, Alert, str], chromium: Browser) -> None:  # noqa: F811
    _, _, url = shown
    for width in (320, 479, 480, 700, 1280):
        page = watched(chromium, width, [])
        page.goto(f"{url}/embed/p/kvd/timeline/get-p1/{CPU}?last=50")
        page.wait_for_function("() => document.images[0].complete && document.images[0].naturalWidth > 0")
        scale = page.evaluate("() => document.images[0].clientWidth / document.images[0].naturalWidth")
        assert scale >= 1, f"{width} px: text of 11 px is drawn in {11 * scale:.1f} px"
        assert page.evaluate(OVERFLOW) <= 0
        page.close()


def test_dates_are_chosen(shown: tuple[World, Alert, str], chromium: Browser) -> None:  # noqa: F811
    made, _, url = shown
    for place, sha in enumerate(made.shas):
        Commit.objects.filter(sha=sha).update(committed_at=datetime(2026, 5, 1 + place, 12, tzinfo=UTC))
    page = watched(chromium, 390, [])
    page.goto(f"{url}{LINE}?y=log")
    chart_is_drawn(page)
    page.locator("input[name=since]").fill("2026-05-02")
    page.locator("input[name=until]").fill("2026-05-06")
    values = f"{LINE}.json?y=log&from={made.shas[1][:12]}&to={made.shas[5][:12]}"
    with page.expect_request(lambda request: request.url == f"{url}{values}", timeout=15_000):
        page.get_by_role("button", name="Go", exact=True).click()
    chart_is_drawn(page)
    assert page.evaluate(OVERFLOW) <= 0


def test_who_may_annotates_in_a_card(shown: tuple[World, Alert, str], chromium: Browser) -> None:  # noqa: F811
    made, _, url = shown
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    page.goto(f"{url}{LINE}")
    chart_is_drawn(page)
    page.mouse.click(*hover(page, made.shas[3]))
    expect(page.locator("#pins article")).to_be_visible()
    expect(page.get_by_role("button", name="Annotate", exact=True)).to_have_count(0)  # a visitor may not

    ada = User.objects.create_user("ada")
    members.give_role(made.project, ada, Role.TRIAGER)
    log_in(page, url, ada)
    page.reload()
    chart_is_drawn(page)
    held: list[Route] = []
    page.route("**/*.json?*around=*", lambda route: held.append(route))
    page.mouse.click(*hover(page, made.shas[3]))
    address = page.url
    opener, field = (
        page.get_by_role("button", name="Annotate", exact=True),
        page.locator("#pins").get_by_label("Note, in Markdown"),
    )
    opener.press("Enter")
    expect(field).to_be_focused()
    page.keyboard.type("the kernel")
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    expect(field).to_have_value("the kernel")
    held[0].continue_()  # the card is made anew meanwhile
    expect(page.locator("#pins article").get_by_text("Trials")).to_be_visible()
    expect(field).to_be_focused()
    page.keyboard.press("End")
    page.keyboard.type(" was *upgraded* & <b>rebooted</b>")
    assert page.evaluate(OVERFLOW) <= 0
    page.keyboard.press("Control+Enter")
    note = page.locator("#pins .facts .note")
    expect(note).to_have_text("ada: the kernel was upgraded & <b>rebooted</b>")
    expect(field).to_have_count(0)
    assert page.url == address
    stored = Annotation.objects.get()
    assert (stored.commit, stored.author, stored.text) == (
        made.commit(3),
        ada,
        "the kernel was *upgraded* & <b>rebooted</b>",
    )
    page.locator("canvas#chart").focus()
    page.keyboard.press("End")
    for _ in range(4):
        page.keyboard.press("ArrowLeft")
    expect(page.locator("#said")).to_contain_text("note by ada: the kernel was upgraded")
    page.reload()
    chart_is_drawn(page)
    page.mouse.click(*hover(page, made.shas[3]))
    expect(note).to_have_text("ada: the kernel was upgraded & <b>rebooted</b>")

    # What cannot be saved is said in the card, and stays there.
    opener.click()
    page.keyboard.type("once more")
    page.context.clear_cookies()
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#pins").get_by_role("alert")).to_contain_text("Not saved")
    expect(field).to_have_value("once more")
    assert Annotation.objects.count() == 1
