"""``manage.py dispatch``: the dispatcher process."""

import signal
from typing import Any

from structlog.contextvars import bind_contextvars

from speedtrack.processes import dispatch
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Notify workers and runners while there is work for them. Stop it with SIGTERM or Ctrl-C."

    def handle(self, *args: Any, **options: Any) -> None:
        bind_contextvars(process="dispatcher")
        ends: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda received, frame: ends.append(received))
        dispatch.run_until_stopped(lambda: bool(ends))
