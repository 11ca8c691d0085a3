"""``manage.py measure PROJECT RANGE``: queue runs of commits by hand."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.alerts.settling import floors
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.errors import RepositoryError
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.requests import byhand
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run, result_in_words


class Command(PlainCommand):
    help = "Queue runs of a commit, tag, branch's head, range A..B or releases, even if they were measured before."
    quoted = ("range", "releases", "benchmarks", "machine")

    def change(self, options: dict[str, Any]) -> str:
        return "run.queue"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        parser.add_argument("range", nargs="?", help="a commit id, tag or branch, or A..B (excludes A, includes B)")
        parser.add_argument(
            "--releases",
            metavar="PATTERN",
            help="instead of a range: tags that match, such as 'v*'; the newest patch of each minor version",
        )
        parser.add_argument("--benchmarks", nargs="+", default=[], metavar="NAME", help="only these")
        parser.add_argument("--extended", action="store_true", help="include the suite's extended benchmarks")
        parser.add_argument("--machine", help="only on this machine")
        thinned = parser.add_mutually_exclusive_group()
        thinned.add_argument("--every", type=int, default=1, metavar="N", help="each n-th commit, from the newest on")
        thinned.add_argument(
            "--bisect", action="store_true", help="first both ends of the range, then its middle, then the quarters ..."
        )
        add_dry_run(parser)
        parser.add_argument(
            "--aa", action="store_true", help="measure each commit against itself, for the machine's noise floor"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(result_in_words(lambda: f"{queue(options)} runs queued", options["dry_run"]))
        except (RepositoryError, DefinitionError, NoSuchThing) as e:
            raise CommandError(str(e)) from e


def queue(options: dict[str, Any]) -> int:
    """Queue what the options name. Return the number of runs."""
    if (options["range"] is None) == (options["releases"] is None):
        raise CommandError("give either a range or --releases PATTERN")
    selection = byhand.choose(
        options["project"],
        options["range"] or options["releases"],
        options["benchmarks"],
        options["machine"],
        options["extended"],
        options["releases"] is not None,
        byhand.Thinning(options["every"], options["bisect"]),
    )
    return floors.measure_noise(selection) if options["aa"] else byhand.queue_by_hand(selection)
