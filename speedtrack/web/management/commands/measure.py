"""``manage.py measure PROJECT RANGE``: queue runs of commits by hand."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.management.base import CommandError

from speedtrack.alerts.settling import floors
from speedtrack.operations import runs
from speedtrack.operations.performing import Actor
from speedtrack.runs import naming
from speedtrack.runs.requests import byhand
from speedtrack.runs.requests.byhand import RunSelection
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run


class Command(PlainCommand):
    help = "Queue runs of a commit, tag, branch's head, range A..B or releases, even if they were measured before."

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
        if (options["range"] is None) == (options["releases"] is None):
            raise CommandError("give either a range or --releases PATTERN")
        project, order = naming.project_named(options["project"]), options["range"] or options["releases"]
        verb = floors.measure_noise if options["aa"] else byhand.queue_by_hand
        result = runs.queue(
            Actor(dry_run=options["dry_run"]), project, partial(selection_of, options), order, verb=verb
        )
        self.stdout.write(str(result))


def selection_of(options: dict[str, Any]) -> RunSelection:
    return byhand.choose(
        options["project"],
        options["range"] or options["releases"],
        options["benchmarks"],
        options["machine"],
        options["extended"],
        options["releases"] is not None,
        byhand.Thinning(options["every"], options["bisect"]),
    )
