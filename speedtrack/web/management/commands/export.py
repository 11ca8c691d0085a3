"""``manage.py export PROJECT FILE``: everything of a project, to be restored by ``manage.py import`` elsewhere."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from rich.console import Console

from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.upkeep.archive import writing
from speedtrack.upkeep.archive.files import ArchiveError
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Write everything of a project into one new file (docs/archive.md), while everything goes on working."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="its name in addresses, such as redis")
        parser.add_argument("file", type=Path, help="a file that does not exist yet, such as redis.speedtrack.zip")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            project = naming.project_named(options["project"])
            with Console(stderr=True).status("reading") as status:
                manifest = writing.write(
                    project, options["file"], lambda table, rows: status.update(f"{table}: {rows:,} rows")
                )
        except (ArchiveError, NoSuchThing) as e:
            raise CommandError(str(e)) from e
        size = options["file"].stat().st_size
        self.stdout.write(f"{manifest.rows:,} rows of {len(manifest.files)} files, {size:,} bytes: {options['file']}")
        self.stdout.write("Its secrets are not in it: a restored project gets a new webhook and no access token.")
