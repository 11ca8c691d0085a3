"""``manage.py up``: the server of this host without a runner, with production settings, in the foreground."""

from typing import Any

from django.core.management import call_command, get_commands
from django.core.management.base import CommandError
from rich.console import Console

from speedtrack import serving
from speedtrack.devstack import StackError
from speedtrack.web.management.plaincommand import PlainCommand

OWNER_LINK = "owner-link"


class Command(PlainCommand):
    help = (
        "Start web server, streams, dispatcher and workers, and start again whatever ends, until Ctrl-C. PostgreSQL "
        "and Valkey run embedded unless DATABASE_URL and BROKER_URL name others."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            serving.keep_up(Console(soft_wrap=True, highlight=False), self.welcome)
        except StackError as e:
            raise CommandError(str(e)) from e

    def welcome(self) -> None:
        """Print the address at which the first owner makes an account, once."""
        if OWNER_LINK in get_commands():
            call_command(OWNER_LINK, "--if-needed", stdout=self.stdout)
