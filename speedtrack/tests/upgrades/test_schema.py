"""The migrations, one after another, make exactly the tables that the models ask for, with triggers and indexes."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.commands import migrate

from speedtrack.tests.clusters import databases, empty_database
from speedtrack.tests.upgrades.dump import dump

# What no model makes: views, and the table of the limits of logins, which is a cache.
WITHOUT_MODEL = re.compile(r"public\.(export_\w+|projects_position|limits_of_logins)\b")
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def made_of_models(settings: Any, db: None) -> Iterator[str]:
    """The address of a database whose tables Django makes without our migrations."""
    own = [app.label for app in apps.get_app_configs() if app.name.startswith("speedtrack.")]
    with empty_database("models") as address:
        with databases(DATABASE_URL=address):
            call_command("migrate", "auth", verbosity=0)
            settings.MIGRATION_MODULES = dict.fromkeys(own)
            call_command(migrate.Command(), run_syncdb=True, verbosity=0)  # ours asks for our migrations
            settings.MIGRATION_MODULES = {}
        yield address


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
