"""Several lines on one timeline: machines, benchmarks, metrics, branches and projects."""

import csv
import io
import itertools
import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from django.conf import settings as configured
from django.test import Client

from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.models import Benchmark
from speedtrack.projects.models import Branch, Commit, Tag
from speedtrack.runs.models import Samples, Series
from speedtrack.runs.requests import tracking
from speedtrack.tests import worlds
from speedtrack.web.drawing.charts.timelines import THEMES, timeline_svg
from speedtrack.web.pages.timeline import document as timeline_json
from speedtrack.web.tests.world import CPU, HOSTILE, World, html_of, queries, world

LINE = f"/p/kvd/timeline/get-p1/{CPU}"
RPS = "throughput_rps"


@worlds.shared
def two(settings: Any, directory: Path) -> World:
    """A project of four commits, with a branch that forks after the second one, and another project."""
    other = world(settings, directory, name="other")
    made = world(settings, directory)
    made.machines += other.machines
    made.repository.git("checkout", "--quiet", "-b", "old/8.0", made.shas[1])
    made.shas += [made.repository.commit("On the branch")]
    made.repository.git("checkout", "--quiet", "main")
    tracking.track(tracking.TrackingRequest(str(made.repository.path), "tiny", branch="old/8.0"))
    made.measure()
    return made


def document(client: Client, query: str = "") -> dict[str, Any]:
    """The document, with the commits of each path where it has their places, and an entry for each gap."""
    found: dict[str, Any] = client.get(f"{LINE}.json{query}").json()
    return found | {"paths": [timeline_json.chart_path(path, found["commits"]) for path in found["paths"]]}


def names(found: dict[str, Any]) -> list[str]:
    return [one["line"] for one in found["shown"]]


def test_lines_of_one_branch_lie_over_its_commits(client: Client, two: World) -> None:
    found = document(client, f"?machine=kvd-m1&line=/set-p1&line=//{RPS}&line=@other-m1&line=@kvd-m1")
    assert names(found) == [
        f"kvd/get-p1/{CPU}@kvd-m1:main",
        f"kvd/set-p1/{CPU}@kvd-m1:main",
        f"kvd/get-p1/{RPS}@kvd-m1:main",
        f"kvd/get-p1/{CPU}@other-m1:main",
    ]
    assert (found["axis"], len(found["paths"]), found["problems"]) == ("commits", 1, [])
    assert [one["right"] for one in found["shown"]] == [False, False, True, False]
    assert sorted(line["shown"] for line in found["lines"]) == [0, 1, 2, 3]


def test_lines_of_several_branches_and_projects_lie_over_time(client: Client, two: World) -> None:
    found = document(client, "?machine=kvd-m1&line=:old/8.0&line=other@other-m1&last=2")
    assert names(found)[1:] == [f"kvd/get-p1/{CPU}@kvd-m1:old/8.0", f"other/get-p1/{CPU}@other-m1:main"]
    assert found["axis"] == "time"
    # Of the others, what was committed while the page's commits were: from the third one on.
    paths = [(path["project"], path["branch"], path["first"], path["count"]) for path in found["paths"]]
    assert paths == [("kvd", "main", 2, 2), ("kvd", "old/8.0", 2, 1), ("other", "main", 2, 2)]
    assert [line["at"] for line in found["lines"]] == [[0, 1], [0], [0, 1]]
    assert [one["path"] for one in found["shown"]] == [0, 1, 2]
    assert document(client, "?line=:old/8.0&last=all")["paths"][1]["count"] == 3


def test_commits_that_two_branches_share_are_sent_once(client: Client, two: World) -> None:
    found = client.get(f"{LINE}.json?machine=kvd-m1&line=:old/8.0&last=all").json()
    assert found["commits"]["sha"] == [sha[:12] for sha in two.shas]
    assert [path["commits"] for path in found["paths"]] == [
        {"at": [0, 1, 2, 3], "index": [0, 1, 2, 3]},
        {"at": [0, 1, 2], "index": [0, 1, 4]},
    ]


def test_values_are_compared_with_releases_wherever_they_lie(client: Client, two: World) -> None:
    for name, place in (("v0.9", 0), ("v1.0-rc1", 1), ("v1.0", 1), ("v1.1", 4)):
        Tag.objects.create(project=two.project, name=name, sha=two.shas[place])
    names_of = [
        [one["name"] for one in line["releases"]]
        for line in document(client, "?machine=kvd-m1&line=:old/8.0&last=1")["lines"]
    ]
    assert names_of[0] == ["v0.9", "v1.0", "v1.1"]  # the last one lies on another branch than the drawn one
    (line,) = document(client, "?machine=kvd-m1&last=all")["lines"]
    assert line["releases"][1]["value"] == pytest.approx(line["value"][1])
    old = client.get(f"{LINE}.json?branch=old/8.0&machine=kvd-m1&last=1").json()["lines"][0]
    assert [one["name"] for one in old["releases"]] == ["v0.9", "v1.0", "v1.1"]
    Tag.objects.create(project=two.project, name="v1.2", sha=two.shas[3])  # on main alone
    old = client.get(f"{LINE}.json?branch=old/8.0&machine=kvd-m1&last=1").json()["lines"][0]
    assert [one["name"] for one in old["releases"]] == ["v0.9", "v1.0", "v1.1"]


def test_more_lines_than_are_looked_for_are_counted(client: Client, two: World) -> None:
    def problems(count: int) -> list[str]:
        told: list[str] = document(client, "?machine=kvd-m1" + "".join(f"&line=@m{n}" for n in range(count)))[
            "problems"
        ]
        return told

    assert not any("looked for" in problem for problem in problems(24))
    assert problems(64)[0] == "The address names 64 lines, and only the first 24 were looked for: name at most 8."


def test_an_address_of_many_lines_is_not_repeated_for_each_benchmark(client: Client, two: World) -> None:
    def repetitions() -> int:
        return client.get(f"{LINE}?machine=kvd-m1&line=@some-machine").content.count(b"some-machine")

    few = repetitions()
    benchmark = Benchmark.objects.get(project=two.project, name="get-p1")
    series = Series.objects.filter(benchmark=benchmark, metric=CPU)[0]
    for number in range(5):
        benchmark.pk, benchmark.name = None, f"get-p{number + 100}"
        benchmark.save(force_insert=True)
        series.pk, series.benchmark = None, benchmark
        series.save(force_insert=True)
    assert client.get(LINE).content.count(b"get-p10") >= 5, "they are offered"
    assert repetitions() == few


def test_what_cannot_be_shown_is_named_and_the_rest_is_shown(client: Client, two: World) -> None:
    def problems(query: str) -> list[str]:
        found = document(client, f"?machine=kvd-m1&{query}")
        assert names(found)[0] == f"kvd/get-p1/{CPU}@kvd-m1:main"
        told: list[str] = found["problems"]
        assert html_of(client.get(f"{LINE}?machine=kvd-m1&{query}")).count('class="error"') == len(told)
        return told

    assert problems("line=a/b/c/d") == [
        "'a/b/c/d' names no line: it has to look like PROJECT/BENCHMARK/METRIC@MACHINE:BRANCH."
    ]
    (no_project,) = problems("line=nope")
    assert no_project.startswith("There is no project 'nope' with a branch")
    assert problems("line=:nope") == ["kvd has no branch 'nope': there are main, old/8.0."]
    assert problems("line=//nope")[0].startswith("There is no metric 'nope'")
    assert problems("line=/nope") == ["kvd has no values of Server CPU per request for a benchmark 'nope'."]
    assert problems("line=other") == ["other measured Server CPU per request of get-p1 not on kvd-m1, but on other-m1."]
    assert problems("axis=nope") == ["There is no axis='nope': there are commits, time."]
    each = itertools.product(("get-p1", "set-p1"), (CPU, RPS), ("kvd-m1", "other-m1"), ("main", "old/8.0"))
    many = "&".join("line=/{}/{}@{}:{}".format(*parts) for parts in each)
    assert len(document(client, f"?machine=kvd-m1&{many}")["shown"]) == 8
    assert problems(many)[0].startswith("A chart shows at most 8 lines; left out: ")
    series = Series.objects.get(metric=CPU, benchmark__name="get-p1", machine__name="kvd-m1")
    Series.objects.create(
        project=series.project,
        benchmark=series.benchmark,
        machine=series.machine,
        environment=series.environment,
        metric="peak_rss_bytes",
    )
    third = problems(f"line=//{RPS}&line=//peak_rss_bytes")
    assert third[0].startswith("A chart has two axes, for ns and requests/s here; kvd/get-p1/peak_rss_bytes@")
    hostile = client.get(f"{LINE}?line=%3Cimg%20onerror%3Dalert(1)%3E").content.decode()
    assert "<img onerror" not in hostile and "&lt;img onerror" in hostile


def test_values_are_relative_to_a_base_commit(client: Client, two: World) -> None:
    base = two.shas[1]
    found = document(client, f"?machine=kvd-m1&line=:old/8.0&line=other@other-m1&line=//{RPS}&base={base[:12]}")
    assert (found["base"], found["problems"]) == (base[:12], [])
    assert [one["right"] for one in found["shown"]] == [False] * 4  # in percent, all share an axis
    bases = [one["base"] for one in found["shown"]]
    assert [one["sha"] for one in bases[:2]] == [base[:12]] * 2
    assert bases[2]["sha"] == Commit.objects.get(positions__number=1, positions__branch__project__slug="other").sha[:12]
    line = next(line for line in found["lines"] if line["shown"] == 0)
    assert bases[0]["value"] == pytest.approx(line["value"][1])
    unknown = document(client, f"?base={'f' * 12}")
    assert unknown["problems"] == [f"None of these projects has a commit {'f' * 12!r}: the values are absolute."]
    assert unknown["shown"][0]["base"] is None


def test_single_trials_come_when_they_are_asked_for(
    client: Client, two: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "trials" not in document(client)["lines"][0]
    (line,) = document(client, "?machine=kvd-m1&trials=1")["lines"]
    samples = Samples.objects.get(
        measurement__attempt__run=line["runs"]["3"],
        measurement__series__metric=CPU,
        measurement__series__benchmark__name="get-p1",
    )
    assert line["trials"]["3"] == samples.values
    assert len(line["trials"]) == len(line["at"]) == 4
    monkeypatch.setattr("speedtrack.web.pages.timeline.points.MOST_POINTS", 3)
    found = document(client, "?machine=kvd-m1&trials=1")
    assert "trials" not in found["lines"][0]
    assert found["notes"] == ["Single trials are shown for at most 3 points, and these are 4: zoom in."]


def test_table_and_csv_cover_all_lines(client: Client, two: World) -> None:
    query = "?machine=kvd-m1&line=:old/8.0&line=other/set-p1@other-m1"
    page = html_of(client.get(f"{LINE}{query}&part=values"))
    assert page.count('<th scope="row">') == 4 + 3 + 4
    assert "other, set-p1, other-m1, main" in page and "kvd, get-p1, kvd-m1, old/8.0" in page
    rows = list(csv.DictReader(io.StringIO(b"".join(client.get(f"{LINE}.csv{query}")).decode())))
    found = [(row["project"], row["benchmark"], row["branch"], row["state"]) for row in rows]
    assert set(found) == {
        ("kvd", "get-p1", "main", "measured"),
        ("kvd", "get-p1", "old/8.0", "measured"),
        ("other", "set-p1", "main", "measured"),
    }
    assert len(found) == 11


def test_the_legend_removes_each_line(client: Client, two: World) -> None:
    page = client.get(f"{LINE}?machine=kvd-m1&machine=other-m1&line=other/set-p1@other-m1&y=log").content.decode()
    removals = re.findall(r'class="remove"\s+href="([^"]+)"', page)
    assert len(removals) == 3
    left = [names(client.get(address.replace("&amp;", "&").replace("?", ".json?")).json()) for address in removals]
    assert left == [
        [f"kvd/get-p1/{CPU}@other-m1:main", f"other/set-p1/{CPU}@other-m1:main"],
        [f"kvd/get-p1/{CPU}@kvd-m1:main", f"other/set-p1/{CPU}@other-m1:main"],
        [f"kvd/get-p1/{CPU}@kvd-m1:main", f"kvd/get-p1/{CPU}@other-m1:main"],
    ]
    assert all("y=log" in address for address in removals)
    alone = client.get(f"{LINE}?machine=kvd-m1").content.decode()
    assert 'class="remove"' not in alone


def test_the_search_offers_lines_by_their_words(client: Client, two: World) -> None:
    def offered(text: str) -> list[str]:
        near = {"benchmark": "get-p1", "metric": CPU, "machine": "kvd-m1", "branch": "main"}
        return [one["line"] for one in client.get("/p/kvd/lines.json", {"q": text, **near}).json()["lines"]]

    assert offered("")[:2] == [f"kvd/get-p1/{CPU}@kvd-m1:old/8.0", f"kvd/get-p1/{CPU}@other-m1:main"]
    assert offered("other set cpu")[0] == f"kvd/set-p1/{CPU}@other-m1:main"
    assert set(offered("8.0 throughput kvd-m1")) == {
        f"kvd/{name}/{RPS}@kvd-m1:old/8.0" for name in ("get-p1", "set-p1")
    }
    assert offered("nothing has this") == []


def test_the_etag_follows_every_line(client: Client, two: World) -> None:
    query = "?machine=kvd-m1&line=:old/8.0&line=other@other-m1"

    def answer(etag: str = "") -> Any:
        return client.get(f"{LINE}.json{query}", headers={"if-none-match": etag})

    known = answer()["ETag"]
    assert answer(known).status_code == 304
    other = Branch.objects.get(project__slug="other")
    Tag.objects.create(project=other.project, name="v1.0", sha=other.head.sha if other.head else "")
    assert answer(known).status_code == 200
    known = answer()["ETag"]
    series = Series.objects.get(project=other.project, benchmark__name="get-p1", metric=CPU)
    series.save()
    assert answer(known).status_code == 200


def test_the_number_of_queries_does_not_depend_on_the_lines(client: Client, two: World) -> None:
    one, several = "?machine=kvd-m1", f"?machine=kvd-m1&line=:old/8.0&line=other@other-m1&line=//{RPS}"
    for form, most in ((".json", 16), (".csv", 13), (".svg", 16)):
        assert queries(client, f"{LINE}{form}{one}") <= 13  # the first one: which projects are private
        assert queries(client, f"{LINE}{form}{several}") <= most


def test_the_picture_has_every_line_and_runs_nothing(
    client: Client, two: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.push(1, HOSTILE)
    two.fail()
    two.measure()
    Tag.objects.create(project=two.project, name="<img src=x onerror=alert(1)>", sha=two.shas[2])
    series = Series.objects.get(project=two.project, benchmark__name="get-p1", metric=CPU, machine__name="kvd-m1")
    branch = Branch.objects.get(project=two.project, name="main")
    places = {p.number: p.commit for p in branch.positions.select_related("commit")}
    numbers = {"ratio": 1.2, "low": 1.1, "high": 1.3, "score": 1.0}
    ChangePoint.objects.create(series=series, branch=branch, before=places[0], commit=places[2], **numbers)
    for query in ("", f"&line=:old/8.0&line=//{RPS}", f"&base={two.shas[1]}&y=zero", "&y=log&trials=1", "&axis=time"):
        answer = client.get(f"{LINE}.svg?machine=kvd-m1{query}&theme=dark&width=600&height=99999")
        assert answer["Content-Type"].startswith("image/svg+xml")
        text = answer.content.decode()
        root = ElementTree.fromstring(text)  # noqa: S314
        assert (root.get("width"), root.get("height")) == ("600", "4000")
        assert THEMES["dark"]["surface"] in text and "+20.0%" in text
        assert "l8 8m-8 0l8 -8" in text  # a cross where a commit failed
        assert not any(element.tag.endswith(("img", "script")) for element in root.iter())
    monkeypatch.setattr(timeline_json, "MOST_COMMITS", 2)
    found = document(client, "?machine=kvd-m1")
    assert timeline_svg(found, 800, 300, "light") == timeline_svg(json.loads(json.dumps(found)), 800, 300, "light")
    assert "Nothing was measured here." in timeline_svg({**found, "lines": []}, 800, 300, "light")


def test_the_colours_of_pictures_are_those_of_the_pages() -> None:
    style = (Path(configured.BASE_DIR) / "frontend/src/style/base.css").read_text()
    light, dark = style.split("(prefers-color-scheme: dark)")[:2]
    for theme, text in (("light", light), ("dark", dark)):
        for name, colour in THEMES[theme].items():
            assert f"--{name}: {colour};" in text, (theme, name)


def luminance(colour: str) -> float:
    """The relative luminance of ``#rrggbb`` by WCAG 2."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_lines_and_edges_are_told_from_what_is_behind_them() -> None:
    style = (Path(configured.BASE_DIR) / "frontend/src/style/base.css").read_text()
    drawn = ("soft", "edge", "accent", "worse", "better", "doubt", *(f"series-{i}" for i in range(1, 5)))
    for text in style.split("(prefers-color-scheme: dark)")[:2]:
        colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", text))
        for name, behind in itertools.product(drawn, ("surface", "ground")):
            dark, light = sorted(map(luminance, (colours[name], colours[behind])))
            assert (light + 0.05) / (dark + 0.05) >= 3, (name, behind)
