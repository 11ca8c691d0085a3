"""Tunes the kernel for measuring, during each run of a runner, and restores it afterwards."""

import contextlib
import logging
import os
import resource
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from runners.errors import SettingsError
from runners.machine.kernel_files import LATENCY, ROOT
from runners.machine.placement import Placement
from runners.tuning.journal import RUN, Journal, journal_directory
from runners.tuning.kernel_settings import needed_changes

log = logging.getLogger(__name__)

# A core may use C1, which it leaves within 2 us: if its idle sibling polled instead, it would slow the measured thread.
LATENCY_US = 2
LIMITS = {"open files": (resource.RLIMIT_NOFILE, 65_536), "locked memory": (resource.RLIMIT_MEMLOCK, None)}
Tuning = Callable[[Placement], contextlib.AbstractContextManager[None]]  # entered for each run


@contextlib.contextmanager
def tuning_for_runs(enabled: bool, root: Path = ROOT) -> Iterator[Tuning]:
    """The tuning that a runner enters for each run.

    Settings left by a killed runner are restored even if tuning is off. Raises SettingsError if it is on and another
    process tunes this machine already.
    """
    if not enabled:
        with contextlib.suppress(SettingsError), journal_directory(root) as directory:
            _undo_leftovers(Journal(root, directory, RUN))
        yield lambda plan: contextlib.nullcontext()
        return
    with journal_directory(root) as directory:
        journal = Journal(root, directory, RUN)
        _undo_leftovers(journal)
        yield lambda plan: apply_tuning(journal, plan)


@contextlib.contextmanager
def apply_tuning(journal: Journal, plan: Placement) -> Iterator[None]:
    """Tunes the machine for this placement in the block, and restores it afterwards. Settings that fail are logged."""
    with _raised_limits(), _latency_limit(journal.root):
        failures = journal.apply(needed_changes(journal.root, plan))
        for file, cause in failures.items():
            log.info("tune: /%s cannot be set: %s", file, cause)
        try:
            yield
        finally:
            _undo(journal)


def _undo_leftovers(journal: Journal) -> None:
    leftovers = journal.read()
    if leftovers:
        log.warning("tune: restoring %d settings that an earlier runner left behind", len(leftovers))
        _undo(journal)


def _undo(journal: Journal) -> None:
    for file, cause in journal.undo().items():
        log.error("tune: /%s cannot be restored: %s; try `python -m runners tune --restore`", file, cause)


@contextlib.contextmanager
def _latency_limit(root: Path) -> Iterator[None]:
    """Limits wake-up latency. The kernel drops the limit when the file is closed, even by a crash."""
    try:
        device = os.open(root / LATENCY, os.O_WRONLY)
    except OSError as error:
        log.info("tune: /%s cannot be held: %s", LATENCY, error.strerror)
        yield
        return
    try:
        os.write(device, struct.pack("i", LATENCY_US))
        yield
    finally:
        os.close(device)


@contextlib.contextmanager
def _raised_limits() -> Iterator[None]:
    """Raises the limits of the runner; the servers that it starts inherit them."""
    before = {kind: resource.getrlimit(kind) for kind, _ in LIMITS.values()}
    for kind, target in LIMITS.values():
        soft, hard = before[kind]
        resource.setrlimit(kind, (raised_limit(soft, hard, target), hard))
    try:
        yield
    finally:
        for kind, limit in before.items():
            resource.setrlimit(kind, limit)


def raised_limit(soft: int, hard: int, target: int | None) -> int:
    """The soft limit to set, at most the hard one. A target of None means the hard limit; -1 is unlimited."""
    ceiling = hard if target is None or 0 <= hard < target else target
    return -1 if -1 in (soft, ceiling) else max(soft, ceiling)
