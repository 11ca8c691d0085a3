"""The page of a series says why a commit was suspected, or why not."""

from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.web.tests.world import CPU, World, html_of

LINE = f"/p/kvd/timeline/get-p1/{CPU}"


def test_why_a_commit_was_suspected_and_another_not(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    page = html_of(client.get(f"{LINE}?last=50&why={made.shas[5]}"))
    assert "suspected on kvd-m1" in page or "suspected</" in page
    assert "exceeds" in page and f"alert {alert.pk}, confirmed" in page
    assert '<input type="hidden" name="last" value="50">' in page
    page = html_of(client.get(f"{LINE}?why={made.shas[2]}"))
    assert "not suspected on kvd-m1" in page


def test_a_commit_that_is_not_there(client: Client, kvd: World) -> None:
    assert client.get(f"{LINE}?why={'f' * 40}").status_code == 404
    assert client.get(f"{LINE}?why=%3Cscript").status_code == 404


def test_each_change_has_a_link_to_its_reasons(client: Client, slow: tuple[World, Alert]) -> None:
    _, alert = slow
    assert f"why={alert.commit.sha}#why" in html_of(client.get(LINE))
