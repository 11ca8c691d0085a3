"""Run the whole system on this machine, with this machine as its runner, until it is stopped."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError, connection
from rich.console import Console

from speedtrack.accounts.logins import firstowner
from speedtrack.ground.secrets import privatefiles
from speedtrack.operations import accounts
from speedtrack.operations.performing import Actor
from speedtrack.processes import devstack
from speedtrack.processes.devstack import Stack, StackError, running_broker
from speedtrack.processes.supervisor import end_by_signals, wait_for_broker
from speedtrack.runs.fleet import machines, registering
from speedtrack.runs.models import Machine, MachineToken, UnknownMachineToken

MACHINE = "this-machine"


def serve_all(console: Console, work: Callable[[Stack], int | None]) -> int:
    """Start the whole system, do ``work``, and serve until Ctrl-C or SIGTERM unless it returns an exit code."""
    end_by_signals()
    call_command("migrate", verbosity=0)
    token_file = settings.HOME / "machine-token"
    machine_token(token_file)
    with running_broker() as broker_url:
        wait_for_broker(broker_url)
        stack = Stack(settings.URL, broker_url, token_file)
        try:
            stack.start()
            code = work(stack)
            if code is None:
                console.print(f"Serving at [bold]{settings.URL}[/bold]; Ctrl-C ends it.")
                print_owner_link(console)
                while True:
                    stack.check()
                    devstack.require_embedded()
                    require_database()
                    time.sleep(1)
            return code
        except KeyboardInterrupt:
            console.print("\nEnding all processes ...")
            return 0
        finally:
            stack.stop()


def print_owner_link(console: Console) -> None:
    """Print how the first operator makes an account, as long as there is none."""
    if firstowner.is_needed():
        console.print(accounts.make_owner_link(Actor(), None).sentence)


def machine_token(file: Path) -> None:
    """Register this machine and write its token to a private file, unless the file has a valid token."""
    if file.exists():
        with contextlib.suppress(UnknownMachineToken):
            MachineToken.of(file.read_text().strip())
            return
    is_registered = Machine.objects.filter(name=MACHINE).exists()
    token = machines.renew_token(MACHINE) if is_registered else registering.add_machine(MACHINE)
    privatefiles.replace(file, token.encode())


def require_database() -> None:
    """Raise StackError if PostgreSQL has ended. Starting the whole system again starts the embedded one."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except OperationalError as e:
        raise StackError(f"the database has gone away ({str(e).strip()}): start again, nothing is lost") from e
