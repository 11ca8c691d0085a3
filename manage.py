#!/usr/bin/env python
"""The command line of SpeedTrack: ``python manage.py help``."""

import os
import sys
from collections.abc import Callable

from runners.processes.endings import ended_plainly

# Answers without a database; or (`up`) becomes a process that cares for it by itself.
NEEDS_NO_DATABASE = {"help", "--help", "-h", "version", "--version", "up"}
# Starts the whole system on this machine.
STARTS_ALL = {"demo", "serve"}


@ended_plainly()
def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit("Django is not installed here: run `make setup`, then use .venv/bin/python manage.py")
    from speedtrack.http import origins
    from speedtrack.processes import devstack

    run(lambda: origins.spell_in_environment(os.environ))
    command = sys.argv[1] if len(sys.argv) > 1 else "help"
    if command not in NEEDS_NO_DATABASE and "--help" not in sys.argv:
        if command in STARTS_ALL:
            devstack.use_own_port()
            devstack.keep_off_measured_cores()
        devstack.use_embedded_database()
    run(lambda: execute_from_command_line(sys.argv))


def run(command: Callable[[], None]) -> None:
    """Run a command; a database that cannot be used ends it with cause and remedy instead of a traceback."""
    from django.core.exceptions import ImproperlyConfigured
    from django.db import NotSupportedError, OperationalError, ProgrammingError, connection

    from speedtrack.ground.postgres import databasefitness

    try:
        command()
    except ImproperlyConfigured as e:
        sys.exit(f"error: {e}")
    except (OperationalError, NotSupportedError) as e:
        sys.exit(f"error: {databasefitness.of_error(e, connection)}")
    except ProgrammingError as e:
        if databasefitness.is_about_rights(e):
            sys.exit(f"error: {databasefitness.of_error(e, connection)}")
        if "does not exist" not in str(e):
            raise
        sys.exit("error: the database has no tables yet, or old ones: run `manage.py migrate` first")


if __name__ == "__main__":
    main()
