"""What tests that fill a database need."""

from pathlib import Path
from typing import Any

import pytest
from django.db import connection


@pytest.fixture
def clean_tables(django_db_setup: None, django_db_blocker: Any) -> None:
    """Tables without the rows that other tests have rolled back, which would change plans. Before ``suites``."""
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        tables = ", ".join(map(connection.ops.quote_name, connection.introspection.django_table_names()))
        cursor.execute(f"VACUUM FULL {tables}")


@pytest.fixture
def suites(db: Any, settings: Any, tmp_path: Path) -> None:
    use_copied_suites(settings, tmp_path)


def use_copied_suites(settings: Any, directory: Path) -> None:
    """Use a copy of the suites, and an empty place for repositories."""
    for file in settings.SUITES.glob("*.toml"):
        (directory / file.name).write_bytes(file.read_bytes())
    settings.SUITES, settings.CANARY_EVERY_S = directory, 10**8
    settings.MIRRORS = directory / "mirrors"
