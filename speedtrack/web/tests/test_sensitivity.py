"""How small a change is detected: the page of a project, and the lines below a chart."""

import random
import re
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from speedtrack.alerts.detection import detection
from speedtrack.alerts.lines import sensitivity
from speedtrack.alerts.lines.effects import EffectsOfProjects
from speedtrack.alerts.models import Alert, NoiseFloor
from speedtrack.runs.models import Run, Series, Trial
from speedtrack.tests import builders, worlds
from speedtrack.web.pages.alerting import sensitivity as sensitivity_page
from speedtrack.web.templatetags.show import with_code
from speedtrack.web.tests.world import CPU, World, html_of, measured, queries

PAGE = "/p/kvd/sensitivity/"
LINE = f"/p/kvd/timeline/get-p1/{CPU}"


@worlds.shared
def scattered_runs(settings: Any, directory: Path) -> World:
    """Thirty commits; get-p1 is quiet, and the runs of set-p1 differ by a tenth."""
    rng = random.Random(3)
    level: dict[tuple[str, str], float] = {}

    def speed(sha: str, benchmark: str, trial: int) -> float:
        spread = 0.1 if benchmark == "set-p1" else 0.004
        return level.setdefault((sha, benchmark), 5000 * rng.gauss(1, spread)) * rng.gauss(1, 0.004)

    made = measured(settings, directory)
    made.push(30)
    builders.work(made.machines[0], speed)
    detection.detect()
    return made


def test_the_noisy_ones_are_named_with_reason_and_remedy(client: Client, scattered_runs: World) -> None:
    Trial.objects.filter(result__benchmark__name="set-p1", number__lt=2).update(flags=["steal"])
    sensitivity.judge(Series.objects.all(), EffectsOfProjects())
    page = html_of(client.get(PAGE))
    worth, _, others = page.partition("Likely reason")[2].partition("All other series")
    assert "set-p1" in worth and "set-p1" not in others
    assert "get-p1" in others and "get-p1" not in worth
    assert "steal in 40% of its trials" in worth and "the hypervisor takes time away" in worth
    assert "more trials will not help" in worth
    assert re.search(r"The sharpest, .*?: <strong>[0-9.]+%</strong> would be seen within \d commits? because \w+", page)


def test_the_series_are_sorted_by_what_they_show(client: Client, scattered_runs: World) -> None:
    shown = [one["smallest"] or 0 for one in client.get("/p/kvd/sensitivity.json").json()["series"]]
    assert shown == sorted(shown, reverse=True) and shown[-1] > 0


def test_many_series_have_several_pages(client: Client, scattered_runs: World, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = html_of(client.get(PAGE))
    rows = re.findall(r'<th scope="row">.*?</tr>', whole, re.DOTALL)
    monkeypatch.setattr(sensitivity_page, "SHOWN", 1)
    pages = [html_of(client.get(f"{PAGE}?page={number + 1}")) for number in range(len(rows))]
    assert [re.findall(r'<th scope="row">.*?</tr>', page, re.DOTALL) for page in pages] == [[row] for row in rows]
    sharpest = re.compile("The sharpest.*?</p>", re.DOTALL)
    assert {sharpest.findall(page)[0] for page in pages} == set(sharpest.findall(whole))
    assert f"Series 1 to 1 of {len(rows)}" in pages[0] and 'href="?page=2" rel="next"' in pages[0]
    assert html_of(client.get(f"{PAGE}?page=999")) == pages[0]


def test_the_same_as_json(client: Client, scattered_runs: World) -> None:
    found = client.get("/p/kvd/sensitivity.json").json()
    table = b"".join(client.get("/p/kvd/sensitivity.csv")).decode().splitlines()
    assert len(table) - 1 == len(found["series"])
    assert (found["schema"], found["branch"]) == ("speedtrack.sensitivity/2", "main")
    first, *others = found["series"]
    assert (first["benchmark"], first["is_too_noisy"]) == ("set-p1", True)
    assert 0.05 < first["between"] < 0.2 and first["smallest"] > 0.15
    quiet = next(one for one in others if (one["benchmark"], one["metric"]) == ("get-p1", CPU))
    assert quiet["smallest"] == pytest.approx(0.03, abs=0.005)  # the suite's smallest effect


def test_a_series_shows_its_noise_what_it_sees_and_how_often_equal_programs_differed(
    client: Client, scattered_runs: World
) -> None:
    series = Series.objects.get(benchmark__name="get-p1", metric=CPU)
    for run, low in zip(Run.objects.all()[:4], (0.99, 0.98, 1.01, 0.97), strict=True):
        NoiseFloor.objects.create(series=series, run=run, pairs=10, deviation=0.01, ratio=1.0, low=low, high=1.03)
    sensitivity.judge([series], EffectsOfProjects())
    page = html_of(client.get(LINE))
    assert re.search(r"On kvd-m1 a change of <strong>3(\.\d)?%</strong> would be seen within", page)
    assert "1 of 4 A/A runs differed" in page


def test_a_project_without_measurements(client: Client, db: None, settings: object, tmp_path: object) -> None:
    assert client.get("/p/none/sensitivity/").status_code == 404


def test_few_points_are_no_noise(client: Client, kvd: World) -> None:
    page = html_of(client.get(PAGE))
    assert "No series is too noisy" in page


def test_the_number_of_queries_does_not_grow(client: Client, kvd: World) -> None:
    few = queries(client, PAGE)
    kvd.push(12)
    kvd.measure()
    assert queries(client, PAGE) == few


def test_a_confirmed_change_is_no_noise(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    made.push(20, slow=True)
    made.measure()
    page = html_of(client.get(LINE))
    said = re.search(r"a change of <strong>([0-9.]+)%</strong> would be seen", page)
    assert said and float(said[1]) < 6  # the change was one of 20%


def test_what_stands_between_backticks_is_code_and_nothing_else_is_markup() -> None:
    assert with_code("raise `trials` <b> & `a<b`") == "raise <code>trials</code> &lt;b&gt; &amp; <code>a&lt;b</code>"
