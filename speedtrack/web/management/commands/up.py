"""``manage.py up``: the server of this host without a runner, with production settings, in the foreground."""

import os
import sys
from typing import Any

from speedtrack.processes.devstack import BASE_DIR, LEAN
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = (
        "Start web server, streams, dispatcher and workers, and start again whatever ends, until Ctrl-C. PostgreSQL "
        "and Valkey run embedded unless DATABASE_URL and BROKER_URL name others."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        # A new program, because settings are read at the start, and what Django has loaded for commands would stay.
        os.chdir(BASE_DIR)
        environment = {**LEAN, "PYTHONUNBUFFERED": "1", "DJANGO_SETTINGS_MODULE": "speedtrack.settings", **os.environ}
        os.execve(sys.executable, [sys.executable, "-m", "speedtrack", "up"], environment)  # noqa: S606 - no shell
