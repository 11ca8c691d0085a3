"""Releases, each against the one before it and against the first."""

import csv
import json
import re
from typing import Any

import pytest
from django.http import QueryDict
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.judging import repeated
from speedtrack.projects.models import Tag
from speedtrack.runs.models import Measurement
from speedtrack.tests import builders
from speedtrack.web.pages.releases import page as releases_page
from speedtrack.web.pages.releases import versions
from speedtrack.web.tests.test_compare import other_environment
from speedtrack.web.tests.world import CPU, World, html_of, queries

ADDRESS = "/p/kvd/releases/"


def tag(made: World, **places: int) -> None:
    names = {name.replace("v", "").replace("_", "."): place for name, place in places.items()}
    Tag.objects.bulk_create(Tag(project=made.project, name=n, sha=made.shas[p]) for n, p in names.items())


def test_each_release_is_compared_with_the_one_before_and_with_the_first(
    client: Client, slow: tuple[World, Alert]
) -> None:
    made, _ = slow
    tag(made, v1_0=1, v1_1=3, v1_2=6, v1_10=7)
    found = json.loads(client.get("/p/kvd/releases.json").content)
    assert found["metric"] == CPU, "throughput is noisier"
    assert [one["release"] for one in found["releases"]] == ["1.0", "1.1", "1.2", "1.10"]
    (get, _) = found["benchmarks"]
    against = {one["release"]: [(a["release"], a["verdict"]) for a in one["against"]] for one in get["releases"]}
    assert against == {
        "1.0": [],
        "1.1": [("1.0", "same"), ("1.0", "same")],
        "1.2": [("1.1", "worse"), ("1.0", "worse")],
        "1.10": [("1.2", "same"), ("1.0", "worse")],
    }
    slower = get["releases"][2]["against"][0]
    assert slower["ratio"] == pytest.approx(1.2, abs=0.005)
    assert slower["low"] < slower["ratio"] < slower["high"]
    page = html_of(client.get(ADDRESS))
    assert page.index(">1.10</a>") < page.index(">1.2</a>"), "the newest first"
    assert "Mean of 2 benchmarks" in page and "! slower" in page
    assert "/p/kvd/compare/?base=1.1&amp;head=1.2&amp;machine=kvd-m1" in page


def test_the_totals_are_of_all_benchmarks(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    tag(made, v1_0=1, v1_2=6)
    page = html_of(client.get(f"{ADDRESS}?benchmark=get-p1"))
    assert "Benchmarks: 1 of 2" in page and "Mean of 2 benchmarks" in page
    assert re.search(r'<td class="number worse" data-label="worse"> ?2 ?</td>', page), (
        "both benchmarks are slower, of which one is shown"
    )


def test_with_many_benchmarks_a_page_has_fewer_releases(
    client: Client, slow: tuple[World, Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = slow
    tag(made, v1_0=1, v1_1=3, v1_2=6, v1_10=7)
    whole = html_of(client.get(ADDRESS))
    monkeypatch.setattr(versions, "MOST_COMPARED", 8)  # two releases of two benchmarks
    rows = re.compile(r'<tr> ?<th scope="row"> ?<a href="[^"]*">([^<]*)</a> ?</th>(.*?)</tr>')
    of_whole = dict(rows.findall(whole))

    newest = html_of(client.get(ADDRESS))
    shown = dict(rows.findall(newest))
    assert [*shown] == ["1.10", "1.2"] and '<a href="?before=1.2#totals"' in newest
    assert shown == {tag: of_whole[tag] for tag in shown}, "they are compared with releases of other pages"
    older = html_of(client.get(f"{ADDRESS}?before=1.2"))
    shown = dict(rows.findall(older))
    assert [*shown] == ["1.1", "1.0"] and "Older releases" not in older and "Newest releases" in older
    assert shown == {tag: of_whole[tag] for tag in shown}
    dots = [page.count("<circle") for page in (whole, newest, older)]
    assert len(set(dots)) == 1, "the chart has all releases"
    assert len(client.get("/p/kvd/releases.json").json()["releases"]) == 4
    for before in ("1.0", "nope"):
        assert client.get(f"{ADDRESS}?before={before}").status_code == 404


def test_releases_of_other_pages_are_searched_by_benchmark(
    slow: tuple[World, Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One benchmark has neither the first release nor the one before those of the page."""
    made, _ = slow
    tag(made, v1_0=1, v1_1=2, v1_2=3, v1_3=4, v1_4=6, v1_10=7)
    lacking = [made.commit(place).pk for place in (1, 4)]
    Measurement.objects.filter(series__benchmark__name="set-p1", commit__in=lacking).delete()

    def cells(names: str) -> tuple[list[Any], list[Any]]:
        page = releases_page.load("kvd", QueryDict(names))
        totals = [(total.release.tag, total.before, total.since_before, total.since_first) for total in page.totals]
        return totals[:2], [
            (table.name, cell.release.tag, cell.before, cell.first, cell.since_before, cell.since_first)
            for table in page.tables
            for cell in table.newest_first[:2]
        ]

    addresses = ("", "benchmark=get-p1")  # the chart has all releases of the benchmarks that it draws
    expected = [cells(names) for names in addresses]
    assert ("set-p1", "1.4", "1.2", "1.1") in [cell[:4] for cell in expected[0][1]]
    monkeypatch.setattr(versions, "MOST_COMPARED", 8)
    repeated.forget()
    assert [cells(names) for names in addresses] == expected


def test_totals_of_very_many_benchmarks_are_made_if_asked_for(
    client: Client, slow: tuple[World, Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = slow
    tag(made, v1_0=1, v1_1=3, v1_2=6)
    whole = html_of(client.get(ADDRESS))
    totals = re.compile(r'<section id="totals">.*?</section>')
    monkeypatch.setattr(releases_page, "MOST_COUNTED", 1)
    usual, asked = html_of(client.get(ADDRESS)), html_of(client.get(f"{ADDRESS}?totals=on"))
    assert '<a href="?totals=on#totals">Compare all 2 benchmarks</a>' in usual
    assert totals.findall(asked) == totals.findall(whole) != totals.findall(usual)
    by_benchmark = [page.partition("<h2>By benchmark</h2>")[2] for page in (usual, asked, whole)]
    assert len(set(by_benchmark)) == 1


def test_the_csv_has_a_row_for_each_benchmark_and_release(client: Client, kvd: World) -> None:
    tag(kvd, v1_0=0, v2_0=3)
    text = b"".join(client.get(f"/p/kvd/releases.csv?metric={CPU}").streaming_content).decode()  # type: ignore[attr-defined]
    rows = list(csv.DictReader(text.splitlines()))
    assert [(row["benchmark"], row["release"], row["before_release"]) for row in rows] == [
        (name, release, before) for name in ("get-p1", "set-p1") for release, before in (("1.0", ""), ("2.0", "1.0"))
    ]
    assert client.get("/p/kvd/releases.xml").status_code == 404


def test_releases_of_two_environments_are_marked(client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other_environment(kvd, monkeypatch)
    tag(kvd, v1_0=0, v2_0=4)
    assert "two environments" in html_of(client.get(ADDRESS))


def test_the_number_of_queries_does_not_grow(client: Client, kvd: World) -> None:
    tag(kvd, v1_0=0, v1_1=2)  # no neighbours, of which an answer would be stored
    few = queries(client, ADDRESS)
    tag(kvd, v1_2=1, v1_3=3)
    builders.work(kvd.machines[0], kvd.speed)
    assert queries(client, ADDRESS) <= few <= 12
