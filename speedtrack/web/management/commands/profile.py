"""``manage.py profile --alert N`` or ``--run N``: profile both sides of a change."""

from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

from django.core.management.base import CommandError

from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import profiling
from speedtrack.operations import runs
from speedtrack.operations.performing import Actor
from speedtrack.projects.models import Project
from speedtrack.runs.models import Run
from speedtrack.runs.results import profiles
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Queue a run that profiles both sides of an alert, or a run's commit and the one before it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument("--alert", type=int, metavar="NUMBER")
        target.add_argument("--run", type=int, metavar="NUMBER")

    def handle(self, *args: Any, **options: Any) -> None:
        project, plan = of_alert(options["alert"]) if options["alert"] is not None else of_run(options["run"])
        self.stdout.write(runs.profile(Actor(), project, plan).sentence)


def of_alert(number: int) -> tuple[Project, Callable[[], Run]]:
    alert = Alert.objects.select_related("project", "before", "commit").filter(pk=number).first()
    if alert is None:
        raise CommandError(f"there is no alert {number}: its number is at the end of its page's address")
    return alert.project, partial(plan_for_alert, alert)


def plan_for_alert(alert: Alert) -> Run:
    run = profiling.plan_profile_of_alert(alert, by_hand=True)
    if run is None:
        raise CommandError(f"alert {alert.pk} has no change that can be measured again: use --run with one of its runs")
    return run


def of_run(number: int) -> tuple[Project, Callable[[], Run]]:
    run = Run.objects.select_related("project", "base", "commit", "machine", "suite").filter(pk=number).first()
    if run is None:
        raise CommandError(f"there is no run {number}: its number is at the end of its page's address")
    return run.project, lambda: profiles.plan_profile(profiles.question_of_run(run), by_hand=True)
