"""``manage.py profile --alert N`` or ``--run N``: profile both sides of a change."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.alerts.models import Alert
from speedtrack.alerts.triage import profiling
from speedtrack.runs.models import Run
from speedtrack.runs.results import profiles
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Queue a run that profiles both sides of an alert, or a run's commit and the one before it."
    quoted = ("alert", "run")

    def change(self, options: dict[str, Any]) -> str:
        return "run.profile"

    def add_arguments(self, parser: ArgumentParser) -> None:
        target = parser.add_mutually_exclusive_group(required=True)
        target.add_argument("--alert", type=int, metavar="NUMBER")
        target.add_argument("--run", type=int, metavar="NUMBER")

    def handle(self, *args: Any, **options: Any) -> None:
        run = plan_for_alert(options["alert"]) if options["alert"] is not None else plan_for_run(options["run"])
        self.stdout.write(f"run {run.pk} is queued on {run.machine}; its page will show the profiles")


def plan_for_alert(number: int) -> Run:
    alert = Alert.objects.select_related("project", "before", "commit").filter(pk=number).first()
    if alert is None:
        raise CommandError(f"there is no alert {number}: its number is at the end of its page's address")
    run = profiling.plan_profile_of_alert(alert, by_hand=True)
    if run is None:
        raise CommandError(f"alert {number} no longer has a change point: use --run with one of its runs")
    return run


def plan_for_run(number: int) -> Run:
    run = Run.objects.select_related("project", "base", "commit", "machine", "suite").filter(pk=number).first()
    if run is None:
        raise CommandError(f"there is no run {number}: its number is at the end of its page's address")
    try:
        return profiles.plan_profile(profiles.question_of_run(run), by_hand=True)
    except profiles.NoBase as e:
        raise CommandError(str(e)) from e
