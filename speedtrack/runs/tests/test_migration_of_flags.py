"""The flags of measurements become texts, and go back; the view for other programs shows the same lists meanwhile."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection

from speedtrack.tests.clusters import copied_database, databases
from speedtrack.tests.histories import History
from speedtrack.tests.upgrades.steps import take, take_back

pytestmark = pytest.mark.django_db(transaction=True)
STEP = "0013_flags_as_text"
FLAGS = [[], ["steal"], ["client_bound", "steal", "unsteady"]]
EXPORTED = "SELECT measurement, flags, pg_typeof(flags)::text, value, low, high FROM export_points ORDER BY measurement"
OWN_VIEW = "CREATE VIEW public_points AS SELECT * FROM export_points WHERE is_public"
STORED = "SELECT id, {flags}, value, low, high, n, side, attempt_id FROM runs_measurement ORDER BY id"
INDEXES = "SELECT indexdef FROM pg_indexes WHERE tablename = 'runs_measurement' ORDER BY 1"


@pytest.fixture
def measured(db: None) -> Iterator[str]:
    """The address of a database with a measurement of each of these flags, and with a view that a person made."""
    with copied_database("flags") as address:
        with databases(DATABASE_URL=address):
            history = History()
            series = history.series()
            for commit, flags in zip(history.commits(len(FLAGS)), FLAGS, strict=True):
                history.measure([series], {commit.pk: [[1 / 3, 1e-9, 1e15]]}, flags)
            with connection.cursor() as cursor:
                cursor.execute(OWN_VIEW)
        yield address


def rows(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url) as link:
        return link.execute(statement).fetchall()


def test_no_flag_is_lost_on_the_way_back_and_there(measured: str) -> None:
    texts = STORED.format(flags="flags")
    exported, stored, indexes = rows(measured, EXPORTED), rows(measured, texts), rows(measured, INDEXES)
    assert [flags for _, flags, *_ in exported] == FLAGS
    assert [flags for _, flags, *_ in stored] == [",".join(flags) for flags in FLAGS]
    with databases(DATABASE_URL=measured):
        take_back("runs", STEP)
        assert rows(measured, STORED.format(flags="array_to_string(flags, ',')")) == stored
        assert (rows(measured, EXPORTED), rows(measured, INDEXES)) == (exported, indexes)
        take("runs", STEP)
    assert (rows(measured, EXPORTED), rows(measured, texts), rows(measured, INDEXES)) == (exported, stored, indexes)
    assert len(rows(measured, "SELECT FROM public_points")) == len(FLAGS)
