"""``manage.py migrate``: Django's, which first finds out whether the database can be brought to this release."""

from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import migrate
from django.db import DatabaseError, connections

from speedtrack.ground.postgres import databasefitness


class Command(migrate.Command):
    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        if obstacle := databasefitness.obstacle(connection):
            raise CommandError(obstacle)
        try:
            super().handle(*args, **options)
        except DatabaseError as e:
            first = str(e).strip().splitlines()[0]
            raise CommandError(
                f"a migration failed, and nothing of it is kept ({first}): what was applied before it stays. Mend the "
                "cause and migrate again, or restore the backup with the release before"
            ) from e
