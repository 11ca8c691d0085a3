"""``manage.py serve``: the whole system on this machine, which is also its runner."""

import sys
from typing import Any

from django.core.management.base import CommandError
from rich.console import Console

from speedtrack.processes import serving
from speedtrack.processes.devstack import StackError
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    requires_system_checks = "__all__"  # at the start of an installation
    help = "Start web server, dispatcher, workers and runner on this machine, until Ctrl-C."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            sys.exit(serving.serve_all(Console(soft_wrap=True, highlight=False), lambda stack: None))
        except StackError as e:
            raise CommandError(str(e)) from e
