"""``manage.py bisect PROJECT A..B``: look for the commit between two at which benchmarks changed."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.triage.measuring import NotMeasurable
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.projects.models import Project
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.requests import byhand
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run, result_in_words
from speedtrack.web.pages.alerting.bisection import asked_for


class Command(PlainCommand):
    help = "Find by pairs at which commit between two some benchmarks changed; or end such a bisection."
    quoted = ("range", "machine", "benchmarks", "metric", "end")
    is_atomic = True

    def change(self, options: dict[str, Any]) -> str:
        return "bisection.begin" if options["end"] is None else "bisection.stop"

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
        try:
            project = naming.project_named(options["project"])
            verb = partial(begin, project, options) if options["end"] is None else partial(end, project, options["end"])
            self.stdout.write(result_in_words(verb, options["dry_run"]))
        except (NotMeasurable, DefinitionError, NoSuchThing) as e:
            raise CommandError(str(e)) from e


def begin(project: Project, options: dict[str, Any]) -> str:
    before, _, commit = options["range"].partition("..")
    machine = options["machine"] or byhand.machines_to_measure(project, None)[0].name
    request = asked_for(project, [before, commit], machine, options["benchmarks"], options["metric"])
    bisection = request.begin(None)
    return bisecting.bisection_in_words(bisection) + (
        "" if options["dry_run"] else f"\n{settings.URL}/bisections/{bisection.pk}/"
    )


def end(project: Project, number: int) -> str:
    bisection = project.bisections.filter(pk=number).first()
    if bisection is None:
        raise NoSuchThing(f"{project} has no bisection {number}")
    if bisection.ended_at is not None:
        raise NoSuchThing(f"bisection {number} has ended already")
    return bisecting.stop(bisection, "stopped by a command")
