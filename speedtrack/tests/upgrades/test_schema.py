"""The migrations, one after another, make exactly the tables that the models ask for, with triggers and indexes."""

import re
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.commands import migrate
from django.db import connection

from speedtrack.tests.clusters import databases
from speedtrack.tests.upgrades.dump import dump
from speedtrack.tests.upgrades.test_upgrade import address_of

# What no model makes: views, and the table of the limits of logins, which is a cache.
WITHOUT_MODEL = re.compile(r"public\.(export_\w+|projects_position|limits_of_logins)\b")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def made_of_models(settings: Any, db: None) -> Iterator[str]:
    """The address of a database whose tables Django makes without our migrations."""
    name = f"{connection.settings_dict['NAME']}_models"
    own = [app.label for app in apps.get_app_configs() if app.name.startswith("speedtrack.")]
    with psycopg.connect(address_of("postgres"), autocommit=True) as link:
        link.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        link.execute(f'CREATE DATABASE "{name}"')
        try:
            with databases(DATABASE_URL=address_of(name)):
                call_command("migrate", "auth", verbosity=0)
                settings.MIGRATION_MODULES = dict.fromkeys(own)
                call_command(migrate.Command(), run_syncdb=True, verbosity=0)  # ours asks for our migrations
                settings.MIGRATION_MODULES = {}
            yield address_of(name)
        finally:
            link.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def statements() -> set[str]:
    """What pg_dump writes about the tables; the columns of a table in the order of their names."""
    return {in_order(statement) for statement in re.split(r";\n\n+", dump("--schema-only")) if statement.strip()}


def in_order(statement: str) -> str:
    head, _, columns = statement.strip().replace("CREATE UNLOGGED", "CREATE").partition(" (\n")
    if not head.startswith("CREATE TABLE"):
        return statement.strip().rstrip(";")
    return "\n".join([head, *sorted(column.strip().rstrip(",") for column in columns.removesuffix("\n)").splitlines())])


def test_migrations_and_models_make_the_same_tables(made_of_models: str) -> None:
    migrated = {one for one in statements() if not WITHOUT_MODEL.search(one)}
    with databases(DATABASE_URL=made_of_models):
        modelled = statements()
    assert sorted(migrated - modelled) == []
    assert sorted(modelled - migrated) == []
    assert any("CREATE TRIGGER" in one for one in migrated)
