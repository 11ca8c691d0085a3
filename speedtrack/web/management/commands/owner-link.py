"""``manage.py owner-link``: a link by which the first operator makes an account."""

from argparse import ArgumentParser
from typing import Any

from speedtrack.accounts.logins import firstowner
from speedtrack.operations import accounts
from speedtrack.operations.performing import Actor
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Print a link by which the first operator of this installation makes an account. It is valid until used."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--if-needed", action="store_true", help="say nothing where there is an operator already")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["if_needed"] and not firstowner.is_needed():
            return
        self.stdout.write(accounts.make_owner_link(Actor(), None).sentence)
