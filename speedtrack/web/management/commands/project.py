"""``manage.py project private|public PROJECT``: who sees a project."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.accounts import audit, members
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Show a project to its members only (private), or to everybody (public)."
    is_atomic = True

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("to", choices=["private", "public"])
        parser.add_argument("project", help="name of the project")

    def handle(self, *args: Any, **options: Any) -> None:
        everybody = options["to"] == "public"
        try:
            project = naming.project_named(options["project"])
        except NoSuchThing as e:
            raise CommandError(str(e)) from e
        if not members.show_to(project, everybody):
            self.stdout.write(f"{project} is {options['to']} already")
            return
        audit.note(None, "project.visibility", project, project, {"is_public": (not everybody, everybody)})
        count = project.memberships.count()
        readers = "" if everybody else f": {count} member{'' if count == 1 else 's'} and the operators see it"
        self.stdout.write(f"{project} is {options['to']} now{readers}")
