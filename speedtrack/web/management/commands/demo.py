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
    help = (
        "Track the sample server, push its history, show the alert, and go on serving and measuring. "
        "DEMO_EXIT=1: wait for them all, and end with 0 only if the alert names the planted commit and nothing else."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        console = Console(soft_wrap=True, highlight=False)

        def work(stack: Stack) -> int | None:
            ends = os.environ.get("DEMO_EXIT") == "1"
            is_right = demo.demonstrate(console, stack, to_the_end=ends)
            return int(not is_right) if ends else None

        try:
            sys.exit(serving.serve_all(console, work))
        except StackError as e:
            raise CommandError(str(e)) from e
