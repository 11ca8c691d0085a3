"""The migrations, one after another, make exactly the tables that the models ask for, with triggers and indexes."""

import re
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.core.management.commands import migrate
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from speedtrack.monitoring import health
from speedtrack.tests.clusters import copied_database, databases, empty_database
from speedtrack.tests.upgrades.dump import DUMPS, dump

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


def own_tables(labels: set[str]) -> list[str]:
    """The statements about tables of these apps, with their columns in order."""
    own = re.compile(rf"public\.({'|'.join(sorted(labels))}|limits_of_logins)")
    return [part for part in re.split(r";\n\n+", dump("--schema-only")) if own.match(part, part.find("public."))]


def test_migrations_that_are_replaced_make_the_same_tables_in_apps_that_the_first_release_has_not() -> None:
    """Of the other apps, test_upgrade.py shows it."""
    former = set(re.findall(r"'(\w+)', '0001_\w+'", (DUMPS / "1.0.0.sql").read_text()))
    with empty_database("replaced") as address, databases(DATABASE_URL=address):
        executor = MigrationExecutor(connection)
        executor.loader.replace_migrations = False
        executor.loader.build_graph()
        last_names = {app: squashed.replaces[-1] for (app, _), squashed in executor.loader.replacements.items()}
        newer = {app for app in last_names if app not in former}
        executor.migrate([last_names[app] for app in newer])
        one_by_one = own_tables(newer)
    assert newer == {"accounts", "calls"} and len(one_by_one) > 50
    assert own_tables(newer) == one_by_one


def test_a_database_with_all_replaced_migrations_gets_only_the_names_of_those_that_replace_them() -> None:
    own = {key for key in health.own_migrations() if "_squashed_" in key[1]}
    with copied_database("former") as address, databases(DATABASE_URL=address):
        with connection.cursor() as cursor:
            cursor.execute(r"DELETE FROM django_migrations WHERE name LIKE '%\_squashed\_%'")
        before, output = own_tables({app for app, _ in own}), StringIO()
        assert health.missing_migrations() == own
        call_command("migrate", stdout=output)
        assert "No migrations to apply" in output.getvalue()
        assert health.check_migrations().state == "good"
        assert own_tables({app for app, _ in own}) == before
