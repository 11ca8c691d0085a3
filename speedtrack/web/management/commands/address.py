"""``manage.py address USER ADDRESS``: set the mail address of an account."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from speedtrack.notices import subscribing
from speedtrack.runs.errors import NoSuchThing
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Change the mail address of an account. Its mails go there, and commits with this author are its owner's."
    quoted = ("user",)
    is_atomic = True

    def change(self, options: dict[str, Any]) -> str:
        return "account.address"

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("user", help="name of the account")
        parser.add_argument("address")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            subscribing.give_address(options["user"], options["address"])
        except NoSuchThing as e:
            raise CommandError(str(e)) from e
        self.stdout.write(f"the mails of {options['user']} go to {options['address']}")
