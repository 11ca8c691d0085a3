"""``manage.py machine ACTION [NAME]``: register, pause, resume or list machines, and manage their canaries."""

from argparse import ArgumentParser
from collections.abc import Callable
from functools import partial
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from speedtrack.accounts.operations import named
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.errors import RepositoryError
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import enrolment, machines, pools, registering
from speedtrack.runs.fleet.tokens import WrongToken
from speedtrack.runs.requests import rules
from speedtrack.runs.scheduling import standing
from speedtrack.runs.scheduling.order import BadShares
from speedtrack.runs.scheduling.windows import BadWindow
from speedtrack.web.management.plaincommand import PlainCommand
from speedtrack.web.management.tried import add_dry_run, result_in_words

Options = dict[str, Any]
REFUSED = (
    *(NoSuchThing, machines.NotPossible, BadWindow, BadShares, WrongToken),
    *(RepositoryError, DefinitionError),
)
SHOWN_ONCE = "machine {name}; its token, which is not shown again:\n"


def freeze_canary(name: str, options: Options) -> str:
    if not options["project"]:
        raise CommandError(f"name the project: manage.py machine canary {name} --project NAME")
    canary = machines.set_canary(name, options["project"], options["commit"], options["benchmark"])
    return f"{canary}; its first run is queued"


def lift(name: str, options: Options) -> str:
    machines.lift_quarantine(name, options["accept_level"])
    return f"the quarantine of machine {name} has ended"


def pause_machine(name: str, options: Options) -> str:
    machines.pause(naming.machine_named(name), at_once=options["now"])
    return f"machine {name} paused" + ("" if options["now"] else f": {machines.FINISHES}")


def resume_machine(name: str, options: Options) -> str:
    machines.resume(naming.machine_named(name))
    return f"machine {name} resumed"


def retire_machine(name: str, options: Options) -> str:
    cancelled = machines.retire(naming.machine_named(name))
    return f"machine {name} retired, {cancelled} waiting runs cancelled; `manage.py machine return {name}` undoes it"


def set_windows(name: str, options: Options) -> str:
    texts = [text for text in options["values"] if text.strip()]
    return rules.set_windows(naming.machine_with_runner(name), texts, options["zone"])


def set_shares(name: str, options: Options) -> str:
    """Shares such as `backfill=20`; none: as the settings say."""
    shares = {}
    for text in options["values"]:
        kind, _, percent = text.partition("=")
        if not percent.isascii() or not percent.isdigit() or len(percent) > 3:
            raise CommandError(f"{text!r} is no share: give such as backfill=20, which is per cent of its time")
        shares[kind] = int(percent)
    return rules.set_shares(naming.machine_with_runner(name), shares)


def make_code(name: str, options: Options) -> str:
    code = enrolment.make_code(name, options["pool"] or "", options["days"])
    return (
        f"code for machine {name}, valid once, for {enrolment.VALID.seconds // 60} minutes; on the machine:\n"
        f"python -m runners enroll {settings.URL} {code}"
    )


def add_machine(name: str, options: Options) -> str:
    if options["outside"]:
        registering.register_outside(name)
        return f"machine {name} is registered; it has no runner and no token: its results are sent in"
    return SHOWN_ONCE.format(name=name) + registering.add_machine(name, options["pool"] or "", options["days"])


def return_machine(name: str, options: Options) -> str:
    machine = naming.machine_named(name)
    if machine.outside:
        machines.take_results_again(machine)
        return f"machine {name} is in service again: its results are sent in"
    return SHOWN_ONCE.format(name=name) + machines.return_to_service(machine)


def renew_token(name: str, options: Options) -> str:
    return SHOWN_ONCE.format(name=name) + machines.renew_token(name, days=options["days"])


def rotate_token(name: str, options: Options) -> str:
    machines.rotate(naming.machine_named(name))
    return f"the runner of machine {name} replaces its token with its next call; its run goes on"


def revoke_tokens(name: str, options: Options) -> str:
    count = machines.revoke(naming.machine_named(name))
    return f"{count} tokens of machine {name} are refused from now on; its run is queued again"


def put_into_pool(name: str, options: Options) -> str:
    if options["pool"] is None:
        raise CommandError(f"name the pool: manage.py machine pool {name} --pool P ('' for none)")
    if options["pool"]:
        registering.check_name(options["pool"], "pool")
    pools.put(naming.machine_with_runner(name), options["pool"])
    return f"machine {name} is in " + (f"pool {options['pool']}" if options["pool"] else "no pool")


#: Those that print a secret have no dry run: the secret would be none.
SECRET = ("add", "enroll-code", "token", "return")
#: The operations of actions that have another name.
NOTED = {"canary": "machine.freeze"}
ACTIONS: dict[str, Callable[[str, Options], str]] = {
    "add": add_machine,
    "enroll-code": make_code,
    "token": renew_token,
    "rotate": rotate_token,
    "revoke": revoke_tokens,
    "pool": put_into_pool,
    "pause": pause_machine,
    "resume": resume_machine,
    "retire": retire_machine,
    "return": return_machine,
    "canary": freeze_canary,
    "lift": lift,
    "windows": set_windows,
    "shares": set_shares,
}


class Command(PlainCommand):
    help = (
        "Register a machine (its token is shown once), or make a code by which it is enrolled (enroll-code); replace "
        "its token at once (token) or by its runner (rotate), revoke it, put it into a pool; pause or resume it, take "
        "it out of service (retire) and back (return), set its canary, end its quarantine (lift), say when it works "
        "(windows) and what its time is for (shares), or list all machines."
    )
    quoted = ("name", "values", "pool", "project", "commit", "benchmark")
    is_atomic = True

    def change(self, options: dict[str, Any]) -> str:
        if options["action"] == "list":
            return ""
        return NOTED.get(options["action"]) or named("machine", options["action"])

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
        try:
            self.stdout.write(result_in_words(partial(ACTIONS[action], name, options), options["dry_run"]))
        except REFUSED as e:
            raise CommandError(str(e)) from e

    def list_machines(self) -> None:
        machines = list(naming.machines_by_name())
        standings = standing.of_machines(machines)
        for machine in machines:
            stands = standings[machine.pk]
            self.stdout.write(
                f"{machine.name:20} {stands.state:10} {machine.pool or '-':12} last seen "
                f"{machine.last_seen_at or 'never'}" + (f"\n    {stands.sentence}" if stands.why else "")
            )
