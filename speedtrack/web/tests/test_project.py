"""The project page: the grid, its colours, selections, the webhook address."""

from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.web.tests.world import World, html_of, queries, world


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
    client.force_login(User.objects.create_user("ada"))
    page = html_of(client.get("/p/kvd/"))
    assert f"/hooks/{kvd.project.hook_id}" in page
    assert kvd.project.hook_secret not in page


def test_the_number_of_queries_does_not_grow(client: Client, slow: tuple[World, Alert]) -> None:
    made, _ = slow
    few = queries(client, "/p/kvd/")
    made.push(8)
    made.measure()
    assert queries(client, "/p/kvd/") == few
