"""The pages whose axis is not time: ladders and releases."""

import csv
import io
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from speedtrack.benchmarks.models import Benchmark
from speedtrack.runs.documents import FailureReport
from speedtrack.runs.models import Measurement
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import byhand
from speedtrack.runs.results import results
from speedtrack.tests import builders, worlds
from speedtrack.tests.builders import SUITE
from speedtrack.web.pages.ladders import choices
from speedtrack.web.tests.world import World, html_of, queries

LADDER = """
[[benchmark]]
name = "get-ladder"
why = "how reads scale"
ladder = { clients = [1, 10, 100, 1000] }
workload = { test = "get", keys = { count = 1000 }, values = { bytes = 32 }, prefill = true }
"""
PAGE = "/ladders/?ladder=get-ladder"


def speed(sha: str, benchmark: str, trial: int) -> float:
    """Twice as fast with each tenfold of connections; another level for each commit."""
    _, _, clients = benchmark.partition(".")
    level = 4000 + int(sha[:2], 16)
    return level * 2.0 ** -len(clients) * (1 + 0.002 * trial)


@worlds.shared
def rungs(settings: Any, directory: Path) -> World:
    """Two releases and a later head; the first release and the head have their ladder."""
    builders.use_suite(settings, directory / "suites", SUITE + LADDER)
    machine = builders.machine("m1")
    repository = builders.Repository(directory / "kvd")
    shas = repository.commits(3)
    repository.git("tag", "1.0.0", shas[0])
    repository.git("tag", "1.1.0", shas[1])
    project = builders.track(repository, last=0).project
    for sha in (shas[0], shas[2]):
        byhand.queue_by_hand(byhand.choose(project.slug, sha, ["get-ladder"], None))
    builders.work(machine, speed)
    return World(repository, project, [machine], shas)


def values_of(client: Client, address: str) -> dict[str, Any]:
    document: dict[str, Any] = client.get(address.replace("/ladders/", "/ladders.json")).json()
    return document


def test_the_newest_commit_of_each_project_is_a_line(client: Client, rungs: World) -> None:
    found = values_of(client, PAGE)
    assert (found["axis"], found["machine"], found["metric"]) == ("clients", "m1", "throughput_rps")
    [line] = found["lines"]
    assert (line["project"], line["commit"]) == ("kvd", rungs.shas[2])
    assert [point["value"] for point in line["points"]] == [1, 10, 100, 1000]
    medians = [point["median"] for point in line["points"]]
    assert medians == sorted(medians) and all(point["low"] <= point["median"] for point in line["points"])


def test_a_project_is_shown_with_its_releases(client: Client, rungs: World) -> None:
    lines = values_of(client, f"{PAGE}&project=kvd")["lines"]
    assert [(line["commit"], line["release"]) for line in lines] == [(rungs.shas[2], ""), (rungs.shas[0], "1.0.0")]


@pytest.mark.parametrize("name", ["kvd@1.0.0", "kvd@SHA"])
def test_lines_are_named_by_release_or_commit(client: Client, rungs: World, name: str) -> None:
    lines = values_of(client, f"{PAGE}&line={name.replace('SHA', rungs.shas[0][:10])}")["lines"]
    assert [line["commit"] for line in lines] == [rungs.shas[0]]


def test_chart_table_and_csv_have_the_same_points(client: Client, rungs: World) -> None:
    page = html_of(client.get(f"{PAGE}&project=kvd"))
    assert page.count("<circle") == 8 and page.count('class="band line-') == 2
    assert "<h1>Ladders</h1>" in page and "kvd 1.0.0" in page and "Connections" in page
    answer = client.get("/ladders.csv?ladder=get-ladder&project=kvd")
    text = b"".join(answer.streaming_content).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [(row["release"], row["clients"]) for row in rows[4:]] == [("1.0.0", n) for n in ("1", "10", "100", "1000")]
    shown = {point["median"] for line in values_of(client, f"{PAGE}&project=kvd")["lines"] for point in line["points"]}
    assert {float(row["throughput_rps"]) for row in rows} == shown


def test_a_rung_that_was_not_measured_is_a_gap_and_a_flagged_one_hollow(client: Client, rungs: World) -> None:
    Measurement.objects.filter(series__benchmark__name="get-ladder.10", commit__sha=rungs.shas[2]).delete()
    Measurement.objects.filter(series__benchmark__name="get-ladder.100").update(flags=["steal"])
    page = html_of(client.get(PAGE))
    assert page.count("<circle") == 3 and page.count("doubtful") == 1 and "unreliable: steal" in page
    [line] = re.findall(r'<path class="line-1" d="(M\d[^"]*L[^"]*)" />', page)
    assert line.count("M") == 2
    assert re.search(r'<th scope="row">10</th>\s*<td class="number">\s*–', page)


def test_a_rung_that_the_machine_cannot_reach_is_a_gap_with_its_reason(client: Client, rungs: World) -> None:
    reason = "1000 connections need 1100 open files in one process, and this machine allows 1024"
    byhand.queue_by_hand(byhand.choose("kvd", rungs.shas[1], ["get-ladder"], None))
    run = builders.claim(rungs.machines[0])
    builders.send_build(run, run.commit)
    for name in ("get-ladder.1", "get-ladder.10", "get-ladder.100"):
        values = [speed(run.commit.sha, name, trial) for trial in range(5)]
        results.accept_result(run.machine, run.pk, builders.result(run, name, run.commit, values))
    queue.complete(run.machine, run.pk, run.lease_token, {"get-ladder.1000": reason})

    address = f"{PAGE}&line=kvd@1.1.0"
    page = html_of(client.get(address))
    assert page.count("<circle") == 3 and "out of reach" in page and reason in page
    [line] = values_of(client, address)["lines"]
    assert line["out_of_reach"] == [{"value": 1000, "reason": reason}]
    assert "get-ladder.1000: out of reach" in html_of(client.get(f"/runs/{run.pk}/"))


def test_a_rung_that_failed_has_its_cause_below_the_table(client: Client, rungs: World) -> None:
    byhand.queue_by_hand(byhand.choose("kvd", rungs.shas[1], ["get-ladder"], None))
    run = builders.claim(rungs.machines[0])
    builders.send_build(run, run.commit)
    for name in ("get-ladder.1", "get-ladder.10", "get-ladder.100"):
        values = [speed(run.commit.sha, name, trial) for trial in range(5)]
        results.accept_result(run.machine, run.pk, builders.result(run, name, run.commit, values))
    error = "1 of 4 benchmarks failed: get-ladder.1000: the server refused: max number of clients reached"
    queue.fail(run.machine, run.pk, FailureReport(token=run.lease_token, kind="permanent", error=error))

    page = html_of(client.get(f"{PAGE}&line=kvd@1.1.0"))
    assert f'<a href="/runs/{run.pk}/">run {run.pk}</a> failed: {error}' in page
    assert "failed" not in html_of(client.get(f"{PAGE}&line=kvd@1.0.0"))


def test_a_release_measured_later_does_not_take_the_place_of_the_newest_commit(client: Client, rungs: World) -> None:
    byhand.queue_by_hand(byhand.choose("kvd", rungs.shas[1], ["get-ladder"], None))
    builders.work(rungs.machines[0], speed)
    assert [line["commit"] for line in values_of(client, PAGE)["lines"]] == [rungs.shas[2]]
    own = values_of(client, f"{PAGE}&project=kvd")["lines"]
    assert [line["release"] for line in own] == ["", "1.1.0", "1.0.0"]


def test_releases_and_what_is_asked_for_stay_however_much_was_measured_since(
    client: Client, rungs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choices, "LISTED", 0)
    assert [line["release"] for line in values_of(client, f"{PAGE}&line=kvd@1.0.0")["lines"]] == ["1.0.0"]
    assert [line["commit"] for line in values_of(client, f"{PAGE}&line=kvd@{rungs.shas[2][:7]}")["lines"]] == [
        rungs.shas[2]
    ]


def measure_again(rungs: World, sha: str, benchmarks: list[str]) -> None:
    byhand.queue_by_hand(byhand.choose("kvd", sha, benchmarks, None))
    builders.work(rungs.machines[0], speed)


def test_a_line_has_rungs_of_one_environment_and_says_which_were_measured_elsewhere(
    client: Client, rungs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"{PAGE}&line=kvd@1.0.0"
    [before] = values_of(client, address)["lines"]
    monkeypatch.setitem(builders.SERIES_FACTS, "kernel", "6.8")
    measure_again(rungs, rungs.shas[0], ["get-ladder.10", "get-ladder.100"])
    [line] = values_of(client, address)["lines"]
    assert [point["value"] for point in line["points"]] == [10, 100]
    assert line["environment"] != before["environment"]
    reason = "measured in another environment: kernel 6.1 there, 6.8 here"
    assert line["elsewhere"] == [{"value": 1, "reason": reason}, {"value": 1000, "reason": reason}]
    page = html_of(client.get(address))
    assert page.count("<circle") == 2 and page.count("elsewhere</summary>") == 2 and page.count(reason) == 2
    text = b"".join(client.get(address.replace("/?", ".csv?")).streaming_content).decode()
    assert [(row["clients"], row["environment"]) for row in csv.DictReader(io.StringIO(text))] == [
        ("10", line["environment"]),
        ("100", line["environment"]),
    ]

    monkeypatch.setitem(builders.SERIES_FACTS, "kernel", "6.1")
    measure_again(rungs, rungs.shas[0], ["get-ladder.1"])
    [line] = values_of(client, address)["lines"]
    assert [point["value"] for point in line["points"]] == [1, 10, 100, 1000]  # the machine went back
    assert line["elsewhere"] == [] and line["environment"] == before["environment"]


def test_lines_of_several_environments_are_said_to_be_of_several(
    client: Client, rungs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Not all lines are of one environment" not in html_of(client.get(f"{PAGE}&project=kvd"))
    monkeypatch.setitem(builders.SERIES_FACTS, "kernel", "6.8")
    measure_again(rungs, rungs.shas[2], ["get-ladder"])
    page = html_of(client.get(f"{PAGE}&project=kvd"))
    assert "Not all lines are of one environment" in page
    assert f"Measured in another one than kvd {rungs.shas[2][:10]}: <strong>kvd 1.0.0</strong>" in page
    assert re.search(r"<dt>kernel</dt>\s*<dd>6.1, not 6.8</dd>", page)


def test_each_environment_of_a_commit_is_a_line_on_request(
    client: Client, rungs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner on other cores measures in another environment, so each placement of the cores is a line."""
    assert "Environments" not in html_of(client.get(PAGE))
    for server, driver in ((2, 3), (2, 6)):
        monkeypatch.setitem(builders.SERIES_FACTS, "server_cpus", str(server))
        monkeypatch.setitem(builders.SERIES_FACTS, "driver_cpus", str(driver))
        measure_again(rungs, rungs.shas[2], ["get-ladder.10", "get-ladder.100"])
    page = html_of(client.get(PAGE))
    assert page.count("<circle") == 2 and '<select name="environments">' in page
    each = f"{PAGE}&environments=each"
    lines = values_of(client, each)["lines"]
    assert [[point["value"] for point in one["points"]] for one in lines] == [[10, 100], [10, 100], [1, 10, 100, 1000]]
    assert len({line["environment"] for line in lines}) == 3
    legend = html_of(client.get(each)).partition('class="linelegend"')[2].partition("</ul>")[0]
    labels = re.findall(r"</svg>\s*([^<]+?)\s*<", legend)
    name = f"kvd {rungs.shas[2][:10]}"
    assert labels == [
        f"{name}, server cpus 2, driver cpus 6",
        f"{name}, server cpus 2, driver cpus 3",
        f"{name}, server cpus none, driver cpus none",
    ]
    assert client.get(f"{PAGE}&environments=none").status_code == 404


def test_why_a_rung_is_missing_is_said_of_the_newest_environment_alone(
    client: Client, rungs: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(builders.SERIES_FACTS, "kernel", "6.8")
    byhand.queue_by_hand(byhand.choose("kvd", rungs.shas[2], ["get-ladder"], None))
    run = builders.claim(rungs.machines[0])
    builders.send_build(run, run.commit)
    values = [speed(run.commit.sha, "get-ladder.10", trial) for trial in range(5)]
    results.accept_result(run.machine, run.pk, builders.result(run, "get-ladder.10", run.commit, values))
    error = "3 of 4 benchmarks failed: the server went away"
    queue.fail(run.machine, run.pk, FailureReport(token=run.lease_token, kind="permanent", error=error))
    for address in (PAGE, f"{PAGE}&environments=each"):
        assert html_of(client.get(address)).count(error) == 1
    newest, older = values_of(client, f"{PAGE}&environments=each")["lines"]
    assert len(newest["points"]) == 1 and len(newest["elsewhere"]) == 3
    assert len(older["points"]) == 4 and older["elsewhere"] == []


def test_two_projects_share_a_chart(client: Client, rungs: World, tmp_path: Path) -> None:
    repository = builders.Repository(tmp_path / "fork")
    (sha,) = repository.commits(1)
    builders.track(repository, last=0)
    byhand.queue_by_hand(byhand.choose("fork", sha, ["get-ladder"], None))
    builders.work(rungs.machines[0], speed)
    lines = values_of(client, PAGE)["lines"]
    assert [(line["project"], len(line["points"])) for line in lines] == [("fork", 4), ("kvd", 4)]
    page = html_of(client.get(PAGE))
    assert page.count("<circle") == 8 and "fork " in page


def test_the_same_ladder_over_another_transport_is_drawn_beside_it(
    client: Client, rungs: World, settings: Any, tmp_path: Path
) -> None:
    over_tcp = LADDER.replace('"get-ladder"', '"get-ladder-tcp"').replace('"get",', '"get", transport = "tcp",')
    longer = LADDER.replace('"get-ladder"', '"get-long"').replace("bytes = 32", "bytes = 64")
    builders.use_suite(settings, settings.SUITES, SUITE + LADDER + over_tcp + longer)
    byhand.queue_by_hand(byhand.choose("kvd", rungs.shas[2], ["get-ladder-tcp", "get-long"], None))
    builders.work(rungs.machines[0], speed)
    page = html_of(client.get(PAGE))
    assert '<option value="get-ladder-tcp"' in page.partition("Beside")[2].partition("</select>")[0]
    assert "get-long" not in page.partition("Beside")[2].partition("</select>")[0]
    assert page.count("<circle") == 4
    beside = f"{PAGE}&beside=get-ladder-tcp"
    lines = values_of(client, beside)["lines"]
    assert [(line["ladder"], len(line["points"])) for line in lines] == [("get-ladder", 4), ("get-ladder-tcp", 4)]
    page = html_of(client.get(beside))
    assert page.count("<circle") == 8 and f"kvd {rungs.shas[2][:10]}, get-ladder-tcp" in page
    assert "Lines: 1 of 2" in page
    assert client.get(f"{PAGE}&beside=get-long").status_code == 404


def test_both_axes_are_logarithmic_over_powers_of_ten(client: Client, rungs: World) -> None:
    """The rungs are powers of ten, and each has twice the value of the one before: equal steps both ways."""
    page = html_of(client.get(PAGE))
    dots = [[float(at) for at in dot] for dot in re.findall(r'<circle[^>]*cx="([\d.]+)"[^>]*cy="([\d.]+)"', page)]
    across, down = ([later - at for at, later in pairwise(side)] for side in zip(*dots, strict=True))
    assert across == [pytest.approx(across[0], abs=0.2)] * 3 and across[0] > 100
    assert down == [pytest.approx(down[0], abs=0.2)] * 3 and down[0] < -30
    linear = re.findall(r'<circle[^>]*cy="([\d.]+)"', html_of(client.get(f"{PAGE}&scale=linear")))
    assert [float(at) for at in linear] != [at for _, at in dots]


def test_a_comparison_links_to_the_ladders_of_both_sides(client: Client, rungs: World) -> None:
    old, new = rungs.shas[0], rungs.shas[2]
    page = html_of(client.get(f"/p/kvd/compare/?base={old}&head={new}"))
    assert f"/ladders/?ladder=get-ladder&amp;line=kvd@{old[:10]}&amp;line=kvd@{new[:10]}" in page


def test_a_line_that_another_ladder_has_is_said_to_be_absent(client: Client, rungs: World) -> None:
    page = html_of(client.get(f"{PAGE}&line=kvd@{rungs.shas[1][:10]}&line=kvd@1.0.0"))
    assert f"Not measured here: kvd@{rungs.shas[1][:10]}." in page and page.count("<circle") == 4
    assert "Not measured here: kvd@1.0.0" in html_of(client.get(f"{PAGE}&line=kvd@1.0.0&metric=latency_us_p99"))


def test_a_rung_is_no_part_of_a_ladder_of_that_name_with_another_axis(client: Client, rungs: World) -> None:
    other = Measurement.objects.filter(series__benchmark__name="get-ladder.10")
    Benchmark.objects.filter(series__measurements__in=other).update(axis="value_bytes")
    [line] = values_of(client, PAGE)["lines"]
    assert [point["value"] for point in line["points"]] == [1, 100, 1000]


def test_what_does_not_exist_is_named(client: Client, rungs: World) -> None:
    for query in ("ladder=none", "line=none", "line=kvd@9.9.9", "machine=none", "metric=none"):
        assert client.get(f"/ladders/?{query}").status_code == 404, query
    assert client.get("/ladders.xml").status_code == 404


def test_without_ladders_the_page_says_how_to_get_one(client: Client, db: None) -> None:
    page = html_of(client.get("/ladders/"))
    assert "/help/suites/#ladders" in page
    assert 'id="ladders"' in html_of(client.get("/help/suites/"))


def test_the_number_of_queries_is_bounded(client: Client, rungs: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert queries(client, f"{PAGE}&project=kvd") <= 12
    monkeypatch.setitem(builders.SERIES_FACTS, "kernel", "6.8")
    measure_again(rungs, rungs.shas[0], ["get-ladder.10"])
    measure_again(rungs, rungs.shas[1], ["get-ladder"])
    assert queries(client, f"{PAGE}&project=kvd&environments=each") <= 12
    assert queries(client, "/p/kvd/releases/") <= 12


def test_a_project_links_to_its_ladders_once_it_has_some(client: Client, rungs: World) -> None:
    page = html_of(client.get("/p/kvd/"))
    assert "/ladders/?project=kvd" in page and "get-ladder.10" not in page
    Measurement.objects.all().delete()
    rungs.project.series.all().delete()
    assert "/ladders/?project=kvd" not in html_of(client.get("/p/kvd/"))


def test_a_commit_links_to_its_ladders_beside_the_newest(client: Client, rungs: World) -> None:
    sha = rungs.shas[0]
    assert f"/ladders/?ladder=get-ladder&amp;line=kvd&amp;line=kvd@{sha[:10]}" in html_of(
        client.get(f"/p/kvd/c/{sha}/")
    )
    assert "/ladders/?" not in html_of(client.get(f"/p/kvd/c/{rungs.shas[1]}/"))


def test_releases_are_a_line_and_what_does_not_build_is_shown_as_such(client: Client, rungs: World) -> None:
    byhand.queue_by_hand(byhand.choose("kvd", "1.*", ["set-p1"], None, releases=True))
    run = queue.claim(rungs.machines[0])
    assert run and run.commit.sha == rungs.shas[1]
    builders.send_build(run, run.commit, succeeded=False)
    failure = FailureReport(token=run.lease_token, kind="permanent", error="build failed: make exited with code 2")
    queue.fail(rungs.machines[0], run.pk, failure)
    builders.work(rungs.machines[0], speed)
    page = html_of(client.get("/p/kvd/releases/?benchmark=set-p1"))
    assert "1.0.0" in page and page.count("<circle") == 1
    assert "×<title>1.1.0: build failed: make exited with code 2</title>" in page
    assert f'/runs/{run.pk}/">build failed' in page
    text = b"".join(client.get("/p/kvd/releases.csv?benchmark=set-p1").streaming_content).decode()
    measured, failed = csv.DictReader(io.StringIO(text))
    assert (measured["release"], measured["failure"]) == ("1.0.0", "")
    assert failed["release"] == "1.1.0" and failed["failure"].startswith("build failed: make exited")
    assert not failed["benchmark"] and not failed["low"]


def test_the_releases_page_shows_rungs_only_where_there_is_nothing_else(client: Client, rungs: World) -> None:
    assert shown_benchmarks(client) == ["get-ladder.1", "get-ladder.10", "get-ladder.100", "get-ladder.1000"]
    byhand.queue_by_hand(byhand.choose("kvd", "1.*", [], None, releases=True))
    builders.work(rungs.machines[0], speed)
    assert shown_benchmarks(client) == ["get-p1", "set-p1"]


def shown_benchmarks(client: Client) -> list[str]:
    legend = html_of(client.get("/p/kvd/releases/")).partition('class="linelegend"')[2].partition("</ul>")[0]
    return re.findall(r"</svg>\s*([^<\s]+)", legend)
