"""``manage.py outbox``: list what could not be sent, and why; ``outbox again NUMBER`` sends it again."""

from argparse import ArgumentParser
from typing import Any

from speedtrack.notices import sending
from speedtrack.operations import installation
from speedtrack.operations.performing import Actor
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "List what was given up or is being retried, or send some of it again."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", nargs="?", default="list", choices=["list", "again"])
        parser.add_argument(
            "rows", nargs="*", type=int, metavar="NUMBER", help="as listed; without one, all that were given up"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["action"] == "again":
            self.stdout.write(installation.send_again(Actor(), options["rows"]).sentence)
            return
        for line in sending.failures_in_words() or ["everything could be sent"]:
            self.stdout.write(line)
