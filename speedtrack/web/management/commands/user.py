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
from django.db.models import Count, Q

from speedtrack.accounts import audit, people
from speedtrack.accounts.logins import second_step
from speedtrack.notices import leaving
from speedtrack.web.management.plaincommand import PlainCommand

Options = dict[str, Any]


def add(name: str, options: Options) -> str:
    user = people.add(name, options["email"] or "", entered_password(name) if options["password"] else None)
    audit.note(None, "account.add", user)
    if options["operator"]:
        make_operator(name, options)
    if options["password"]:
        return f"account {name} made"
    return f"account {name} made, without a password: its person sets one by “Password lost?” on the login page"


def entered_password(name: str) -> str:
    """What is typed, or the first line of what is piped in. Raises CommandError."""
    text = getpass.getpass("Password: ") if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    try:
        validate_password(text, User(username=name))
    except ValidationError as e:
        raise CommandError(" ".join(e.messages)) from e
    return text


def deactivate(name: str, options: Options) -> str:
    people.deactivate(people.user_named(name))
    audit.note(None, "account.deactivate", name)
    return f"account {name} lets nobody in: its sessions are ended, its tokens revoked"


def activate(name: str, options: Options) -> str:
    people.activate(people.user_named(name))
    audit.note(None, "account.activate", name)
    return f"account {name} lets its person in again; revoked tokens stay revoked"


def remove(name: str, options: Options) -> str:
    former = leaving.leave(people.user_named(name))
    audit.note(None, "account.remove", former)
    return f"account {name} is gone; what it has decided and noted stays, by {former}"


def make_operator(name: str, options: Options) -> str:
    user, is_operator = people.user_named(name), not options["revoke"]
    people.set_operator(user, is_operator)
    audit.note(None, "account.operator", name, changes={"operator": (user.is_superuser, is_operator)})
    return f"account {name} " + ("operates this installation" if is_operator else "operates nothing any more")


def drop_second_step(name: str, options: Options) -> str:
    had = second_step.reset(people.user_named(name))
    audit.note(None, "account.second-step-off", name)
    return f"account {name} " + ("logs in by its password alone" if had else "had no second step") + "; logged out"


ACTIONS: dict[str, Callable[[str, Options], str]] = {
    "add": add,
    "deactivate": deactivate,
    "activate": activate,
    "remove": remove,
    "operator": make_operator,
    "drop-second-step": drop_second_step,
}


class Command(PlainCommand):
    help = (
        "List accounts, add one, let nobody in by it any more (deactivate) and undo that (activate), delete it for ever"
        " (remove), make it an operator of this installation (operator; with --revoke no longer), or take the second"
        " step away from somebody who has lost it (drop-second-step)."
    )
    is_atomic = True

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
        try:
            message = ACTIONS[action](name, options)
        except people.AccountUnchanged as e:
            raise CommandError(str(e)) from e
        self.stdout.write(message)

    def list_users(self) -> None:
        valid = Count("tokens", filter=Q(tokens__revoked_at=None), distinct=True)
        steps = Count("authenticator", filter=Q(authenticator__type="totp"), distinct=True)
        for user in User.objects.annotate(valid=valid, steps=steps).order_by("username"):
            state = "operator" if user.is_superuser else "" if user.is_active else "deactivated"
            step = "second step" if user.steps else ""
            last = f"{user.last_login:%Y-%m-%d %H:%M}" if user.last_login else "never"
            line = f"{user.username:24} {state:12} {step:12} {user.valid:3} tokens  last login {last:17} {user.email}"
            self.stdout.write(line.rstrip())
