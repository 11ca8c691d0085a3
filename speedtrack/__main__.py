"""``python -m speedtrack web|live|dispatcher|worker|notify|git [OPTION ...]``: become one process of the server.

For containers and service units. Options go to ``http.webserver`` (web), ``processes.live`` (live) or celery (workers).
WEB_ADDRESS and LIVE_ADDRESS say where the first two listen, unless there is a --bind.

``python -m speedtrack broker SOCKET`` becomes the embedded broker, which listens there and stores nothing;
``python -m speedtrack up`` is what `manage.py up` becomes.
"""

import importlib
import os
import sys

from django.core.exceptions import ImproperlyConfigured

from runners.processes.endings import ended_plainly
from speedtrack.http import origins
from speedtrack.processes import devstack
from speedtrack.processes.devstack import BASE_DIR, PROCESSES

NEEDED = {
    "DATABASE_URL": "postgresql://user:password@host/name",
    "BROKER_URL": "redis://host:6379/0",
}
LISTENING = {"web": "WEB_ADDRESS", "live": "LIVE_ADDRESS"}


@ended_plainly()
def main(arguments: list[str]) -> None:
    if arguments[:1] == ["broker"]:
        become_broker(arguments[1:])
    try:
        origins.spell_in_environment(os.environ)
    except ImproperlyConfigured as e:
        sys.exit(f"error: {e}")
    if arguments == ["up"]:
        from speedtrack.processes import (
            supervisor,  # here: all others become another program at once, and need none of it
        )

        return supervisor.main()
    if not arguments or arguments[0] not in PROCESSES:
        sys.exit(f"error: say which process: python -m speedtrack {'|'.join([*PROCESSES, 'broker'])}")
    for name, example in NEEDED.items():
        if not (os.environ.get(name) or os.environ.get(f"{name}_FILE")):
            sys.exit(f"error: {name} is not set: set it to {example}, or use `manage.py serve`, which needs neither")
    name, *options = arguments
    if address := os.environ.get(LISTENING.get(name, "")):
        options = ["--bind", address, *options]  # of two, the later one counts
    for setting, value in {"DJANGO_SETTINGS_MODULE": "speedtrack.settings", **devstack.LEAN}.items():
        os.environ.setdefault(setting, value)
    check_settings()
    os.chdir(BASE_DIR)
    os.execv(sys.executable, [sys.executable, *PROCESSES[name], *options])  # noqa: S606 - no shell is wanted


def check_settings() -> None:
    """Exit with a sentence if a setting is wrong: Celery would print a traceback."""
    try:
        importlib.import_module(os.environ["DJANGO_SETTINGS_MODULE"])
    except ImproperlyConfigured as e:
        sys.exit(f"error: {e}")


def become_broker(arguments: list[str]) -> None:
    if len(arguments) != 1 or not arguments[0].startswith("/"):
        sys.exit("error: say where the broker listens: python -m speedtrack broker /run/speedtrack-broker/valkey.sock")
    try:
        command = devstack.broker_command(arguments[0])
    except devstack.StackError as e:
        sys.exit(f"error: {e}")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
