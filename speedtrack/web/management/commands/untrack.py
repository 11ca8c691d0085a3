"""``manage.py untrack PROJECT``: measure a project no more."""

from argparse import ArgumentParser
from typing import Any

from speedtrack.operations import projects
from speedtrack.operations.performing import Actor
from speedtrack.runs import naming
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run


class Command(PlainCommand):
    help = "Look at a project's repository no more and cancel its waiting runs. What was measured stays."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project = naming.project_named(options["project"])
        self.stdout.write(str(projects.untrack(Actor(dry_run=options["dry_run"]), project)))
