"""``manage.py user ACTION [NAME]``: accounts, and who operates this installation."""

import getpass
import sys
from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandError
from django.db import transaction
from django.db.models import Count, Q

from speedtrack.accounts import people
from speedtrack.operations import accounts
from speedtrack.operations.performing import Actor, Done
from speedtrack.web.management.plaincommand import PlainCommand

Options = dict[str, Any]


def add(actor: Actor, name: str, options: Options) -> Done:
    password = entered_password(name) if options["password"] else None
    result = accounts.add(actor, name, options["email"] or "", password)
    if options["operator"]:
        accounts.set_operator(actor, result.row, True)
    return result


def entered_password(name: str) -> str:
    """The typed password, or the first line of standard input. Raises CommandError."""
    text = getpass.getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    try:
        validate_password(text, User(username=name))
    except ValidationError as e:
        raise CommandError(" ".join(e.messages)) from e
    return text


def by_name(verb: Callable[[Actor, User], Done]) -> Callable[[Actor, str, Options], Done]:
    return lambda actor, name, options: verb(actor, people.user_named(name))


ACTIONS: dict[str, Callable[[Actor, str, Options], Done]] = {
    "add": add,
    "deactivate": by_name(accounts.deactivate),
    "activate": by_name(accounts.activate),
    "remove": by_name(accounts.remove),
    "operator": lambda actor, name, options: accounts.set_operator(
        actor, people.user_named(name), not options["revoke"]
    ),
    "drop-second-step": by_name(accounts.drop_second_step),
}


class Command(PlainCommand):
    help = (
        "List accounts, add one, let nobody in by it any more (deactivate) and undo that (activate), delete it for ever"
        " (remove), make it an operator of this installation (operator; with --revoke no longer), or take the second"
        " step away from somebody who has lost it (drop-second-step)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[*ACTIONS, "list"])
        parser.add_argument("name", nargs="?", help="user name")
        parser.add_argument("--email", help="add: a mail address, which counts as confirmed")
        parser.add_argument("--password", action="store_true", help="add: ask for a password, or read it from a pipe")
        parser.add_argument("--operator", action="store_true", help="add: the account operates this installation")
        parser.add_argument("--revoke", action="store_true", help="operator: the account operates nothing any more")

    def handle(self, *args: Any, **options: Any) -> None:
        action, name = options["action"], options["name"]
        if action == "list":
            self.list_users()
            return
        if not name:
            raise CommandError(f"name the account: manage.py user {action} NAME")
        with transaction.atomic():
            self.stdout.write(ACTIONS[action](Actor(), name, options).sentence)

    def list_users(self) -> None:
        valid = Count("tokens", filter=Q(tokens__revoked_at=None), distinct=True)
        steps = Count("authenticator", filter=Q(authenticator__type="totp"), distinct=True)
        for user in User.objects.annotate(valid=valid, steps=steps).order_by("username"):
            state = "operator" if user.is_superuser else "" if user.is_active else "deactivated"
            step = "second step" if user.steps else ""
            last = f"{user.last_login:%Y-%m-%d %H:%M}" if user.last_login else "never"
            line = f"{user.username:24} {state:12} {step:12} {user.valid:3} tokens  last login {last:17} {user.email}"
            self.stdout.write(line.rstrip())
