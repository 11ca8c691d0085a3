"""``manage.py address USER ADDRESS``: set the mail address of an account."""

from argparse import ArgumentParser
from typing import Any

from speedtrack.operations import accounts
from speedtrack.operations.performing import Actor
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Change the mail address of an account. Its mails go there, and commits with this author are its owner's."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="name of the account")
        parser.add_argument("address")

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(accounts.give_address(Actor(), options["user"], options["address"]).sentence)
