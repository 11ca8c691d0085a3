"""``manage.py restore FILE``: what ``manage.py backup`` wrote, into an empty database."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from speedtrack.upkeep import backup, pgprograms
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Restore a backup into the database, completely or not at all, and compare every row with the backup."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="what `manage.py backup` wrote")
        parser.add_argument(
            "--replace",
            action="store_true",
            help="delete what the database holds; stop all processes of the server first",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            restored = backup.restore(options["file"], options["replace"])
        except pgprograms.BackupError as e:
            raise CommandError(str(e)) from e
        manifest = restored.manifest
        self.stdout.write(f"{manifest.rows:,} rows of {len(manifest.tables)} tables, as of {manifest.made_at}")
        for note in restored.notes:
            self.stdout.write(f"note: {note}")
        self.stdout.write("Mirrors are cloned again by the next look. Start the server, and run `manage.py fsck`.")
