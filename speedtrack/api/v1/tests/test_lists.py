"""Long lists are read as columns: their documents are those of models, to the byte."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from pydantic_core import to_json

from speedtrack.alerts.models import Alert, ChangePoint, SeriesSensitivity
from speedtrack.api.v1.alerts import alerts as alerts_of_api
from speedtrack.api.v1.measurements.measuring import known_measurements, known_series
from speedtrack.api.v1.tests.conftest import Program
from speedtrack.projects.models import Position
from speedtrack.reports.alerts import AlertDetails, AlertDocument, known_alerts
from speedtrack.reports.changes import ChangePointDocument, known_changes
from speedtrack.reports.common import Document
from speedtrack.reports.evidence import SensitivityDocument
from speedtrack.reports.measuring import MeasurementDocument, SeriesDocument
from speedtrack.reports.projects import CommitDocument
from speedtrack.reports.runs import RunDocument, known_runs
from speedtrack.runs.models import Measurement, Run, Samples, Series
from speedtrack.web.tests.world import World

Documents = list[Document]


def commits() -> Documents:
    positions = Position.objects.filter(branch__name="main").order_by("-number")
    return [CommitDocument.of(position.commit, position=position.number) for position in positions]


def alerts() -> Documents:
    """Of each alert the fields of its page, as far as the list has them."""
    names = AlertDocument.model_fields
    details = [AlertDetails.of(alert).model_dump() for alert in known_alerts().order_by("-pk")]
    return [AlertDocument.model_validate({name: one[name] for name in names}) for one in details]


EXPECTED: dict[str, Callable[[], Documents]] = {
    "alerts": alerts,
    "change-points": lambda: list(map(ChangePointDocument.of, known_changes().order_by("-pk"))),
    "commits": commits,
    "measurements": lambda: list(map(MeasurementDocument.of, known_measurements().order_by("-attempt__run", "-pk"))),
    "runs": lambda: list(map(RunDocument.of, known_runs().order_by("-pk"))),
    "sensitivity": lambda: list(map(SensitivityDocument.of, SeriesSensitivity.objects.order_by("-pk"))),
    "series": lambda: list(map(SeriesDocument.of, known_series().order_by("-pk"))),
}


@pytest.fixture
def various(slow: tuple[World, Alert]) -> World:
    """A project with something in each list, and rows with and without what a column may lack."""
    made, alert = slow
    Alert.objects.filter(pk=alert.pk).update(reverted_by=made.commit(-1))
    newest = Measurement.objects.order_by("-attempt__run", "-pk")[0]
    Samples.objects.filter(measurement=newest).delete()
    Measurement.objects.filter(pk=newest.pk).update(value=float("nan"), flags=["odd"])
    first = Measurement.objects.order_by("pk")[0]  # it came late: its id is the newest, its run the oldest
    Samples.objects.filter(measurement=first).delete()
    Measurement.objects.filter(pk=first.pk).update(id=newest.pk + 1000)
    Run.objects.filter(pk=Run.objects.order_by("-pk")[0].pk).update(
        cancel_requested_at=timezone.now(), error="\x1b[31mred"
    )
    for place, series in enumerate(Series.objects.order_by("pk")):
        paired = None if place % 2 else 0.2
        noise: dict[str, Any] = {"visible": 0.3, "between": 0.01, "causes": [["its runs differ", "pin it"]]}
        counts = {"position": 7, "points": 5, "aa_runs": 2, "aa_different": place % 2, "smallest_effect": 0.01}
        SeriesSensitivity.objects.update_or_create(series=series, defaults=noise | counts | {"paired": paired})
    return made


@pytest.mark.django_db
@pytest.mark.parametrize("name", EXPECTED)
def test_documents_of_columns_are_those_of_models(various: World, anybody: Program, name: str) -> None:
    expected = EXPECTED[name]()
    assert len(expected) > 0
    answer = anybody.call("GET", f"projects/kvd/{name}?limit=1000")
    items = [document.model_dump() for document in expected]
    assert answer.content == to_json({"items": items, "next": None}, inf_nan_mode="null")


@pytest.mark.django_db
@pytest.mark.parametrize("name", EXPECTED)
def test_pages_make_up_the_list(various: World, anybody: Program, name: str) -> None:
    whole = anybody.read(f"projects/kvd/{name}?limit=1000")["items"]
    size = max(1, -(-len(whole) // 3))
    pages: list[list[Any]] = []
    address = f"projects/kvd/{name}?limit={size}"
    while address:
        page = anybody.read(address)
        pages.append(page["items"])
        address = page["next"]
    assert [one for page in pages for one in page] == whole and max(map(len, pages)) == size


@pytest.mark.django_db
def test_alerts_of_many_changes_make_shorter_pages(
    slow: tuple[World, Alert], anybody: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, alert = slow
    (change, *_) = ChangePoint.objects.filter(alert=alert)
    ChangePoint.objects.filter(alert=alert).exclude(pk=change.pk).update(alert=None)
    alert.status, change.status = Alert.Status.FIXED, ChangePoint.Status.CONFIRMED
    for changes in (2, 1, 0, 4):
        alert.pk = None
        alert.save()
        for _ in range(changes):
            change.pk, change.alert = None, alert
            change.save()
    monkeypatch.setattr(alerts_of_api, "MOST_CHANGES", 3)
    pages = []
    address = "projects/kvd/alerts?limit=3"
    while address:
        page = anybody.read(address)
        pages.append([len(one["changes"]) for one in page["items"]])
        address = page["next"]
    assert pages == [[4], [0, 1, 2], [1]]
