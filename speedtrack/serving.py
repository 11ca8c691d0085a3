"""Run the whole system on this machine, with this machine as its runner, until it is told to stop."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from celery import Celery
from django.conf import settings
from django.core.management import call_command
from django.db import OperationalError, connection
from rich.console import Console

from speedtrack import privatefiles
from speedtrack.accounts import firstowner
from speedtrack.celery import BROKER_ERRORS
from speedtrack.devstack import BASE_DIR, ServerStack, Stack, StackError, running_broker
from speedtrack.runs import machines, registering
from speedtrack.runs.models import Machine, MachineToken, UnknownToken

MACHINE = "this-machine"


def serve_all(console: Console, work: Callable[[Stack], int | None]) -> int:
    """Start the whole system, do ``work``, and serve until Ctrl-C or SIGTERM unless it returns an exit code."""
    end_by_signals()
    call_command("migrate", verbosity=0)
    token_file = settings.HOME / "machine-token"
    machine_token(token_file)
    with running_broker() as broker_url:
        require_broker(broker_url)
        stack = Stack(settings.URL, broker_url, token_file)
        try:
            stack.start()
            code = work(stack)
            if code is None:
                console.print(f"Serving at [bold]{settings.URL}[/bold]; Ctrl-C ends it.")
                print_owner_link(console)
                while True:
                    stack.check()
                    require_database()
                    time.sleep(1)
            return code
        except KeyboardInterrupt:
            console.print("\nEnding all processes ...")
            return 0
        finally:
            stack.stop()


def print_owner_link(console: Console) -> None:
    """Say how the first operator makes an account, as long as there is none."""
    if firstowner.is_needed():
        console.print(f"Make the first account of this installation, once: {firstowner.make_link()}")


def end_by_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):  # SIGINT as well: shells start background jobs with it ignored
        signal.signal(number, signal.default_int_handler)


def keep_up(console: Console) -> None:
    """Start the server without a runner, and keep its processes up until Ctrl-C or SIGTERM. Raises StackError."""
    end_by_signals()
    try:
        prepare()
        with running_broker() as broker_url:
            require_broker(broker_url)
            keep_processes_up(console, ServerStack(settings.URL, broker_url))
    except KeyboardInterrupt:
        console.print("\nEnded.")


def prepare() -> None:
    """Do ``manage.py prepare`` in a process of its own: it loads all pages, which would stay in memory here."""
    if subprocess.run([sys.executable, "manage.py", "prepare", "--verbosity", "0"], cwd=BASE_DIR).returncode:
        raise StackError("the database could not be prepared: the lines above say why")


def keep_processes_up(console: Console, server: ServerStack) -> None:
    try:
        server.start()
        console.print(f"Serving at [bold]{settings.URL}[/bold]; logs: {server.logs}; Ctrl-C ends it.")
        while True:
            for name in server.revive():
                console.print(f"The {name} had ended, and was started again: see {server.logs / f'{name}.log'}")
            time.sleep(1)
    finally:
        server.stop()


def machine_token(file: Path) -> None:
    """Register this machine and write its token to a private file, unless the file has a valid token."""
    if file.exists():
        with contextlib.suppress(UnknownToken):
            MachineToken.of(file.read_text().strip())
            return
    known = Machine.objects.filter(name=MACHINE).exists()
    token = machines.renew_token(MACHINE) if known else registering.add_machine(MACHINE)
    privatefiles.replace(file, token.encode())


def require_database() -> None:
    """Raise StackError if PostgreSQL has ended. Starting the whole system again starts the embedded one."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except OperationalError as e:
        raise StackError(f"the database has gone away ({str(e).strip()}): start again, nothing is lost") from e


def require_broker(url: str) -> None:
    """Raise StackError if no broker answers."""
    try:
        with Celery(broker=url).connection_for_write() as link:
            link.ensure_connection(max_retries=1, timeout=3)
    except BROKER_ERRORS as e:
        raise StackError(f"the broker of BROKER_URL does not answer ({e}): start it, or leave BROKER_URL unset") from e
