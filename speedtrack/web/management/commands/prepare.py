"""Makes the database fit for this release, and lets the first operator in: what a stack does each time it starts."""

from typing import Any

from django.core.management import BaseCommand, CommandError, call_command, get_commands

LINK = "owner-link"


class Command(BaseCommand):
    help = "apply the migrations of this release; while nobody operates this installation, print the owner's link"

    def handle(self, **options: Any) -> None:
        call_command("migrate", stdout=self.stdout, stderr=self.stderr)
        if LINK not in get_commands():
            return
        try:
            call_command(LINK, stdout=self.stdout, stderr=self.stderr)
        except CommandError as e:
            self.stdout.write(f"no link for an owner's account: {e}")
