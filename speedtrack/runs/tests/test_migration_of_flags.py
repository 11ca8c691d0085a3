"""The flags of measurements become texts, and go back; the view for other programs shows the same lists meanwhile."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from speedtrack.tests.clusters import databases
from speedtrack.tests.histories import History
from speedtrack.tests.upgrades.test_upgrade import address_of

pytestmark = pytest.mark.django_db(transaction=True)
BEFORE = ("runs", "0012_narrow_index_of_attempts")
FLAGS = [[], ["steal"], ["client_bound", "steal", "unsteady"]]
EXPORTED = "SELECT measurement, flags, pg_typeof(flags)::text, value, low, high FROM export_points ORDER BY measurement"
OWN_VIEW = "CREATE VIEW public_points AS SELECT * FROM export_points WHERE is_public"
STORED = "SELECT id, {flags}, value, low, high, n, side, attempt_id FROM runs_measurement ORDER BY id"
INDEXES = "SELECT indexdef FROM pg_indexes WHERE tablename = 'runs_measurement' ORDER BY 1"


@pytest.fixture
def measured(db: None) -> Iterator[str]:
    """The address of a database with a measurement of each of these flags, and with a view that a person made."""
    name = f"{connection.settings_dict['NAME']}_flags"
    with psycopg.connect(address_of("postgres"), autocommit=True) as link:
        link.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        link.execute(f'CREATE DATABASE "{name}"')
        try:
            with databases(DATABASE_URL=address_of(name)):
                call_command("migrate", verbosity=0)
                history = History()
                series = history.series()
                for commit, flags in zip(history.commits(len(FLAGS)), FLAGS, strict=True):
                    history.measure([series], {commit.pk: [[1 / 3, 1e-9, 1e15]]}, flags)
                with connection.cursor() as cursor:
                    cursor.execute(OWN_VIEW)
            yield address_of(name)
        finally:
            link.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def rows(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url) as link:
        return link.execute(statement).fetchall()


def test_no_flag_is_lost_on_the_way_back_and_there(measured: str) -> None:
    texts = STORED.format(flags="flags")
    exported, stored, indexes = rows(measured, EXPORTED), rows(measured, texts), rows(measured, INDEXES)
    assert [flags for _, flags, *_ in exported] == FLAGS
    assert [flags for _, flags, *_ in stored] == [",".join(flags) for flags in FLAGS]
    with databases(DATABASE_URL=measured):
        call_command("migrate", *BEFORE, verbosity=0)
        assert rows(measured, STORED.format(flags="array_to_string(flags, ',')")) == stored
        assert (rows(measured, EXPORTED), rows(measured, INDEXES)) == (exported, indexes)
        call_command("migrate", verbosity=0)
    assert (rows(measured, EXPORTED), rows(measured, texts), rows(measured, INDEXES)) == (exported, stored, indexes)
    assert len(rows(measured, "SELECT FROM public_points")) == len(FLAGS)
