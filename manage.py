#!/usr/bin/env python
"""The command line of SpeedTrack: ``python manage.py help``."""

import os
import sys

# Answers without a database.
NEEDS_NO_DATABASE = {"help", "--help", "-h", "version", "--version", "collectstatic"}
# Starts the whole system on this machine.
STARTS_ALL = {"demo", "serve"}


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")
    try:
        from django.core.management import execute_from_command_line
    except ImportError:
        sys.exit("Django is not installed here: run `make setup`, then use .venv/bin/python manage.py")
    from speedtrack import devstack

    command = sys.argv[1] if len(sys.argv) > 1 else "help"
    if command not in NEEDS_NO_DATABASE and "--help" not in sys.argv:
        if command in STARTS_ALL:
            devstack.use_own_port()
            devstack.keep_off_measured_cores()
        devstack.use_embedded_database()
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
