"""``manage.py outbox``: list what could not be sent, and why; ``outbox again NUMBER`` sends it again."""

from argparse import ArgumentParser
from typing import Any

from speedtrack.notices import sending
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "List what was given up or is being retried, or send some of it again."
    quoted = ("rows",)
    is_atomic = True

    def change(self, options: dict[str, Any]) -> str:
        return "" if options["action"] == "list" else "outbox.again"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", nargs="?", default="list", choices=["list", "again"])
        parser.add_argument(
            "rows", nargs="*", type=int, metavar="NUMBER", help="as listed; without one, all that were given up"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        lines = sending.send_again(options["rows"]) if options["action"] == "again" else sending.failures_in_words()
        for line in lines or ["everything could be sent"]:
            self.stdout.write(line)
