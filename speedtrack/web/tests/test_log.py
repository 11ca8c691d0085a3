"""The log page: any part of a log of any size, by lines that keep their numbers, without scripts."""

import json
from typing import Any

import pytest
from django.test import Client

from speedtrack.runs.documents import LogPiece
from speedtrack.runs.models import LogChunk, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.results.logs import LINES
from speedtrack.tests import builders
from speedtrack.web.tests.world import World, html_of, queries

HOSTILE = (
    "\x1b]0;owned\x07\x1b]8;;javascript:alert(1)\x1b\\click\x1b]8;;\x1b\\ \x1b[31m<script>alert(1)</script>\x1b[0m"
    " \u202egnp.exe\u2069 \x00 \x9b2J \ufffd &amp; 'quoted' \"twice\"\n"
)


@pytest.fixture
def run(kvd: World) -> Run:
    kvd.push(1)
    return builders.claim(kvd.machines[0])


def send(run: Run, seq: int, text: str, phase: str = "measure") -> None:
    queue.keep_log(run.machine, run.pk, LogPiece(token=run.lease_token, seq=seq, phase=phase, text=text))


def fill(run: Run, pieces: list[str], phase: str = "measure") -> None:
    attempt = run.attempts.get()
    LogChunk.objects.bulk_create(LogChunk(attempt=attempt, seq=i, phase=phase, text=t) for i, t in enumerate(pieces))


def numbered(count: int) -> list[str]:
    return ["".join(f"line {n}\n" for n in range(at, min(at + 100, count + 1))) for at in range(1, count + 1, 100)]


def document(client: Client, run: Run, query: str = "") -> dict[str, Any]:
    return json.loads(client.get(f"/runs/{run.pk}/log.json{query}").content)


def test_the_end_of_a_log_is_shown_by_phases(client: Client, run: Run) -> None:
    send(run, 0, "cc one\ncc two\n", phase=f"build {run.commit.sha}")
    send(run, 1, "trial 1\n")
    page = html_of(client.get(f"/runs/{run.pk}/log/"))
    assert page.count("<summary>") == 2
    assert f"<strong>build {run.commit.sha[:12]}</strong>" in page
    assert f'<li id="L2"><a href="/runs/{run.pk}/log/?from=2#L2" tabindex="-1">2</a><span>cc two</span></li>' in page
    assert '<li id="L3">' in page and "trial 1" in page
    assert "3 lines, leased" in page


def test_of_a_long_log_a_window_is_shown_with_ways_to_the_rest(client: Client, run: Run) -> None:
    fill(run, numbered(5000))
    address = f"/runs/{run.pk}/log/"
    end = html_of(client.get(address))
    assert 'id="L5000"' in end and f'id="L{5000 - LINES}"' not in end
    assert f'href="?from=1&amp;before={5000 - LINES + 1}"' in end
    middle = html_of(client.get(f"{address}?from=1200"))
    assert 'id="L1200"' in middle and 'id="L1199"' not in middle and f'id="L{1200 + LINES}"' not in middle
    assert "Lines 1 to 1199" in middle and f'href="?from={1200 + LINES}"' in middle
    before = html_of(client.get(f"{address}?before=1200"))
    assert 'id="L1199"' in before and 'id="L1200"' not in before
    assert 'id="L5000"' in html_of(client.get(f"{address}?from=999999"))


def test_a_link_to_a_phase_shows_its_end(client: Client, run: Run) -> None:
    send(run, 0, "first\nerror\n", phase="build a b")
    for seq, piece in enumerate(numbered(1000), 1):
        send(run, seq, piece)
    page = html_of(client.get(f"/runs/{run.pk}/log/?phase=build+a+b"))
    assert "<span>error</span>" in page and 'id="L3"' not in page
    assert "<span>error</span>" not in html_of(client.get(f"/runs/{run.pk}/log/?phase=none"))


def test_the_same_window_as_json(client: Client, run: Run) -> None:
    fill(run, ["\x1b[1;31mred\x1b[0m plain\n\nhalf"])
    found = document(client, run)
    assert found["lines"] == [
        [1, [["red", "bold red"], [" plain", ""]], False],
        [2, [], False],
        [3, [["half", ""]], False],
    ]
    assert (found["total"], found["live"]) == (3, True)
    assert [(one["phase"], one["first"], one["last"]) for one in found["phases"]] == [("measure", 1, 3)]
    assert [line[0] for line in document(client, run, "?from=2&before=3")["lines"]] == [2]
    assert document(client, run, "?from=3")["lines"][0][0] == 3


def test_hostile_bytes_become_text(client: Client, run: Run) -> None:
    fill(run, [HOSTILE.replace("\x00", "")], phase="\x1b[31m<b>")  # PostgreSQL stores no NUL; the API replaces it
    send(run, 1, HOSTILE.replace("\x00", "\ufffd"))
    page = html_of(client.get(f"/runs/{run.pk}/log/"))
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "javascript:" not in page and "owned" not in page
    for mark in "\x1b\x9b\u202e\u2069\x07":
        assert mark not in page
        assert mark not in client.get(f"/runs/{run.pk}/log.json").content.decode()
    assert '<b class="red">&lt;script&gt;' in page
    assert "gnp.exe" in page and "<b> " not in page


def test_a_line_of_10_mb_is_cut(client: Client, run: Run) -> None:
    fill(run, [*["y" * 64 * 1024] * 160, "\nafter\n"])
    answer = client.get(f"/runs/{run.pk}/log/")
    assert len(answer.content) < 20_000
    page = html_of(answer)
    assert "the rest is in the raw log" in page and "<span>after</span>" in page


def test_a_search_finds_lines_whatever_their_case_colours_and_pieces(client: Client, run: Run) -> None:
    pieces = [*numbered(300), "warn\x1b[31mING\x1b[0m: a < b", "ecause\n", "another Warning\n"]
    fill(run, pieces)
    page = html_of(client.get(f"/runs/{run.pk}/log/?q=warning"))
    assert "2 lines with" in page
    assert f'<a href="/runs/{run.pk}/log/?from=296#L301">301</a><span><mark>warnING</mark>: a &lt; b' in page
    assert "<mark>Warning</mark>" in page
    assert "No line with" in html_of(client.get(f"/runs/{run.pk}/log/?q=absent"))
    assert '<li><a href="/runs/' in html_of(client.get(f"/runs/{run.pk}/log/?q=BECAUSE"))


def test_a_search_of_a_very_long_log_goes_on_page_by_page(client: Client, run: Run) -> None:
    fill(run, [*numbered(100), *["x" * 63_999 + "\n"] * 200, "needle\n"])
    page = html_of(client.get(f"/runs/{run.pk}/log/?q=needle"))
    assert "No line before line" in page and "Search on from line" in page
    (start,) = {part.partition('"')[0] for part in page.split("q=needle&amp;from=")[1:]}
    assert "1 line with" in html_of(client.get(f"/runs/{run.pk}/log/?q=needle&from={start}"))


def test_a_search_ends_after_enough_lines(client: Client, run: Run) -> None:
    fill(run, numbered(5000))
    page = html_of(client.get(f"/runs/{run.pk}/log/?q=line"))
    assert "Search on from line" in page and page.count("<mark>") < 4000


def test_the_number_of_queries_does_not_grow(client: Client, run: Run) -> None:
    fill(run, numbered(200))
    address = f"/runs/{run.pk}/log/"
    few = queries(client, address)
    LogChunk.objects.all().delete()
    fill(run, numbered(20_000))
    assert queries(client, address) == few


def test_a_run_without_a_log_says_so(client: Client, run: Run, kvd: World) -> None:
    assert "Nothing has been written yet" in html_of(client.get(f"/runs/{run.pk}/log/"))
    assert document(client, run)["lines"] == []
    ended = Run.objects.filter(status="succeeded").first()
    assert ended
    assert "This run has no log" in html_of(client.get(f"/runs/{ended.pk}/log/"))
    for address in ("log/", "log.json", "log.txt"):
        assert client.get(f"/runs/77/{address}").status_code == 404


def test_the_raw_log_is_text_for_every_browser(client: Client, run: Run) -> None:
    send(run, 0, "<script>alert(1)</script>\n")
    answer = client.get(f"/runs/{run.pk}/log.txt")
    assert answer["Content-Type"] == "text/plain; charset=utf-8"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert client.get(f"/runs/{run.pk}/log", follow=True).status_code == 200
