"""The project page: the grid, its colours, selections, the webhook address."""

import csv
import io
import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.contrib.auth.models import User
from django.test import Client

from speedtrack.alerts.models import Alert, ChangePoint, SeriesSensitivity
from speedtrack.projects.models import Tag
from speedtrack.runs.models import Environment, Measurement, Series
from speedtrack.runs.requests import tracking
from speedtrack.web.pages import paging
from speedtrack.web.pages.project import state
from speedtrack.web.tests.world import CPU, World, html_of, queries, world


def test_the_grid_has_a_row_per_benchmark_and_links_to_timelines(client: Client, kvd: World) -> None:
    page = html_of(client.get("/p/kvd/"))
    assert "/p/kvd/timeline/get-p1/server_cpu_ns_per_request" in page
    assert page.count('class="cell same"') >= 8
    assert "5.00 µs" in page or "5.01 µs" in page


def test_a_confirmed_slowdown_is_marked_in_its_cell(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    page = html_of(client.get("/p/kvd/"))
    assert 'class="cell worse-2 change-confirmed"' in page
    assert f"{made.commit(5).short}: 6.0" in page
    assert f'href="/alerts/{alert.pk}/"' in page
    assert "<script>alert" not in page


def test_gaps_say_why(client: Client, kvd: World) -> None:
    kvd.push(2)
    kvd.fail("build failed: net.c:41 <b>undeclared</b>\nmore")
    page = html_of(client.get("/p/kvd/"))
    assert "build failed: net.c:41 &lt;b&gt;undeclared&lt;/b&gt;" in page
    assert "waiting to be measured" in page
    assert "<b>undeclared" not in page


def test_another_metric_and_machine(client: Client, db: None, settings: Any, tmp_path: Path) -> None:
    made = world(settings, tmp_path, machines=2)
    made.measure()
    page = html_of(client.get("/p/kvd/?metric=throughput_rps&machine=kvd-m2"))
    assert "200 k/s" in page
    assert "timeline/get-p1/throughput_rps?machine=kvd-m2" in page


def test_unknown_names_are_not_found(client: Client, kvd: World) -> None:
    for address in ("/p/nope/", "/p/kvd/?metric=nope", "/p/kvd/?machine=nope", "/p/kvd/?branch=nope"):
        answer = client.get(address)
        assert answer.status_code == 404
        assert b"nope" in answer.content


def test_the_webhook_address_is_for_people_who_logged_in(client: Client, kvd: World) -> None:
    assert kvd.project.hook_id not in html_of(client.get("/p/kvd/"))
    client.force_login(User.objects.create_superuser("ada"))
    page = html_of(client.get("/p/kvd/"))
    assert f"/hooks/{kvd.project.hook_id}" in page
    assert kvd.project.hook_secret.reveal() not in page


def test_the_number_of_queries_does_not_grow(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    few = queries(client, "/p/kvd/")
    made.push(8)
    made.measure()
    assert queries(client, "/p/kvd/") == few <= 12


def names(client: Client, query: str) -> list[str]:
    return re.findall(r'<tr data-name="([^"]+)"', html_of(client.get(f"/p/kvd/?{query}")))


def test_rows_are_grouped_and_filtered_by_the_address(client: Client, kvd: World) -> None:
    page = html_of(client.get("/p/kvd/"))
    assert page.index("<span>reads</span>") < page.index('data-name="get-p1"') < page.index("<span>writes</span>")
    assert names(client, "") == ["get-p1", "set-p1"]
    assert names(client, "q=P1+Get") == names(client, "tag=reads") == names(client, "tag=get") == ["get-p1"]
    assert names(client, "tag=writes&q=set") == ["set-p1"]
    page = html_of(client.get("/p/kvd/?q=%3Cimg%20src=x%20onerror=alert(1)%3E"))
    assert "No benchmark matches the filter" in page and "<img src=x" not in page
    assert "show all 2" in page


def test_a_long_grid_has_pages_with_the_same_cells(
    client: Client, slow: tuple[World, Alert], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, _ = slow
    tag(made, v1_0=0, v1_1=3)
    Measurement.objects.filter(commit=made.commit(-1), series__benchmark__name="get-p1").delete()
    rows, measured = re.compile(r"<tr data-name=.*?</tr>"), re.compile(r'<span class="state (\w+)"')
    whole = html_of(client.get("/p/kvd/"))
    assert measured.findall(whole)[0] == "measured" and '<p class="pages morerows" hidden>' in whole
    monkeypatch.setattr(paging, "MOST", 1)
    first, second, last = (html_of(client.get(f"/p/kvd/?page={page}")) for page in (1, 2, 99))
    assert [rows.findall(page)[0] for page in (first, second)] == rows.findall(whole)
    assert rows.findall(second) == rows.findall(last) and len(rows.findall(first)) == 1
    assert measured.findall(first) == measured.findall(whole), "whichever page has the row"
    assert "1 of 2 benchmarks" in first and 'data-more="?page=2&amp;part=rows"' in first
    assert "Benchmarks 2 to 2 of 2" in second and 'href="?page=1#grid" rel="prev"' in second
    part = html_of(client.get("/p/kvd/?page=2&part=rows"))
    assert rows.findall(part) == rows.findall(second) and "<html" not in part and "<span>writes</span>" in part
    assert names(client, "q=set") == ["set-p1"], "the filter looks for rows of all pages"
    found = client.get("/p/kvd.json").json()
    assert found["next"] == "/p/kvd.json?page=2"
    more = client.get(found["next"]).json()
    assert [row["name"] for page in (found, more) for row in page["benchmarks"]] == ["get-p1", "set-p1"]
    assert more["next"] is None and found["commits"] == more["commits"]
    table = csv.DictReader(io.StringIO(b"".join(client.get("/p/kvd.csv")).decode()))
    assert [row["benchmark"] for row in table] == ["get-p1", "set-p1"]


def test_colours_count_in_what_a_series_shows(client: Client, slow: tuple[World, Alert]) -> None:
    ChangePoint.objects.all().delete()
    jump = re.compile(
        r'class="cell (\S+)" title="[^"]*: 6\.\d\d µs, \+20\.0% to the one before \((\d+\.\d) × detectable'
    )
    assert [look for look, _ in jump.findall(html_of(client.get("/p/kvd/?tag=reads")))] == ["worse-2"]
    SeriesSensitivity.objects.update(visible=0.15, paired=None)
    assert jump.findall(html_of(client.get("/p/kvd/?tag=reads"))) == [("worse-1", "1.3")]
    SeriesSensitivity.objects.update(paired=0.3)
    assert jump.findall(html_of(client.get("/p/kvd/?tag=reads"))) == [("worse-1", "0.7")], "a certain difference"


def test_the_newest_value_is_compared_with_the_last_measured_release(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    assert ">Since <a" not in html_of(client.get("/p/kvd/"))
    for place, name in ((0, "v1.0"), (3, "v1.2"), (4, "v1.3-rc1")):
        Tag.objects.create(project=made.project, name=name, sha=made.shas[place])
    Tag.objects.create(project=made.project, name="v2.0", sha="f" * 40)
    page = html_of(client.get("/p/kvd/"))
    assert re.search(rf'Since <a href="/p/kvd/c/{made.shas[3]}/">v1\.2</a>', page)
    since = re.findall(r'95% interval: ([^"]+)"><span class="change worse">! (\S+)</span>', page)
    assert len(since) == 2 and all(change == "+20.0%" for _, change in since)
    assert all("+19." in interval and "+20." in interval for interval, _ in since)
    assert re.search(rf'class="commit tagged"><a href="/p/kvd/c/{made.shas[4]}/" title="v1\.3-rc1: ', page)


def tag(made: World, **places: int) -> None:
    for name, place in places.items():
        Tag.objects.create(project=made.project, name=name.replace("_", "."), sha=made.shas[place])


def release_cells(page: str) -> list[tuple[str, str]]:
    return re.findall(r'class="cell (\S+) release" title="([^"]*)"', page)


def test_measured_releases_have_columns_left_of_the_commits(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    few = queries(client, "/p/kvd/")
    assert "release" not in "".join(re.findall(r'class="(?:commit|cell)[^"]*"', html_of(client.get("/p/kvd/"))))
    tag(made, v1_10=5, v1_2=3, v1_9=4, v2_0_beta1=7)
    page = html_of(client.get("/p/kvd/?tag=reads"))
    heads = re.findall(r'<th scope="col" class="(commit[^"]*)"><a href="/p/kvd/c/(\w+)/" title="([^":]*)', page)
    assert heads[:3] == [
        ("commit release", made.shas[place], f"Release {name}")
        for name, place in (("v1.2", 3), ("v1.9", 4), ("v1.10", 5))
    ]
    assert [sha for _, sha, _ in heads[3:]] == made.shas
    assert [look for look, _ in release_cells(page)] == ["same", "same", "worse-2"]
    assert re.match(
        r"v1\.10: 6\.\d\d µs, \+20\.1% to the one before \(\d+\.\d × detectable\)", release_cells(page)[2][1]
    )
    assert 'colspan="15"' in html_of(client.get("/p/kvd/"))
    assert queries(client, "/p/kvd/") == few
    found = client.get("/p/kvd.json?tag=reads").json()
    assert [(one["tag"], one["sha"]) for one in found["releases"]] == [
        ("v1.2", made.shas[3]),
        ("v1.9", made.shas[4]),
        ("v1.10", made.shas[5]),
    ]
    assert found["benchmarks"][0]["release_looks"] == ["same", "same", "worse-2"]
    assert len(found["benchmarks"][0]["looks"]) == 8


@patch.multiple(state, RELEASES=1, SHOWN=4)
def test_only_the_newest_releases_take_the_place_of_commits(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    tag(made, v1_0=3, v2_0=5)
    page = html_of(client.get("/p/kvd/?tag=reads"))
    ((look, title),) = release_cells(page)
    assert look == "worse-2" and title.startswith("v2.0: ")  # compared with one that is not shown
    assert len(re.findall('<th scope="col" class="commit', page)) == 4
    older = html_of(client.get(f"/p/kvd/?before={made.shas[5][:12]}"))
    assert f"before={made.shas[5][:12]}#grid" in page
    assert release_cells(older) == [] and len(re.findall('<th scope="col" class="commit', older)) == 4


def test_a_release_is_compared_within_its_environment_only(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    tag(made, v1_0=3, v2_0=5, v3_0=6)
    old = Series.objects.get(metric=CPU, benchmark__name="get-p1")
    new = Environment.objects.create(machine=made.machines[0], digest="sha256:other", facts={})
    later = Series.objects.create(
        project=made.project, benchmark=old.benchmark, metric=CPU, machine=old.machine, environment=new
    )
    old.measurements.filter(commit__sha__in=made.shas[5:]).update(series=later)
    Measurement.objects.filter(commit=made.commit(5), series__benchmark__name="set-p1").update(flags=["steal"])
    cells = release_cells(html_of(client.get("/p/kvd/")))
    assert [look for look, _ in cells] == ["same", "same", "same", "same", "unmeasured", "worse-2"]
    assert "to the one before" not in cells[1][1] and cells[4][1] == "v2.0: no reliable value"


def test_older_commits_are_a_page_away(client: Client, kvd: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "SHOWN", 2)
    page = html_of(client.get("/p/kvd/"))
    heads = re.compile(r'<th scope="col" class="commit[^"]*"><a href="/p/kvd/c/(\w+)/"')
    assert heads.findall(page) == kvd.shas[2:]
    older = re.search(r'href="(\?before=\w+)#grid"', page)
    assert older
    page = html_of(client.get(f"/p/kvd/{older[1]}"))
    assert heads.findall(page) == kvd.shas[:2]
    assert "Newest commits" in page and "Older commits" not in page and "Last shown" in page
    for wrong in ("abc", "zzzzzzz", "f" * 12, "%27%22%3C%3E%27%27%27", kvd.shas[0]):
        answer = client.get(f"/p/kvd/?before={wrong}")
        assert answer.status_code == 404 and "commit" in answer.content.decode(), wrong


def test_another_branch_begins_with_its_newest_commits(client: Client, kvd: World) -> None:
    kvd.repository.git("checkout", "--quiet", "-b", "old/8.0", kvd.shas[1])
    kvd.repository.commit("On the branch")
    kvd.repository.git("checkout", "--quiet", "main")
    tracking.track(tracking.TrackingRequest(str(kvd.repository.path), "tiny", branch="old/8.0"))
    page = html_of(client.get(f"/p/kvd/?branch=old/8.0&before={kvd.shas[3][:12]}"))
    assert "On the branch" in page and "Newest commits" not in page and 'name="before"' not in page
    shared = html_of(client.get(f"/p/kvd/?branch=old/8.0&before={kvd.shas[1][:12]}"))
    assert "On the branch" not in shared and f'name="before" value="{kvd.shas[1][:12]}"' in shared


def test_a_newest_value_that_is_unreliable_says_so(client: Client, kvd: World) -> None:
    assert "unreliable: steal" not in html_of(client.get("/p/kvd/"))
    newest = Measurement.objects.filter(commit=kvd.commit(3), series__metric=CPU, series__benchmark__name="get-p1")
    newest.update(flags=["steal"])
    assert re.search(
        r'<td class="number"><span class="soft" title="unreliable: steal">', html_of(client.get("/p/kvd/"))
    )
    rows = {row["name"]: row["flags"] for row in client.get("/p/kvd.json").json()["benchmarks"]}
    assert rows == {"get-p1": ["steal"], "set-p1": []}


def test_a_new_environment_is_marked_in_the_head(client: Client, kvd: World) -> None:
    assert "commit break" not in html_of(client.get("/p/kvd/"))
    old = Series.objects.filter(metric=CPU)
    new = Environment.objects.create(machine=kvd.machines[0], digest="sha256:other", facts={})
    for one in old:
        later = Series.objects.create(
            project=kvd.project, benchmark=one.benchmark, metric=CPU, machine=one.machine, environment=new
        )
        one.measurements.filter(commit__sha__in=kvd.shas[2:]).update(series=later)
    page = html_of(client.get("/p/kvd/"))
    assert re.findall(r'class="commit break"><a href="/p/kvd/c/(\w+)/" title="From here on kvd-m1', page) == [
        kvd.shas[2]
    ]
    assert page.count("cell same break") == 2


def test_the_grid_as_json(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    Tag.objects.create(project=made.project, name="v1.0", sha=made.shas[1])
    found = client.get("/p/kvd.json?tag=writes").json()
    assert found["schema"] == "speedtrack.grid/2" and found["release"] == "v1.0"
    assert found["open_alerts"] == [alert.pk]
    assert [one["sha"] for one in found["commits"]] == made.shas and found["commits"][1]["tags"] == ["v1.0"]
    (row,) = found["benchmarks"]
    assert (row["name"], row["group"]) == ("set-p1", "writes")
    assert row["since_release"]["ratio"] == pytest.approx(1.2, rel=0.01) and row["since_release"]["look"] == "worse"
    assert row["looks"][5] == "worse-2 change-confirmed" and row["looks"][6] == "same"
    assert client.get("/p/nobody.json").status_code == client.get("/p/kvd.xml").status_code == 404
    table = list(csv.DictReader(io.StringIO(b"".join(client.get("/p/kvd.csv")).decode())))
    assert [one["benchmark"] for one in table] == ["get-p1", "set-p1"] and table[0]["look"] == "worse"
    (card,) = client.get("/home.json").json()["projects"]
    assert (card["project"], card["commits_behind"], card["open_alerts"]) == ("kvd", 0, 1)
