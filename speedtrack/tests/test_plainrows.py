"""Rows that are read as columns answer as models do, and read no more than their columns."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from speedtrack.ground.postgres.plainrows import among, plain_rows
from speedtrack.runs.models import Measurement, Run, Series
from speedtrack.tests.plans import rows_read
from speedtrack.web.tests.world import World, kvd

__all__ = ["kvd"]

COLUMNS = ("status", "machine__name", "commit__sha", "base__sha", "project__slug")


def test_rows_have_their_columns_and_relations(kvd: World) -> None:
    models = list(Run.objects.select_related("machine", "commit").order_by("pk"))
    rows = plain_rows(Run.objects.order_by("pk"), COLUMNS)
    assert [(row.pk, row.commit.sha, row.machine.name) for row in rows] == [
        (run.pk, run.commit.sha, run.machine.name) for run in models
    ]
    assert rows[0].project is rows[1].project and rows[0].base is None
    assert [row.done for row in rows] == [run.done for run in models], "a property of the model"


def test_a_column_that_was_not_named_is_not_loaded(kvd: World) -> None:
    row = plain_rows(Run.objects.all()[:1], COLUMNS)[0]
    with pytest.raises(AttributeError, match="reason"):
        _ = row.reason
    with pytest.raises(AttributeError, match="subject"):
        _ = row.commit.subject


def test_one_statement_for_each_model_that_is_not_joined(kvd: World) -> None:
    for joined, count in (((), 4), (("machine", "project"), 2), (("machine", "project", "commit", "base"), 1)):
        with CaptureQueriesContext(
            connection,
        ) as context:
            rows = plain_rows(Run.objects.order_by("pk"), COLUMNS, joined)
        assert len(context) == count
        assert {(row.machine.name, row.project.slug, row.base) for row in rows} == {("kvd-m1", "kvd", None)}


def test_what_rows_refer_to_is_read_by_ids_alone(kvd: World) -> None:
    newest = Run.objects.order_by("-pk")[:2]
    assert rows_read(lambda: plain_rows(newest, ("commit__sha",))) <= 2 * (1 + 2), (
        "two runs, two commits, twice at most"
    )


def test_among(kvd: World) -> None:
    series = list(Series.objects.order_by("pk").values_list("pk", flat=True))
    rows = Measurement.objects.filter(among("series_id", series[:2]))
    assert set(rows.values_list("series_id", flat=True)) == set(series[:2])
    assert not Measurement.objects.filter(among("series_id", [])).exists()
