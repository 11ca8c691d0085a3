"""The processes of an installation as real ones, each of which may be killed, suspended and started again."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from psycopg.conninfo import make_conninfo

from runners.tests.ports import free_port
from speedtrack.processes import devstack

PATIENCE_S = 300
STOP_S = 120


def database_url() -> str:
    """That of the test's database, for other processes."""
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    parameters = {name: connection.settings_dict[key] for name, key in names.items()}
    return make_conninfo("", **{name: value for name, value in parameters.items() if value})


@dataclass
class Installation:
    """Processes by name: those of ``devstack.PROCESSES``, and others that are added to ``commands``.

    ``environment`` is that of all; ``own`` has what a process of this name gets in addition.
    """

    home: Path
    environment: dict[str, str]
    port: int = field(default_factory=free_port)
    commands: dict[str, list[str]] = field(default_factory=dict)
    own: dict[str, dict[str, str]] = field(default_factory=dict)
    processes: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)  # of ``processes``

    def __post_init__(self) -> None:
        web = [*devstack.PROCESSES["web"], "--bind", f"127.0.0.1:{self.port}"]
        self.commands = devstack.PROCESSES | {"web": web} | self.commands

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log(self, name: str) -> Path:
        return self.home / f"{name}.log"

    def start(self, *names: str, **environment: str) -> None:
        """Start these processes, with variables that only this life of them has."""
        for name in names:
            with self.log(name).open("ab") as log, self.lock:
                self.processes[name] = subprocess.Popen(
                    [sys.executable, *self.commands[name]],
                    cwd=devstack.BASE_DIR,
                    env=self.environment | self.own.get(name, {}) | environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )

    def start_web(self, **environment: str) -> None:
        """Start the web server, and wait until it answers."""
        self.start("web", **environment)
        self.until(lambda: self.answers(), "the web server answers")

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def kill(self, name: str) -> None:
        """Kill a process and what is in its group, such as the children of a worker."""
        with self.lock:
            process = self.processes.pop(name)
        kill_group(process)

    def is_dead(self, name: str) -> bool:
        return self.processes[name].poll() == -signal.SIGKILL

    def stop(self, *names: str) -> None:
        """End these processes, or all."""
        with self.lock:
            processes = [self.processes.pop(name) for name in names or list(self.processes)]
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                kill_group(process)

    def until(self, reached: Callable[[], bool], goal: str, do: Callable[[], object] = lambda: None) -> None:
        """Wait until something is true; ``do`` is done again and again meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while not reached():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {goal}\n{self.last_lines()}"
            do()
            time.sleep(0.1)

    def last_lines(self) -> str:
        return "\n".join(f"{log}:\n{log.read_text(errors='replace')[-2000:]}" for log in self.home.glob("*.log"))


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def server_environment(home: Path, broker_url: str, **changes: str) -> Mapping[str, str]:
    """What the server's processes need to work on this test's database."""
    return {
        **os.environ,
        "DATABASE_URL": database_url(),
        "BROKER_URL": broker_url,
        "SPEEDTRACK_HOME": str(home),
        "SUITES": str(home / "suites"),
        "EMAIL_FILES": str(home / "mail"),
        "OPERATORS": "ops@example.org",
        "SECRET_KEY": settings.SECRET_KEY,
        "DJANGO_SETTINGS_MODULE": "speedtrack.settings",
        **changes,
    }
