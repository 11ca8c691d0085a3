"""``manage.py run retry|cancel|raise NUMBER``: what a person does with a run; ``run why NUMBER``: why it waits."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.operations.performing import Actor
from speedtrack.operations.runs import RUN_ACTIONS
from speedtrack.runs import naming
from speedtrack.runs.models import Run
from speedtrack.runs.queue import estimates
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run


class Command(PlainCommand):
    help = "Queue failed runs again, cancel runs, let runs that wait be measured next, or say why they wait (why)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[*RUN_ACTIONS, "why"])
        parser.add_argument("runs", nargs="+", type=int, metavar="NUMBER", help="number of a run, as on its page")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "why":
            for number in options["runs"]:
                self.stdout.write(state_of(number))
            return
        verb = RUN_ACTIONS[options["action"]]
        for number in options["runs"]:
            run = naming.run_numbered(number)
            self.stdout.write(str(verb(Actor(dry_run=options["dry_run"]), run)))


def state_of(number: int) -> str:
    """The status of a run, and why it waits if it does. Raises CommandError if there is none."""
    run = Run.objects.select_related("machine").filter(pk=number).first()
    if run is None:
        raise CommandError(f"there is no run {number}")
    expected = estimates.expected_times(run)
    reason = (expected.why or expected.late) if expected else run.error.partition("\n")[0]
    return f"run {number}: {run.status} on {run.machine}" + (f". {reason}" if reason else "")
