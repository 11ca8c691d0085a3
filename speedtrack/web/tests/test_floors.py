"""The noise floor on the pages that show what it was compared with."""

from django.test import Client

from speedtrack.alerts.models import Alert, NoiseFloor
from speedtrack.alerts.settling import floors
from speedtrack.runs.requests import byhand
from speedtrack.web.tests.world import CPU, World, html_of, queries


def measure_floor(world: World) -> NoiseFloor:
    floors.measure_noise(byhand.choose(world.project.slug, world.shas[-1], ["get-p1"], None))
    world.measure()
    floors.store_due()
    return NoiseFloor.objects.get(series__metric=CPU)


def test_a_timeline_and_an_alert_say_what_the_machine_sees(client: Client, slow: tuple[World, Alert]) -> None:
    world, alert = slow
    timeline, page = f"/p/{world.project.slug}/timeline/get-p1/{CPU}", f"/alerts/{alert.pk}/"
    before = queries(client, page)
    assert "can tell changes of" not in html_of(client.get(timeline)) + html_of(client.get(page))
    floor = measure_floor(world)
    NoiseFloor.objects.filter(pk=floor.pk).update(smallest=0.0081)
    run = f'<a href="/runs/{floor.run_id}/">A/A run {floor.run_id}</a>'
    assert f"kvd-m1 can tell changes of 0.81% or more, by {run} (10 pairs" in html_of(client.get(page))
    assert run in html_of(client.get(timeline))
    assert queries(client, page) == before


def test_the_page_of_an_aa_run_has_both_sides(client: Client, kvd: World) -> None:
    floor = measure_floor(kvd)
    page = html_of(client.get(f"/runs/{floor.run_id}/"))
    assert "against itself" in page
    assert "<td>base</td>" in page and "<td>head</td>" in page
