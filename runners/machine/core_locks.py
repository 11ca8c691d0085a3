"""Locks of the physical cores of this host: one runner at a time uses a core.

A runner locks every core that it may use, because it builds on all of them. It does so before it claims a run, so that
no lease expires while it waits, and until the run has ended. There is one lock file per physical core, named by its
lowest hardware thread; the kernel releases it when its holder ends, even by SIGKILL. Before the lock of a core a second
lock is taken, `.next`, and released once the core is locked: so a waiting runner goes before one that returns.
"""

import contextlib
import errno
import fcntl
import json
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from runners.errors import Permanent
from runners.machine.kernel_files import ROOT
from runners.machine.topology import Topology

log = logging.getLogger(__name__)

LOCK_DIRECTORIES = ("run/lock", "var/lock", "tmp")
SHARED = stat.S_ISVTX | stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO
MODE_TRIES = 5  # to open a file whose creator has not set its mode yet
TRY_EVERY_S = 0.2
LOG_AFTER_S, LOG_AGAIN_S = 1.0, 60.0  # a runner that finds no work holds its cores for milliseconds only
LONGEST_HOLDER = 4096
UNKNOWN_HOLDER = "an unknown process"
NOT_COVERED = "runners in containers that do not share this directory (SPEEDTRACK_LOCK_DIR) are not seen"


@dataclass(frozen=True)
class Holder:
    """A runner that holds a core, for the log of a waiting runner."""

    pid: int
    home: str
    instance: str
    machine: str
    host: str
    since: str = ""

    @property
    def brief(self) -> str:
        """The holder without its paths and its host, because anybody may read the pages."""
        return f"the runner of machine {self.machine} (process {self.pid})" if self.pid else UNKNOWN_HOLDER

    def __str__(self) -> str:
        if not self.pid:
            return UNKNOWN_HOLDER
        return (
            f"the runner of machine {self.machine} (process {self.pid} on {self.host}, home {self.home}, instance "
            f"{self.instance[:12]}), since {self.since}"
        )


@dataclass(frozen=True)
class CoreLocks:
    """The locks of some physical cores in a directory that all runners of the host share."""

    directory: Path
    names: tuple[int, ...]
    holder: Holder
    show: Callable[[str], None] = lambda core: None  # called with the core that the runner waits for; empty: no longer

    def check(self) -> None:
        """Raises Permanent if a lock cannot be used."""
        for name in self.names:
            os.close(open_lock(self._file(f"{name}")))

    @contextmanager
    def held(self, stopping: threading.Event) -> Iterator[bool]:
        """Waits for all cores and holds them in the block; yields False if the runner is to stop. Raises as `check`.

        All runners lock cores in ascending order, so there is no deadlock.
        """
        with ExitStack() as stack:
            yield all(self._core(stack, name, stopping) for name in self.names)

    def _core(self, stack: ExitStack, name: int, stopping: threading.Event) -> bool:
        with ExitStack() as turn:
            return self._wait(turn, f"{name}.next", stopping) and self._wait(stack, f"{name}", stopping)

    def _wait(self, stack: ExitStack, name: str, stopping: threading.Event) -> bool:
        """Takes a lock until the stack is closed."""
        began = time.monotonic()
        log_after_s = LOG_AFTER_S
        logged_holder: Holder | None = None
        while (descriptor := self._try(name)) is None:
            waited_s = time.monotonic() - began
            holder = holder_of(self._file(name))
            if waited_s >= log_after_s or (logged_holder and holder != logged_holder):
                log.warning("waiting for core %s, which is in use or asked for by %s", name.partition(".")[0], holder)
                self.show(f"core {name.partition('.')[0]}, which is in use or asked for by {holder.brief}")
                log_after_s, logged_holder = waited_s + LOG_AGAIN_S, holder
            if stopping.wait(TRY_EVERY_S):
                return False
        stack.callback(release, descriptor)
        if logged_holder:
            self.show("")
            log.info("core %s is free after %.0f s", name.partition(".")[0], time.monotonic() - began)
        return True

    def _try(self, name: str) -> int | None:
        """The descriptor of the locked file, in which this holder is written; None if another process holds it."""
        file = self._file(name)
        descriptor = open_lock(file)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if not same_file(file, descriptor):  # removed meanwhile: the next attempt creates a new one
            os.close(descriptor)
            return None
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with contextlib.suppress(OSError):  # on a full disk the lock holds nevertheless
            os.ftruncate(descriptor, 0)  # a killed holder has left its text
            os.pwrite(descriptor, json.dumps(asdict(self.holder) | {"since": now}).encode(), 0)
        return descriptor

    def _file(self, name: str) -> Path:
        return self.directory / f"speedtrack-core-{name}"


def physical_cores(machine: Topology) -> tuple[int, ...]:
    """The cores of which this process may use a hardware thread, by the names of their locks, ascending."""
    return tuple(sorted(min((*core.cpus, *core.foreign)) for core in machine.cores))


def lock_directory(setting: Path | None, root: Path = ROOT) -> Path:
    """The directory of the locks of all runners of this host. Raises Permanent if there is none.

    It is the same for every user, and every user must be able to write there. A read-only container does not see the
    host's directory, unless both mount the same path.
    """
    if setting is not None:
        if not setting.is_dir() or not os.access(setting, os.W_OK | os.X_OK):
            raise Permanent(f"SPEEDTRACK_LOCK_DIR {setting} is no directory that this user may write to: make it one")
        return setting
    for directory in LOCK_DIRECTORIES:
        with contextlib.suppress(OSError):
            path = root / directory
            if stat.S_IMODE(path.stat().st_mode) == SHARED and os.access(path, os.W_OK):
                return path
    raise Permanent(
        f"no place for the locks of cores: none of /{', /'.join(LOCK_DIRECTORIES)} is writable for every user (mode "
        "1777): set SPEEDTRACK_LOCK_DIR to a directory that all runners of this host may write to"
    )


def open_lock(file: Path) -> int:
    """A descriptor of the file, created if it is missing. Raises Permanent if it cannot be a runner's lock.

    Every user may write to the directory: symbolic links are not followed, and files with hard links are not written
    to. An existing file is opened without O_CREAT, which the kernel refuses for files of others (fs.protected_regular).
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = _open_or_create(file, flags)
    except OSError as error:
        raise Permanent(f"the lock {file} cannot be opened ({error.strerror}): {_remedy(file)}") from error
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
        os.close(descriptor)
        raise Permanent(f"{file} is no lock that a runner made: {_remedy(file)}")
    return descriptor


def _open_or_create(file: Path, flags: int) -> int:
    """Opens the file, or creates one that every user may open.

    A file that another user has just created cannot be opened until its mode is set: wait for that. The mode is set
    after the creation, since all threads of a process share its umask.
    """
    for tries_left in reversed(range(MODE_TRIES)):
        try:
            return os.open(file, flags)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o666)
                os.fchmod(descriptor, 0o666)
                return descriptor
        except PermissionError:
            if not tries_left:
                raise
            time.sleep(TRY_EVERY_S)
    raise FileNotFoundError(errno.ENOENT, "it is removed again and again", str(file))


def _remedy(file: Path) -> str:
    with contextlib.suppress(OSError):
        return f"it belongs to user {file.lstat().st_uid}: remove it, or set SPEEDTRACK_LOCK_DIR to another directory"
    return "set SPEEDTRACK_LOCK_DIR to a directory that all runners of this host may write to"


def same_file(file: Path, descriptor: int) -> bool:
    """Returns whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.lstat(file), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def release(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)


def holder_of(file: Path) -> Holder:
    """The holder of a lock, from its file. Every user may write to the file, so only printable letters are kept."""
    try:
        descriptor = open_lock(file)
        try:
            content = json.loads(os.pread(descriptor, LONGEST_HOLDER, 0))
        finally:
            os.close(descriptor)
        holder = Holder(**content)
        texts = {name: printable(getattr(holder, name)) for name in ("home", "instance", "machine", "host", "since")}
        return replace(holder, pid=int(holder.pid), **texts)
    except (Permanent, ValueError, TypeError, RecursionError, OverflowError):
        return Holder(0, "", "", "", "")


def printable(text: str) -> str:
    return "".join(letter for letter in str(text) if letter.isprintable())[:100]
