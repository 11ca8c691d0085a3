"""Live pages in a real browser: a log that grows, also across a kill of the process of streams, and without it."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from runners.tests.ports import free_port
from speedtrack.alerts.models import Alert
from speedtrack.processes.live.tests.test_live import Live
from speedtrack.runs.documents import LogPiece, Renewal, ReportedProgress
from speedtrack.runs.models import Machine, Run
from speedtrack.runs.queue import queue
from speedtrack.tests import builders, duels
from speedtrack.web.tests.test_browser import OVERFLOW, chromium, shown, watched  # noqa: F401
from speedtrack.web.tests.world import World, world

pytestmark = pytest.mark.browser


@pytest.fixture
def run(live_server: Any, settings: Any, tmp_path: Any) -> Run:
    """A run that its runner has claimed, on a site whose pages know no process of streams."""
    settings.LIVE_URL = ""
    made = world(settings, tmp_path, commits=1)
    return builders.claim(made.machines[0])


@pytest.fixture
def live(run: Run, live_server: Any, settings: Any) -> Iterator[Live]:
    """A process of streams that pages know."""
    with streams(live_server, settings) as made:
        yield made


@contextmanager
def streams(live_server: Any, settings: Any) -> Iterator[Live]:
    made = Live(free_port(), {"SPEEDTRACK_URL": live_server.url}).start()
    settings.LIVE_URL = made.url
    settings.SECURE_CSP = settings.SECURE_CSP | {"connect-src": f"'self' {made.url}"}
    try:
        yield made
    finally:
        made.kill()


def send(run: Run, seq: int, text: str, phase: str = "measure") -> None:
    queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=seq, phase=phase, text=text))


def report(run: Run, done: int, now: str = "get-p1, trial 1") -> None:
    progress = ReportedProgress(done=done, total=10, now=now)
    queue.renew(run.machine, run.pk, Renewal(token=run.lease_token, progress=progress))


def shows(page: Page, *texts: str) -> None:
    for text in texts:
        page.get_by_text(text, exact=True).first.wait_for()


def texts(page: Page) -> list[str]:
    return page.locator(".loglines > li > span").all_text_contents()


def test_a_log_grows_in_the_page(run: Run, live: Live, live_server: Any, chromium: Browser) -> None:  # noqa: F811
    send(run, 0, "one\ntw", phase="build a")
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{live_server.url}/runs/{run.pk}/log/")
    assert texts(page) == ["one", "tw"]
    send(run, 1, "o\n\x1b[31mthree\x1b[0m <b>\n", phase="build a")
    shows(page, "three <b>")
    send(run, 2, "trial 1\n", phase="measure")
    shows(page, "trial 1")
    assert texts(page) == ["one", "two", "three <b>", "trial 1"]
    assert page.locator("summary strong").all_text_contents() == ["build a", "measure"]
    assert page.locator("b.red").text_content() == "three"
    assert not [url for url in asked if "log.json" in url], "it does not ask as well"
    assert [url for url in asked if "/live/" in url] == [f"{live.url}/live/runs/{run.pk}?at=2"]
    assert complaints == []


def test_after_a_kill_of_the_process_the_page_asks_and_then_listens_again(
    run: Run,
    live: Live,
    live_server: Any,
    chromium: Browser,  # noqa: F811
) -> None:
    send(run, 0, "one\n")
    page = watched(chromium, 1280, [])
    page.goto(f"{live_server.url}/runs/{run.pk}/log/")
    send(run, 1, "two\n")
    shows(page, "two")
    live.kill()
    send(run, 2, "three\n")
    shows(page, "three")
    live.start()
    with page.expect_response(lambda answer: "/live/" in answer.url and answer.ok):
        pass
    send(run, 3, "four\nfive\n")
    shows(page, "five")
    assert texts(page) == ["one", "two", "three", "four", "five"]


def test_without_a_process_of_streams_the_page_asks(run: Run, live_server: Any, chromium: Browser) -> None:  # noqa: F811
    complaints: list[str] = []
    page = watched(chromium, 390, complaints)
    page.goto(f"{live_server.url}/runs/{run.pk}/log/")
    assert "Nothing has been written yet" in page.inner_text("main")
    send(run, 0, "one\n")
    shows(page, "one")
    queue.cancel(run, "no longer wanted")
    queue.renew(run.machine, run.pk, Renewal(token=run.lease_token))
    send_after = texts(page)
    assert send_after == ["one"] and complaints == []


def test_a_run_and_the_queue_move(run: Run, live: Live, live_server: Any, chromium: Browser) -> None:  # noqa: F811
    complaints: list[str] = []
    of_run, of_queue = watched(chromium, 1280, complaints), watched(chromium, 1280, complaints)
    of_run.goto(f"{live_server.url}/runs/{run.pk}/")
    of_queue.goto(f"{live_server.url}/queue/")
    report(run, 4)
    for page in (of_run, of_queue):
        page.get_by_text("4 of 10: get-p1, trial 1").wait_for()
        assert page.locator("progress").get_attribute("value") == "40"
    assert "measure 40%" in (of_run.locator("#livesaid").text_content() or "")
    send(run, 0, "a line\n")
    shows(of_run, "a line")
    queue.cancel(run, "no longer wanted")
    report(run, 5)
    of_run.locator(".state.cancelled").first.wait_for()
    of_queue.get_by_text("Nothing to do.").wait_for()
    assert complaints == []


def test_a_click_holds_while_the_page_moves(run: Run, live: Live, live_server: Any, chromium: Browser) -> None:  # noqa: F811
    page = watched(chromium, 1280, [])
    with page.expect_response(lambda answer: "/live/" in answer.url and answer.ok):
        page.goto(f"{live_server.url}/queue/")
    page.locator(f"[data-live] a[href='/runs/{run.pk}/']").first.hover()
    page.mouse.down()
    with page.expect_response(lambda answer: answer.url.startswith(f"{live_server.url}/queue/")) as answer:
        queue.cancel(run, "no longer wanted")
        queue.renew(run.machine, run.pk, Renewal(token=run.lease_token))
    answer.value.finished()
    page.wait_for_timeout(500)  # more than the part takes to be replaced
    page.mouse.up()
    page.wait_for_url(f"**/runs/{run.pk}/")


def test_a_hidden_page_has_no_stream(run: Run, live: Live, live_server: Any, chromium: Browser) -> None:  # noqa: F811
    page = watched(chromium, 1280, [])
    page.add_init_script(
        "let hidden = false; Object.defineProperty(document, 'hidden', { get: () => hidden });"
        "window.turn = (to) => { hidden = to; document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.goto(f"{live_server.url}/runs/{run.pk}/log/")
    send(run, 0, "one\n")
    shows(page, "one")
    page.evaluate("turn(true)")
    send(run, 1, "two\n")
    page.wait_for_timeout(2500)  # more than a look takes: the line would be there
    assert texts(page) == ["one"]
    with page.expect_request(lambda request: "/live/" in request.url):
        page.evaluate("turn(false)")
    shows(page, "two")
    assert texts(page) == ["one", "two"]


def test_lines_are_linked_and_loaded_where_they_are_asked_for(
    run: Run,
    live_server: Any,
    chromium: Browser,  # noqa: F811
) -> None:
    for seq in range(30):
        send(run, seq, "".join(f"line {n}\n" for n in range(100 * seq + 1, 100 * seq + 101)))
    complaints: list[str] = []
    page = watched(chromium, 1280, complaints)
    address = f"{live_server.url}/runs/{run.pk}/log/"
    page.goto(f"{address}#L120-L140")
    page.wait_for_url("**/log/?from=100#L120-L140")
    page.locator("li.chosen").nth(20).wait_for()
    assert page.locator("li.chosen").count() == 21
    page.locator("#L130 > a").click()
    page.locator("#L133 > a").click(modifiers=["Shift"])
    assert page.url.endswith("#L130-L133") and page.locator("li.chosen").count() == 4
    page.get_by_text("Lines 1 to 99").click()
    page.locator("#L1").wait_for(state="attached")
    page.get_by_text("Lines 600 to 3000").click()
    page.locator("#L1099").wait_for(state="attached")
    assert texts(page) == [f"line {n}" for n in range(1, 1100)]
    page.locator("#wrap").uncheck()
    assert page.locator("body.unwrapped").count() == 1
    page.reload()
    assert not page.locator("#wrap").is_checked()
    page.fill("#needle", "LINE 2999")
    page.keyboard.press("Enter")
    page.get_by_role("link", name="2999", exact=True).click()
    page.locator("#L2999.chosen").wait_for()
    assert complaints == []


def notice(page: Page) -> Locator:
    return page.get_by_role("status").filter(has_text=re.compile("Not live since|Live again"))


@pytest.mark.parametrize("path", ["/queue/", "/runs/{}/", "/runs/{}/log/"])
def test_a_page_says_that_it_is_not_live_and_that_it_is_again(
    run: Run,
    live: Live,
    live_server: Any,
    chromium: Browser,  # noqa: F811
    path: str,
) -> None:
    send(run, 0, "one\n")
    page = watched(chromium, 390, [])
    with page.expect_response(lambda answer: "/live/" in answer.url and answer.ok):
        page.goto(live_server.url + path.format(run.pk))
    expect(notice(page)).to_have_count(0)
    live.kill()
    away = re.compile(r"^Not live since \d\d:\d\d, trying again\. Meanwhile")
    expect(notice(page)).to_have_text(away, timeout=10_000)
    live.start()
    expect(notice(page)).to_have_text("Live again.", timeout=60_000)
    expect(notice(page)).to_have_count(0, timeout=10_000)


def test_a_stream_that_falls_silent_is_noticed_without_its_end(
    run: Run,
    live: Live,
    live_server: Any,
    chromium: Browser,  # noqa: F811
) -> None:
    page = watched(chromium, 1280, [])
    page.goto(f"{live_server.url}/queue/")
    page.wait_for_timeout(1000)
    assert live.process
    live.process.send_signal(signal.SIGSTOP)
    expect(notice(page)).to_have_text(re.compile("^Not live since"), timeout=11_000)
    live.process.send_signal(signal.SIGCONT)
    expect(notice(page)).to_have_text("Live again.", timeout=60_000)


def test_while_the_web_server_is_away_the_page_says_so_too(
    run: Run,
    live: Live,
    live_server: Any,
    chromium: Browser,  # noqa: F811
) -> None:
    page = watched(chromium, 1280, [])
    page.goto(f"{live_server.url}/queue/")
    page.route("**/queue/?part=live", lambda route: route.abort())
    Machine.objects.update(paused=True)
    expect(notice(page)).to_have_text(re.compile(r"^Not live since .*, trying again\.$"), timeout=15_000)
    page.unroute("**/queue/?part=live")
    expect(notice(page)).to_have_text("Live again.", timeout=60_000)


def test_without_streams_a_page_says_that_nothing_answers(run: Run, live_server: Any, chromium: Browser) -> None:  # noqa: F811
    page = watched(chromium, 1280, [])
    page.goto(f"{live_server.url}/queue/")
    page.route("**/queue/?part=live", lambda route: route.abort())
    expect(notice(page)).to_have_text(re.compile(r"^Not live since .*, trying again\.$"), timeout=10_000)
    page.unroute("**/queue/?part=live")
    expect(notice(page)).to_have_text("Live again.", timeout=60_000)


def test_relative_times_tick_without_the_server(run: Run, live_server: Any, chromium: Browser) -> None:  # noqa: F811
    page = watched(chromium, 1280, [])
    page.clock.install()
    page.goto(f"{live_server.url}/machines/{run.machine.name}/")
    age = page.locator("time.ago").first
    expect(age).to_have_text(re.compile("just now|seconds? ago"))
    page.clock.run_for(3 * 3600 * 1000)
    expect(age).to_have_text("3 hours ago")


def test_the_interval_of_a_duel_closes_in_on_the_pages_of_its_commits(
    shown: tuple[World, Alert, str],  # noqa: F811
    live_server: Any,
    settings: Any,
    chromium: Browser,  # noqa: F811
) -> None:
    with streams(live_server, settings):
        follow_duel(*shown, chromium)


def follow_duel(made: World, alert: Alert, url: str, chromium: Browser) -> None:  # noqa: F811
    measured = alert.change_points.first()
    assert measured
    duel = duels.paired_run(made, pairs=12, base=4, head=5)
    measured.runs.add(duel)
    same_commits = measured.runs.filter(base=duel.base, commit=duel.commit).exclude(pk=duel.pk)
    earlier = sum(run.trials for run in same_commits)  # pairs on the way to the alert
    assert earlier
    complaints: list[str] = []
    pages = {
        name: watched(chromium, width, complaints)
        for name, width in (("run", 1280), ("compare", 1280), ("alert", 1280), ("narrow", 390))
    }
    compared = f"/p/kvd/compare/?base={made.shas[4]}&head={made.shas[5]}"
    pages["run"].goto(f"{url}/runs/{duel.pk}/")
    pages["compare"].goto(f"{url}{compared}")
    pages["alert"].goto(f"{url}/alerts/{alert.pk}/")
    pages["narrow"].goto(f"{url}{compared}")
    for count in (3, 10):
        duels.report_pairs(duel, count)
        for page in pages.values():
            shown_pairs = page.locator(".standing").first
            expect(shown_pairs).to_contain_text(f"after {earlier + count} of {earlier + 12} pairs +", timeout=20_000)
    for name, page in pages.items():
        expect(page.locator(".standing").first).to_contain_text("decided, slower", timeout=20_000)
        assert page.locator("[data-live] svg .whisker").count() == 1, name
        assert page.evaluate(OVERFLOW) <= 0, name
    if folder := os.environ.get("SPEEDTRACK_PICTURES"):
        for name, page in pages.items():
            page.screenshot(path=f"{folder}/{name}.png")
            page.emulate_media(color_scheme="dark")
            page.screenshot(path=f"{folder}/{name}-dark.png")
    queue.cancel(duel, "no longer wanted")
    queue.renew(duel.machine, duel.pk, Renewal(token=duel.lease_token))
    for name in ("compare", "alert", "narrow"):
        expect(pages[name].locator("#duel")).to_have_count(0, timeout=20_000)
    assert complaints == []
