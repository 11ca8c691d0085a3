"""``manage.py demo``: the whole system on this machine, demonstrated on the sample server's history."""

import os
import sys
from typing import Any

from django.core.management.base import CommandError
from rich.console import Console

from speedtrack.processes import demo, serving
from speedtrack.processes.devstack import Stack, StackError
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    requires_system_checks = "__all__"  # at the start of an installation
    help = "Track the sample server, push its history, measure every commit, and show the alert; then keep serving."

    def handle(self, *args: Any, **options: Any) -> None:
        console = Console(soft_wrap=True, highlight=False)

        def work(stack: Stack) -> int | None:
            right = demo.demonstrate(console, stack)
            return int(not right) if os.environ.get("DEMO_EXIT") == "1" else None

        try:
            sys.exit(serving.serve_all(console, work))
        except StackError as e:
            raise CommandError(str(e)) from e
