"""``manage.py machine add NAME``: register a machine, and what else an operator does with one."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from speedtrack.runs import tracking


class Command(BaseCommand):
    help = "Register a machine (its token is shown once), give it a new token, pause or resume it, or list all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["add", "token", "pause", "resume", "list"])
        parser.add_argument("name", nargs="?", help="name of the machine: letters, digits, - and _")

    def handle(self, *args: Any, **options: Any) -> None:
        action, name = options["action"], options["name"]
        if action == "list":
            for machine in tracking.machines():
                self.stdout.write(f"{machine.name:20} {'paused' if machine.paused else 'active':8} "
                                  f"last seen {machine.last_seen_at or 'never'}")  # fmt: skip
            return
        if not name:
            raise CommandError(f"say which machine: manage.py machine {action} NAME")
        try:
            if action in ("add", "token"):
                token = tracking.add_machine(name) if action == "add" else tracking.renew_token(name)
                self.stdout.write(f"machine {name}; its token, shown this once:\n{token}")
            else:
                tracking.pause(name, action == "pause")
                self.stdout.write(f"machine {name} {action}d")
        except tracking.NoSuchThing as e:
            raise CommandError(str(e)) from e
