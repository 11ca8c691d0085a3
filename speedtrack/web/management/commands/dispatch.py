"""``manage.py dispatch``: the dispatcher process."""

import signal
from typing import Any

from django.core.management.base import BaseCommand

from speedtrack import dispatch


class Command(BaseCommand):
    help = "Nudge workers and runners as long as there is work for them. Stop it with SIGTERM or Ctrl-C."

    def handle(self, *args: Any, **options: Any) -> None:
        ends: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, frame: ends.append(received))
        dispatch.run(lambda: bool(ends))
