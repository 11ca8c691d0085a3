"""``manage.py machine ACTION [NAME]``: register, pause, resume or list machines, and manage their canaries."""

from argparse import ArgumentParser
from collections.abc import Callable
from typing import Any

from django.core.management.base import CommandError

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.errors import RepositoryError
from speedtrack.runs import machines, tracking
from speedtrack.runs.models import Machine
from speedtrack.web.management.plaincommand import PlainCommand

Options = dict[str, Any]
SHOWN_ONCE = "machine {name}; its token, which is not shown again:\n"


def freeze_canary(name: str, options: Options) -> str:
    if not options["project"]:
        raise CommandError(f"name the project: manage.py machine canary {name} --project NAME")
    canary = tracking.set_canary(name, options["project"], options["commit"], options["benchmark"])
    return f"{canary}; its first run is queued"


def lift(name: str, options: Options) -> str:
    tracking.lift_quarantine(name, options["accept_level"])
    return f"the quarantine of machine {name} has ended"


def pause_machine(name: str, options: Options) -> str:
    machines.pause(tracking.machine_named(name), at_once=options["now"])
    return f"machine {name} paused" + ("" if options["now"] else f": {machines.FINISHES}")


def resume_machine(name: str, options: Options) -> str:
    machines.resume(tracking.machine_named(name))
    return f"machine {name} resumed"


def retire_machine(name: str, options: Options) -> str:
    cancelled = machines.retire(tracking.machine_named(name))
    return f"machine {name} retired, {cancelled} waiting runs cancelled; `manage.py machine return {name}` undoes it"


ACTIONS: dict[str, Callable[[str, Options], str]] = {
    "add": lambda name, _: SHOWN_ONCE.format(name=name) + tracking.add_machine(name),
    "token": lambda name, _: SHOWN_ONCE.format(name=name) + tracking.renew_token(name),
    "pause": pause_machine,
    "resume": resume_machine,
    "retire": retire_machine,
    "return": lambda name, _: SHOWN_ONCE.format(name=name) + machines.return_to_service(tracking.machine_named(name)),
    "canary": freeze_canary,
    "lift": lift,
}


class Command(PlainCommand):
    help = (
        "Register a machine (its token is shown once), replace its token, pause or resume it, take it out of service "
        "(retire) and back (return), set its canary, end its quarantine (lift), or list all machines."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=[*ACTIONS, "list"])
        parser.add_argument("name", nargs="?", help="name of the machine: letters, digits, - and _")
        parser.add_argument("--now", action="store_true", help="pause: take its run from it and queue it again")
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
            for machine in tracking.machines_by_name():
                self.stdout.write(
                    f"{machine.name:20} {machine_state(machine):10} last seen {machine.last_seen_at or 'never'}"
                )
            return
        if not name:
            raise CommandError(f"name the machine: manage.py machine {action} NAME")
        try:
            self.stdout.write(ACTIONS[action](name, options))
        except (tracking.NoSuchThing, machines.NotPossible, RepositoryError, DefinitionError) as e:
            raise CommandError(str(e)) from e


def machine_state(machine: Machine) -> str:
    if machine.retired_at:
        return "retired"
    return "quarantine" if machine.quarantined_at else "paused" if machine.paused else "active"
