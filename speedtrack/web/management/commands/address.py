"""``manage.py address USER ADDRESS``: give an account the mail address that it is told at."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.notices import subscribing
from speedtrack.runs.tracking import NoSuchThing
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Give an account a mail address: it says whose commits are the person's own, and where mails go."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="name of the account")
        parser.add_argument("address")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            subscribing.give_address(options["user"], options["address"])
        except NoSuchThing as e:
            raise CommandError(str(e)) from e
        self.stdout.write(f"{options['user']} is told at {options['address']}")
