"""``manage.py up``: the server of this host without a runner, with production settings, in the foreground."""

from typing import Any

from django.core.management.base import CommandError
from rich.console import Console

from speedtrack import serving
from speedtrack.devstack import StackError
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    requires_system_checks = ()  # they load all pages, which stay in memory; `prepare` makes them
    help = (
        "Start web server, streams, dispatcher and workers, and start again whatever ends, until Ctrl-C. PostgreSQL "
        "and Valkey run embedded unless DATABASE_URL and BROKER_URL name others."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            serving.keep_up(Console(soft_wrap=True, highlight=False))
        except StackError as e:
            raise CommandError(str(e)) from e
