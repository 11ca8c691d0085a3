"""``manage.py machine ACTION [NAME]``: register, pause, resume or list machines, and manage their canaries."""

from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from speedtrack.operations import machines
from speedtrack.operations.performing import Actor, Done
from speedtrack.runs import naming
from speedtrack.runs.scheduling import standing
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run

Options = dict[str, Any]
#: Those that print a secret have no dry run: the secret would be none.
SECRET = ("add", "enroll-code", "token", "return")
NEW = ("add", "enroll-code")  #: the machine need not exist
#: action -> the operation, and its inputs by the names of their options
ACTIONS: dict[str, tuple[Callable[..., Done], Mapping[str, str]]] = {
    "add": (machines.add, {"pool": "pool", "days": "days", "outside": "outside"}),
    "enroll-code": (machines.make_code, {"pool": "pool", "days": "days"}),
    "token": (machines.renew_token, {"days": "days"}),
    "rotate": (machines.rotate, {}),
    "revoke": (machines.revoke, {}),
    "pool": (machines.put_into_pool, {"pool": "pool"}),
    "pause": (machines.pause, {"at_once": "now"}),
    "resume": (machines.resume, {}),
    "retire": (machines.retire, {}),
    "return": (machines.return_to_service, {}),
    "canary": (
        machines.freeze_canary,
        {"project": "project", "commit": "commit", "benchmarks": "benchmark", "fetches": "fetches"},
    ),
    "lift": (machines.lift, {"accept_level": "accept_level"}),
    "windows": (machines.plan, {"windows": "windows", "zone": "zone"}),
    "shares": (machines.plan, {"shares": "shares"}),
}


def inputs_of(action: str, name: str, options: Options) -> Options:
    """The inputs of an operation by the options. Raises CommandError for what is missing."""
    if action == "canary" and not options["project"]:
        raise CommandError(f"name the project: manage.py machine canary {name} --project NAME")
    if action == "pool" and options["pool"] is None:
        raise CommandError(f"name the pool: manage.py machine pool {name} --pool P ('' for none)")
    windows = [text for text in options["values"] if text.strip()]
    shares = shares_of(options["values"]) if action == "shares" else {}
    inputs = options | {"pool": options["pool"] or "", "fetches": True, "windows": windows, "shares": shares}
    return {key: inputs[option] for key, option in ACTIONS[action][1].items()}


def shares_of(texts: list[str]) -> dict[str, int]:
    """Shares such as `backfill=20`; none: as the settings say."""
    shares = {}
    for text in texts:
        kind, _, percent = text.partition("=")
        if not percent.isascii() or not percent.isdigit() or len(percent) > 3:
            raise CommandError(f"{text!r} is no share: give such as backfill=20, which is per cent of its time")
        shares[kind] = int(percent)
    return shares


class Command(PlainCommand):
    help = (
        "Register a machine (its token is shown once), or make a code by which it is enrolled (enroll-code); replace "
        "its token at once (token) or by its runner (rotate), revoke it, put it into a pool; pause or resume it, take "
        "it out of service (retire) and back (return), set its canary, end its quarantine (lift), say when it works "
        "(windows) and what its time is for (shares), or list all machines."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[*ACTIONS, "list"])
        parser.add_argument("name", nargs="?", help="name of the machine: letters, digits, - and _")
        parser.add_argument(
            "values",
            nargs="*",
            help="windows such as 'mon-fri 22:00-06:00', or shares such as backfill=20; none: always, and as set",
        )
        parser.add_argument("--zone", default="UTC", help="windows: their time zone (default: UTC)")
        add_dry_run(parser)
        parser.add_argument("--now", action="store_true", help="pause: take its run from it and queue it again")
        parser.add_argument(
            "--outside",
            action="store_true",
            help="add: it has no runner; its results are measured elsewhere and sent in",
        )
        parser.add_argument("--pool", help="add, enroll-code, pool: the pool of machines of equal hardware")
        parser.add_argument(
            "--days", type=int, help="add, enroll-code, token: how long the token is valid (default: for ever)"
        )
        parser.add_argument("--project", help="canary: the project whose server is frozen")
        parser.add_argument("--commit", help="canary: the commit to freeze (default: the head of the default branch)")
        parser.add_argument(
            "--benchmark",
            action="append",
            default=[],
            help="canary: a benchmark to run (default: the suite's first without a rate); may be repeated",
        )
        parser.add_argument(
            "--accept-level",
            action="store_true",
            help="lift: accept the canary's current level; its history starts anew",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        action, name = options["action"], options["name"]
        if action == "list":
            self.list_machines()
            return
        if not name:
            raise CommandError(f"name the machine: manage.py machine {action} NAME")
        if options["values"] and action not in ("windows", "shares"):
            raise CommandError(f"machine {action} takes one name: {', '.join(options['values'])} is too much")
        if options["dry_run"] and action in SECRET:
            raise CommandError(f"machine {action} prints a token: there is no dry run of it")
        subject = name if action in NEW else naming.machine_named(name)
        actor = Actor(dry_run=options["dry_run"])
        result = ACTIONS[action][0](actor, subject, **inputs_of(action, name, options))
        self.stdout.write(str(result))
        if action == "enroll-code":
            self.stdout.write(f"on the machine: python -m runners enroll {settings.URL} {result.secret}")
        elif result.secret:
            self.stdout.write(result.secret)

    def list_machines(self) -> None:
        machines = list(naming.machines_by_name())
        standings = standing.of_machines(machines)
        for machine in machines:
            stands = standings[machine.pk]
            self.stdout.write(
                f"{machine.name:20} {stands.state:10} {machine.pool or '-':12} last seen "
                f"{machine.last_seen_at or 'never'}" + (f"\n    {stands.sentence}" if stands.why else "")
            )
