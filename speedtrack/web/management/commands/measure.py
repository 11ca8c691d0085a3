"""``manage.py measure PROJECT RANGE``: queue runs of commits by hand."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.alerts import floors
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.errors import RepositoryError
from speedtrack.runs import tracking
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Queue runs of a commit, a tag, a branch's head or a range A..B, even if they were measured before."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        parser.add_argument("range", help="a commit id, tag or branch, or A..B (excludes A, includes B)")
        parser.add_argument("--benchmarks", nargs="+", default=[], metavar="NAME", help="only these benchmarks")
        parser.add_argument("--extended", action="store_true", help="include the suite's extended benchmarks")
        parser.add_argument("--machine", help="only on this machine")
        parser.add_argument(
            "--aa", action="store_true", help="measure each commit against itself, for the machine's noise floor"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            asked = [options[name] for name in ("project", "range", "benchmarks", "machine", "extended")]
            queued = floors.measure_noise(tracking.choose(*asked)) if options["aa"] else tracking.queue_by_hand(*asked)
        except (RepositoryError, DefinitionError, tracking.NoSuchThing) as e:
            raise CommandError(str(e)) from e
        self.stdout.write(f"{queued} runs queued")
