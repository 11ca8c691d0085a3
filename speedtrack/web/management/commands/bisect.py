"""``manage.py bisect PROJECT A..B``: look for the commit between two at which benchmarks changed."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User

from speedtrack.alerts.models import Bisection
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.operations import runs
from speedtrack.operations.performing import Actor
from speedtrack.projects.models import Project
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.requests import byhand
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run
from speedtrack.web.pages.alerting.bisection import asked_for


class Command(PlainCommand):
    help = "Find by pairs at which commit between two some benchmarks changed; or end such a bisection."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("project", help="name of a tracked project")
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument("range", nargs="?", help="A..B: commit ids, tags or branches, the older one first")
        target.add_argument("--end", type=int, metavar="NUMBER", help="end this one, and cancel what waits for it")
        parser.add_argument("--machine", help="on this machine, else on the first one of the project")
        parser.add_argument("--benchmarks", nargs="+", default=[], metavar="NAME", help="else the usual ones, up to 8")
        parser.add_argument("--metric", default="", help=f"of these, else {HEADLINE}")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        project, actor = naming.project_named(options["project"]), Actor(dry_run=options["dry_run"])
        if options["end"] is not None:
            self.stdout.write(str(runs.stop_bisection(actor, bisection_numbered(project, options["end"]))))
            return
        result = runs.begin_bisection(actor, project, partial(begin, project, options))
        self.stdout.write(str(result))
        if result.row:
            self.stdout.write(f"{settings.URL}/bisections/{result.row.pk}/")


def begin(project: Project, options: dict[str, Any], user: User | None) -> Bisection:
    before, _, commit = options["range"].partition("..")
    machine = options["machine"] or byhand.machines_to_measure(project, None)[0].name
    return asked_for(project, [before, commit], machine, options["benchmarks"], options["metric"]).begin(user)


def bisection_numbered(project: Project, number: int) -> Bisection:
    bisection: Bisection | None = project.bisections.filter(pk=number).first()
    if bisection is None:
        raise NoSuchThing(f"{project} has no bisection {number}")
    return bisection
