"""``manage.py run retry|cancel|raise NUMBER``: what a person does with a run; ``run why NUMBER``: why it waits."""

from argparse import ArgumentParser
from functools import partial
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from speedtrack.accounts import audit
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.models import Run
from speedtrack.runs.queue import estimates
from speedtrack.runs.requests import byhand
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run, result_in_words

ACTIONS = {"retry": byhand.retry_run, "cancel": byhand.cancel_run, "raise": byhand.raise_run}


class Command(PlainCommand):
    help = "Queue failed runs again, cancel runs, let runs that wait be measured next, or say why they wait (why)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[*ACTIONS, "why"])
        parser.add_argument("runs", nargs="+", type=int, metavar="NUMBER", help="number of a run, as on its page")
        add_dry_run(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "why":
            for number in options["runs"]:
                self.stdout.write(state_of(number))
            return
        act = ACTIONS[options["action"]]
        for number in options["runs"]:
            try:
                with transaction.atomic():
                    message = result_in_words(partial(act, number), options["dry_run"])
                    if not options["dry_run"]:
                        run = Run.objects.select_related("project").get(pk=number)
                        audit.note(None, f"run.{options['action']}", f"run {number}", run.project)
                self.stdout.write(message)
            except NoSuchThing as e:
                raise CommandError(str(e)) from e


def state_of(number: int) -> str:
    """The status of a run, and why it waits if it does. Raises CommandError if there is none."""
    run = Run.objects.select_related("machine").filter(pk=number).first()
    if run is None:
        raise CommandError(f"there is no run {number}")
    expected = estimates.expected_times(run)
    reason = (expected.why or expected.late) if expected else run.error.partition("\n")[0]
    return f"run {number}: {run.status} on {run.machine}" + (f". {reason}" if reason else "")
