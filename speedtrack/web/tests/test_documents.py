"""A page's JSON and the API answer one document for one row."""

from typing import Any

from django.test import Client

from speedtrack.alerts.models import Alert
from speedtrack.reports import alerts, comparing, evidence, machines, runs
from speedtrack.reports.commits import CommitDetails
from speedtrack.reports.common import Document
from speedtrack.runs.models import Run
from speedtrack.web.tests.world import World


def answer(client: Client, address: str) -> Any:
    response = client.get(address)
    assert response.status_code == 200, address
    return response.json()


def named(document: type[Document], found: dict[str, Any]) -> dict[str, Any]:
    """The page's answer without its schema, which is this document's."""
    assert found.pop("schema") == document.SCHEMA
    assert list(found) == list(document.model_fields)
    return found


def test_pages_and_api_answer_the_same_of_a_row(client: Client, slow: tuple[World, Alert]) -> None:
    made, alert = slow
    run = Run.objects.filter(status="succeeded", base=None).latest("pk")
    sides = f"base={made.shas[1]}&head={made.shas[6]}"
    rows: dict[type[Document], tuple[str, str]] = {
        alerts.AlertDetails: (f"/alerts/{alert.pk}.json", f"alerts/{alert.pk}"),
        runs.RunDetails: (f"/runs/{run.pk}.json", f"runs/{run.pk}"),
        machines.MachineDetails: ("/machines/kvd-m1.json", "machines/kvd-m1"),
        CommitDetails: (f"/p/kvd/c/{made.shas[5]}.json", f"projects/kvd/commits/{made.shas[5]}"),
        comparing.ComparisonDocument: (f"/p/kvd/compare.json?{sides}", f"projects/kvd/compare?{sides}"),
    }
    for document, (page, api) in rows.items():
        assert named(document, answer(client, page)) == answer(client, f"/api/v1/{api}"), page
    page = named(alerts.AlertList, answer(client, "/alerts.json?status=all"))
    assert page["alerts"] == answer(client, "/api/v1/alerts")["items"]


def test_what_a_page_has_in_common_with_the_api_is_equal(client: Client, slow: tuple[World, Alert]) -> None:
    """These pages answer the document of the API, and what belongs to the choice that a reader makes there."""
    page = named(evidence.SensitivityList, answer(client, "/p/kvd/sensitivity.json"))
    api_rows = answer(client, "/api/v1/projects/kvd/sensitivity")["items"]
    assert sorted(page["series"], key=lambda row: -row["series"]) == api_rows
