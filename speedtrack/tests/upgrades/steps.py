"""Single migrations, taken or taken back in the database of a test, without those that have nothing to do with them."""

from django.db import connection
from django.db.migrations.loader import MigrationLoader


def take(app: str, *names: str) -> None:
    """Take these migrations of an app, in this order; what one needs is in the database already."""
    for name in names:
        walk(app, name, "apply")


def take_back(app: str, *names: str) -> None:
    for name in names:
        walk(app, name, "unapply")


def walk(app: str, name: str, direction: str) -> None:
    """Nothing is noted of it in the table of migrations."""
    loader = MigrationLoader(None, replace_migrations=False)
    migration = loader.disk_migrations[app, name]
    state = loader.project_state((app, name), at_end=False)
    with connection.schema_editor(atomic=migration.atomic) as editor:
        getattr(migration, direction)(state, editor)
