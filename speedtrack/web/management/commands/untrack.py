"""``manage.py untrack PROJECT``: measure a project no more."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.requests import changing
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run, result_in_words


class Command(PlainCommand):
    help = "Look at a project's repository no more and cancel its waiting runs. What was measured stays."
    quoted = ("project",)
    is_atomic = True

    def change(self, options: dict[str, Any]) -> str:
        return "project.untrack"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            project = naming.project_named(options["project"])
        except NoSuchThing as e:
            raise CommandError(str(e)) from e
        if project.untracked_at:
            raise CommandError(f"{project} is not tracked already: `manage.py track {project.url}` tracks it again")

        def untrack() -> str:
            return f"{project} is no longer tracked; {changing.untrack(project)} waiting runs cancelled"

        self.stdout.write(result_in_words(untrack, options["dry_run"]))
