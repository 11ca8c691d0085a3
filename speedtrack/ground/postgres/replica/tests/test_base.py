"""The limit on statements that the client holds, on a real PostgreSQL."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.postgresql.base import DatabaseWrapper as DjangosWrapper

from speedtrack.ground.postgres.replica import base

pytestmark = pytest.mark.django_db
LONG, LONGER_THAN_THE_LIMIT = "SELECT pg_sleep(600)", "SELECT pg_sleep(0.5)"


@pytest.fixture(autouse=True)
def limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "STATEMENT_S", 0.2)


@pytest.fixture(params=[base.DatabaseWrapper, DjangosWrapper])
def wrapper(request: pytest.FixtureRequest) -> Iterator[BaseDatabaseWrapper]:
    made: BaseDatabaseWrapper = request.param(dict(connection.settings_dict), alias="beside")
    yield made
    made.close()


def run(wrapper: BaseDatabaseWrapper, statement: str) -> Any:
    with wrapper.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


def test_a_statement_that_takes_too_long_raises(wrapper: BaseDatabaseWrapper) -> None:
    with base.limited(wrapper):
        assert run(wrapper, "SELECT 1") == (1,)
        with pytest.raises(OperationalError):
            run(wrapper, LONG)


def test_the_limit_of_another_engine_ends_with_its_block(wrapper: BaseDatabaseWrapper) -> None:
    if isinstance(wrapper, base.DatabaseWrapper):
        with pytest.raises(OperationalError):
            run(wrapper, LONG)
        return
    with base.limited(wrapper):
        run(wrapper, "SELECT 1")
    assert run(wrapper, LONGER_THAN_THE_LIMIT) == ("",)
