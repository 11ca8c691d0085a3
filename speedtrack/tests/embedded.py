"""pytest plugin: each test session has a PostgreSQL of its own, embedded or that of DATABASE_URL."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import psycopg

from speedtrack.processes import devstack


def suit_tests(url: str) -> None:
    """Turn off fsync, as test data need not outlive a crash, and autovacuum.

    The rows of a test are in a transaction, so it would find the tables empty and plan for that: slower by 20 times.
    """
    with psycopg.connect(url, autocommit=True) as link:
        for setting in ("fsync", "full_page_writes", "synchronous_commit", "autovacuum"):
            link.execute(f"ALTER SYSTEM SET {setting} = off")
        link.execute("SELECT pg_reload_conf()")


# Tests start hundreds of Python programs, each of which would compile this checkout anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
if "SPEEDTRACK_HOME" not in os.environ:
    home = Path(tempfile.mkdtemp(prefix="speedtrack-test-"))
    home.chmod(0o755)
    os.environ["SPEEDTRACK_HOME"] = str(home)
    os.environ["SPEEDTRACK_LOCK_DIR"] = str(home)  # runners of these tests wait for no others of this host
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    if "DATABASE_URL" not in os.environ:
        os.environ["DATABASE_URL"] = devstack.postgresql(home / "postgresql")
        suit_tests(os.environ["DATABASE_URL"])
os.environ["ALLOW_LOCAL_REPOSITORIES"] = "true"
os.environ["CANARY_AUTO"] = "false"  # a test says itself when it wants a canary among its runs
