"""``manage.py run retry NUMBER``, ``run cancel NUMBER``: queue runs again, or cancel them."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from speedtrack.runs import tracking


class Command(BaseCommand):
    help = "Queue failed or cancelled runs again, or cancel runs that wait or are being measured."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["retry", "cancel"])
        parser.add_argument("runs", nargs="+", type=int, metavar="NUMBER", help="number of a run, as on its page")

    def handle(self, *args: Any, **options: Any) -> None:
        act = tracking.retry_run if options["action"] == "retry" else tracking.cancel_run
        for number in options["runs"]:
            try:
                self.stdout.write(act(number))
            except tracking.NoSuchThing as e:
                raise CommandError(str(e)) from e
