"""``manage.py prepare``: what a stack does each time it starts, before its processes."""

from typing import Any

from django.core.management import call_command, get_commands

from speedtrack.web.management.plaincommand import PlainCommand

LINK = "owner-link"


class Command(PlainCommand):
    requires_system_checks = "__all__"  # at the start of an installation
    help = "Apply the migrations of this release, and print the owner's link while nobody operates this installation."

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", verbosity=options["verbosity"], stdout=self.stdout, stderr=self.stderr)
        if LINK in get_commands():
            call_command(LINK, "--if-needed", stdout=self.stdout, stderr=self.stderr)
