"""``manage.py hook show|rotate|end PROJECT``: a project's webhook and its secrets."""

import sys
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError

from speedtrack.operations import projects
from speedtrack.operations.performing import Actor
from speedtrack.projects import hooks
from speedtrack.projects.models import Project
from speedtrack.runs import naming
from speedtrack.runs.requests import tracking
from speedtrack.web.management.plaincommand import PlainCommand

Options = dict[str, Any]


def show(project: Project, options: Options) -> str:
    last = project.deliveries.order_by("-pk").values_list("received_at", flat=True).first()
    until = project.former_hook_secret_until if hooks.former_is_valid(project) else None
    last_use = project.deliveries.filter(with_former=True).order_by("-pk").values_list("received_at", flat=True).first()
    lines = [f"address    {tracking.hook_url(project)}", f"last call  {last or 'never'}"]
    if until:
        lines.append(f"former     secret valid until {until:%Y-%m-%d %H:%M} UTC, last used {last_use or 'never'}")
    if project.renamed_to:
        lines.append(f"renamed    the forge says that the repository is now called {project.renamed_to}")
    return "\n".join(lines)


def rotate(project: Project, options: Options) -> str:
    secret = sys.stdin.readline().strip() if options["given"] else ""
    if options["given"] and not secret:
        raise CommandError("nothing was read: write the secret to the standard input")
    result = projects.rotate_secret(Actor(dry_run=options["dry_run"]), project, options["days"], secret)
    return f"{result}; it is not shown again:\n{result.secret}" if result.secret else str(result)


def end(project: Project, options: Options) -> str:
    return str(projects.end_former_secret(Actor(dry_run=options["dry_run"]), project))


ACTIONS: dict[str, Callable[[Project, Options], str]] = {"show": show, "rotate": rotate, "end": end}


class Command(PlainCommand):
    help = "Show a project's webhook, give it a new secret (shown once), or end the former one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[*ACTIONS])
        parser.add_argument("project", help="name of the project")
        parser.add_argument(
            "--days",
            type=int,
            default=hooks.FORMER_DAYS,
            help=f"rotate: for how long the former secret stays valid (default: {hooks.FORMER_DAYS}; 0: not at all)",
        )
        parser.add_argument(
            "--given", action="store_true", help="rotate: read the secret that the forge has made from standard input"
        )
        parser.add_argument("--dry-run", action="store_true", help="only say what would change")

    def handle(self, *args: Any, **options: Any) -> None:
        project = naming.project_named(options["project"])
        self.stdout.write(ACTIONS[options["action"]](project, options))
