"""``python -m speedtrack web|live|dispatcher|worker|notify|git [OPTION ...]``: become one process of the server.

For containers and service units. Options go to speedtrack.webserver (web), speedtrack.live (live) or celery (workers).
"""

import os
import sys

from speedtrack.devstack import BASE_DIR, PROCESSES

NEEDED = {
    "DATABASE_URL": "postgresql://user:password@host/name",
    "BROKER_URL": "redis://host:6379/0",
}


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in PROCESSES:
        sys.exit(f"error: say which process: python -m speedtrack {'|'.join(PROCESSES)}")
    for name, example in NEEDED.items():
        if not (os.environ.get(name) or os.environ.get(f"{name}_FILE")):
            sys.exit(f"error: {name} is not set: set it to {example}, or use `manage.py serve`, which needs neither")
    name, *options = arguments
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "speedtrack.settings")
    os.environ.setdefault("CELERY_SKIP_CHECKS", "true")  # they load all pages, which stay in memory
    os.chdir(BASE_DIR)
    os.execv(sys.executable, [sys.executable, *PROCESSES[name], *options])  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
