"""``manage.py project private|public PROJECT``: who sees a project."""

from argparse import ArgumentParser
from typing import Any

from speedtrack.operations import projects
from speedtrack.operations.performing import Actor
from speedtrack.runs import naming
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Show a project to its members only (private), or to everybody (public)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("to", choices=["private", "public"])
        parser.add_argument("project", help="name of the project")

    def handle(self, *args: Any, **options: Any) -> None:
        project = naming.project_named(options["project"])
        self.stdout.write(str(projects.show_to(Actor(), project, options["to"] == "public")))
