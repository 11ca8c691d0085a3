"""Is this installation fit? Each check says what it found, and what to do if that is not right."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings
from django.db import ProgrammingError, connection
from django.db.migrations.executor import MigrationExecutor

from speedtrack import dispatch
from speedtrack.benchmarks import definitions
from speedtrack.celery import app
from speedtrack.devstack import BASE_DIR
from speedtrack.runs.models import Machine

DRIVER = BASE_DIR / "runners" / "driver" / "target" / "release" / "speedbench"
OLDEST_GIT = (2, 38)


@dataclass(frozen=True)
class Finding:
    """``state``: good, note (it works, yet could be better) or bad."""

    name: str
    state: str
    words: str


def examine() -> Iterator[Finding]:
    """All findings, one after another."""
    for name, check in CHECKS.items():
        try:
            state, words = check()
        except ProgrammingError:
            state, words = "bad", "cannot be read before `manage.py migrate`"
        yield Finding(name, state, words)


def database() -> tuple[str, str]:
    version = connection.cursor().connection.info.server_version
    missing = MigrationExecutor(connection).migration_plan(MigrationExecutor(connection).loader.graph.leaf_nodes())
    if missing:
        return "bad", f"{len(missing)} migrations are missing: run `manage.py migrate`"
    return "good", f"PostgreSQL {version // 10_000}.{version % 10_000}, all migrations applied"


def broker() -> tuple[str, str]:
    if "BROKER_URL" not in os.environ:
        return "note", "BROKER_URL is not set: `make serve` and `make demo` start an embedded one"
    try:
        with app.connection_for_write() as link:
            link.ensure_connection(max_retries=1, timeout=2)
    except dispatch.BROKER_ERRORS as e:
        return "bad", f"{settings.BROKER_URL.rpartition('@')[2]} does not answer ({e}): start it or set BROKER_URL"
    return "good", "answers"


def git() -> tuple[str, str]:
    words = output("git", "--version").split()
    if len(words) < 3:
        return "bad", "git is not installed: install it"
    version = tuple(int(part) for part in words[2].split(".")[:2])
    if version < OLDEST_GIT:
        return "bad", f"git {words[2]} is older than {'.'.join(map(str, OLDEST_GIT))}: update it"
    return "good", f"git {words[2]}"


def driver() -> tuple[str, str]:
    path = DRIVER if DRIVER.exists() else shutil.which("speedbench")
    if path is None:
        return "bad", "speedbench is not built: run `make setup`"
    return "good", output(str(path), "--version")


def compiler() -> tuple[str, str]:
    for program in ("cc", "make", "tar"):
        if not shutil.which(program):
            return "bad", f"{program} is not installed: a runner on this machine needs it to build servers"
    if not shutil.which("ccache"):
        return "note", "ccache is not installed: each build compiles everything anew"
    return "good", output("cc", "--version").splitlines()[0]


def placement() -> tuple[str, str]:
    plan = subprocess.run([sys.executable, "-m", "runners", "plan"], cwd=BASE_DIR, capture_output=True, text=True)
    lines = [" ".join(line.split()) for line in plan.stdout.splitlines() if not line.startswith("-")]
    if plan.returncode:
        return "bad", plan.stderr.strip()
    shared = "shares" in plan.stdout
    return ("note" if shared else "good"), ", ".join(lines) + (" (cores are shared)" if shared else "")


def kernel() -> tuple[str, str]:
    governor = text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor not in ("performance", ""):
        return "note", f"the CPU governor is {governor}: measure with `performance`"
    if "[always]" in text("/sys/kernel/mm/transparent_hugepage/enabled"):
        return "note", "transparent huge pages are always on: measure with `madvise`"
    return "good", f"governor {governor or 'not offered by this machine'}, huge pages on request"


def suites() -> tuple[str, str]:
    names = sorted(path.stem for path in Path(settings.SUITES).glob("*.toml"))
    wrong = []
    for name in names:
        try:
            definitions.load(name)
        except definitions.DefinitionError as e:
            wrong.append(str(e))
    return ("bad", "; ".join(wrong)) if wrong else ("good", ", ".join(names) or "none")


def machines() -> tuple[str, str]:
    known = [f"{m.name}{' (paused)' if m.paused else ''}" for m in Machine.objects.order_by("name")]
    return ("good", ", ".join(known)) if known else ("note", "none: add one with `manage.py machine add NAME`")


def output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10).stdout.strip()
    except OSError:
        return ""


def text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


CHECKS: dict[str, Callable[[], tuple[str, str]]] = {
    "database": database,
    "broker": broker,
    "git": git,
    "driver": driver,
    "compiler": compiler,
    "placement": placement,
    "kernel": kernel,
    "suites": suites,
    "machines": machines,
}
