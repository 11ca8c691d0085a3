"""The board: small plots of all benchmarks, in bounded number, and by as many queries however many there are."""

import re
from typing import Any
from unittest.mock import patch

import pytest
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.web.drawing.small.sparkline import Sparkline
from speedtrack.web.pages import paging
from speedtrack.web.tests.world import CPU, World, html_of, queries, world


def names(page: str) -> list[str]:
    return re.findall(r'id="plot-([^"]+)"', page)


def test_each_benchmark_has_a_plot_that_leads_to_its_timeline(client: Client, slow: tuple[World, Alert]) -> None:
    page = html_of(client.get("/p/kvd/board/"))
    assert names(page) == names_of_grid(client)
    assert f'href="/p/kvd/timeline/get-p1/{CPU}"' in page
    assert 'class="mark worse"' in page and ">! slower +20" in page
    assert html_of(client.get("/p/kvd/")).count('href="/p/kvd/board/') == 1


def names_of_grid(client: Client) -> list[str]:
    return re.findall(r'<tr data-name="([^"]+)"', html_of(client.get("/p/kvd/")))


def test_the_number_of_plots_is_bounded_and_pages_lead_to_the_others(client: Client, kvd: World) -> None:
    everything = names(html_of(client.get("/p/kvd/board/")))
    assert len(everything) > 1
    with patch.object(paging, "MOST", 1):
        pages = [html_of(client.get(f"/p/kvd/board/?page={number}")) for number in range(1, len(everything) + 1)]
        assert [names(page) for page in pages] == [[name] for name in everything]
        assert "Next benchmarks" in pages[0] and "Previous benchmarks" in pages[-1]
        assert "Next benchmarks" not in pages[-1]
        assert names(html_of(client.get("/p/kvd/board/?page=99"))) == everything[-1:]


def test_a_name_narrows_it(client: Client, kvd: World) -> None:
    assert names(html_of(client.get("/p/kvd/board/?q=get-p1"))) == ["get-p1"]
    assert "has such a name" in html_of(client.get("/p/kvd/board/?q=nothing-like-it"))


def test_the_part_that_follows_results_keeps_the_selection(client: Client, kvd: World) -> None:
    page = html_of(client.get("/p/kvd/board/?q=get-p1"))
    assert 'data-live="?q=get-p1&amp;part=live"' in page
    part = html_of(client.get("/p/kvd/board/?q=get-p1&part=live"))
    assert names(part) == ["get-p1"] and "<html" not in part
    version = re.findall(r'data-version="([^"]+)"', part)
    assert version == re.findall(r'data-version="([^"]+)"', page)
    kvd.push(1)
    assert re.findall(r'data-version="([^"]+)"', html_of(client.get("/p/kvd/board/"))) != version


def test_before_the_first_result_it_says_so(client: Client, db: None, settings: Any, tmp_path: Any) -> None:
    world(settings, tmp_path)
    assert "None of them was measured." in html_of(client.get("/p/kvd/board/"))


@pytest.mark.parametrize("query", ["metric=nope", "machine=nope", "branch=nope"])
def test_unknown_names_are_not_found(client: Client, kvd: World, query: str) -> None:
    assert client.get(f"/p/kvd/board/?{query}").status_code == 404


def test_the_number_of_queries_does_not_grow(client: Client, slow: tuple[World, Alert]) -> None:
    few = queries(client, "/p/kvd/board/")
    slow[0].push(8)
    slow[0].measure()
    assert queries(client, "/p/kvd/board/") == few <= 12


def test_a_mark_stands_where_its_value_does() -> None:
    svg = Sparkline.of([1.0, 2.0, 3.0], (106, 20), [(1, "mark worse")]).svg("three")
    assert '<path class="mark worse" d="M53.0 0V20"/>' in svg
