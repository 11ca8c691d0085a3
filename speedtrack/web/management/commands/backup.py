"""``manage.py backup FILE``: everything that cannot be made again, but for the keys."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from speedtrack.upkeep import backup, pgprograms
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Write the database and the suites' files into one new file, while everything goes on working."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", type=Path, help="a file that does not exist yet, such as speedtrack-2026-11-23.zip")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            manifest = backup.back_up(options["file"])
        except pgprograms.BackupError as e:
            raise CommandError(str(e)) from e
        size = options["file"].stat().st_size
        self.stdout.write(f"{manifest.rows:,} rows of {len(manifest.tables)} tables, {size:,} bytes: {options['file']}")
        self.stdout.write("SECRET_KEY and SPEEDTRACK_ENCRYPTION_KEYS are not in it: keep them in another place")
