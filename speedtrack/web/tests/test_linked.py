"""A commit that gives the same program as its parent: the pages say why it has no point."""

import pytest
from django.test import Client

from speedtrack.alerts.detection import detection
from speedtrack.alerts.models import ChangePoint
from speedtrack.runs.models import Run
from speedtrack.runs.queue import queue
from speedtrack.runs.results import results
from speedtrack.tests import builders
from speedtrack.web.tests.world import CPU, World, html_of


@pytest.fixture
def linked(kvd: World) -> World:
    """Four measured commits, a fifth, and a sixth that is the same program as the fifth."""
    for _ in range(2):
        kvd.push(1)
        run = builders.claim(kvd.machines[0])
        if not builders.send_build(run, run.commit, binary="same", environment=builders.environment()):
            for name in builders.measured(run):
                results.accept_result(
                    run.machine,
                    run.pk,
                    builders.result(run, name, run.commit, [kvd.speed(run.commit.sha, name, i) for i in range(5)]),
                )
        queue.complete(run.machine, run.pk, run.lease_token)
    detection.detect()
    return kvd


def test_the_commit_says_which_run_stands_for_it(client: Client, linked: World) -> None:
    origin = Run.objects.order_by("-pk")[1]
    page = html_of(client.get(f"/p/kvd/c/{linked.shas[5]}/"))
    assert f'the same program, bit for bit, as <a class="sha" href="/p/kvd/c/{linked.shas[4]}/">' in page
    assert f'<a href="/runs/{origin.pk}/">run {origin.pk}</a> stands for it' in page
    assert (
        'class="answer same">same' in page
        and "Binary size" in page
        and "1.00 kB" in page
        and 'class="matrix"' not in page
    )


def test_charts_and_tables_show_a_gap_with_its_reason(client: Client, linked: World) -> None:
    reason = f"the same program as {linked.shas[4][:10]}: not measured again"
    chart = client.get(f"/p/kvd/timeline/get-p1/{CPU}.json").json()
    assert {"at": [5], "state": "linked", "reason": reason} in chart["paths"][0]["gaps"]
    assert chart["lines"][0]["at"] == [0, 1, 2, 3, 4]
    table = html_of(client.get(f"/p/kvd/timeline/get-p1/{CPU}?part=values"))
    grid = html_of(client.get("/p/kvd/"))
    assert reason in table
    assert "cell linked" in grid
    assert reason in grid


def test_the_build_has_lines_of_its_own(client: Client, linked: World) -> None:
    chart = client.get("/p/kvd/timeline/build/binary_bytes.json").json()
    assert (chart["lines"][0]["value"], chart["lines"][0]["n"]) == ([1000, 1000], [1, 1])
    page = html_of(client.get("/p/kvd/?metric=build_seconds"))
    assert ">build<" in page and "1.50 s" in page
    assert "make" in html_of(client.get("/p/kvd/timeline/build/binary_bytes"))


def test_detection_does_not_count_the_linked_commit(linked: World) -> None:
    linked.settle()
    assert not ChangePoint.objects.exists()
