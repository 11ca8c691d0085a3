"""The physical cores of this host, each used by one runner at a time.

A runner holds every core it may use, for it builds on all of them, from before its claim until the run has ended: so no
lease grows old while it waits. A lock is a file of the host, one per physical core, named by the lowest of its hardware
threads. The kernel lets go of it when its holder ends, however that ends. Before a core's own lock another one is
taken, `.next`, and given back with the core in hand: whoever waits goes before a holder that comes again.
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
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from runners.errors import Permanent
from runners.machine.topology import ROOT, Topology

log = logging.getLogger(__name__)

PLACES = ("run/lock", "var/lock", "tmp")
SHARED = stat.S_ISVTX | stat.S_IRWXU | stat.S_IRWXG | stat.S_IRWXO
MODE_TRIES = 5  # of opening a file whose maker has not set its mode yet
LOOK_EVERY_S = 0.2
TELL_AFTER_S, TELL_AGAIN_S = 1.0, 60.0  # a runner that finds no work holds its cores for milliseconds
LONGEST_WORDS = 4096
NOT_COVERED = "runners in containers that do not share this directory (SPEEDTRACK_LOCK_DIR) are not seen"


@dataclass(frozen=True)
class Holder:
    """Who holds a core: what a runner that waits for it can tell."""

    pid: int
    home: str
    instance: str
    machine: str
    host: str
    since: str = ""

    def __str__(self) -> str:
        return (
            f"the runner of machine {self.machine} (process {self.pid} on {self.host}, home {self.home}, instance "
            f"{self.instance[:12]}), since {self.since}"
        )


@dataclass(frozen=True)
class Cores:
    """The locks of some physical cores in a directory that all runners of the host share."""

    directory: Path
    names: tuple[int, ...]
    holder: Holder

    def check(self) -> None:
        """Raises Permanent if a lock cannot be used."""
        for name in self.names:
            os.close(open_lock(self._file(f"{name}")))

    @contextmanager
    def held(self, stopping: threading.Event) -> Iterator[bool]:
        """Waits for all cores and holds them inside; False: told to stop meanwhile. Raises Permanent as `check`.

        Everybody takes cores in ascending order, so nobody waits for somebody who waits for him.
        """
        with ExitStack() as stack:
            yield all(self._core(stack, name, stopping) for name in self.names)

    def _core(self, stack: ExitStack, name: int, stopping: threading.Event) -> bool:
        with ExitStack() as turn:
            return self._wait(turn, f"{name}.next", stopping) and self._wait(stack, f"{name}", stopping)

    def _wait(self, stack: ExitStack, name: str, stopping: threading.Event) -> bool:
        """Takes a lock for as long as the stack lasts."""
        began = time.monotonic()
        tell_after_s, told = TELL_AFTER_S, ""
        while (held := self._try(name)) is None:
            waited_s = time.monotonic() - began
            other = words(self._file(name))
            if waited_s >= tell_after_s or (told and other != told):
                log.warning("waiting for core %s, which is in use or asked for by %s", name.partition(".")[0], other)
                tell_after_s, told = waited_s + TELL_AGAIN_S, other
            if stopping.wait(LOOK_EVERY_S):
                return False
        stack.callback(release, held)
        if told:
            log.info("core %s is free after %.0f s", name.partition(".")[0], time.monotonic() - began)
        return True

    def _try(self, name: str) -> int | None:
        """The locked file with this holder's words in it; None: somebody else holds it."""
        file = self._file(name)
        descriptor = open_lock(file)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if not same_file(file, descriptor):  # somebody has removed it meanwhile: the next look makes a new one
            os.close(descriptor)
            return None
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with contextlib.suppress(OSError):  # a full disk: the lock holds without words
            os.pwrite(descriptor, json.dumps(asdict(self.holder) | {"since": now}).encode(), 0)
        return descriptor

    def _file(self, name: str) -> Path:
        return self.directory / f"speedtrack-core-{name}"


def physical_cores(machine: Topology) -> tuple[int, ...]:
    """The names of the cores that this process may use a hardware thread of, ascending."""
    return tuple(sorted(min((*core.cpus, *core.foreign)) for core in machine.cores))


def lock_directory(asked: Path | None, root: Path = ROOT) -> Path:
    """Where all runners of this host have their locks. Raises Permanent if there is no such place.

    Whoever asks gets the same answer: what counts is that everybody may write there, not that this user may.
    """
    if asked is not None:
        if not asked.is_dir() or not os.access(asked, os.W_OK | os.X_OK):
            raise Permanent(f"SPEEDTRACK_LOCK_DIR {asked} is no directory that this user may write to: make it one")
        return asked
    for place in PLACES:
        with contextlib.suppress(OSError):
            if stat.S_IMODE((root / place).stat().st_mode) == SHARED:
                return root / place
    raise Permanent(
        f"no place for the locks of cores: none of /{', /'.join(PLACES)} is open to everybody (mode 1777): set "
        "SPEEDTRACK_LOCK_DIR to a directory that all runners of this host may write to"
    )


def open_lock(file: Path) -> int:
    """A descriptor of the file, made if it is missing. Raises Permanent if it cannot be a runner's lock.

    The directory is open to everybody: links are not followed, and what has a second name is not written to. A file
    that is there is opened without O_CREAT, which the kernel refuses for files of others (fs.protected_regular).
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        descriptor = _opened(file, flags)
    except OSError as error:
        raise Permanent(f"the lock {file} cannot be opened ({error.strerror}): {_remedy(file)}") from error
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or about.st_nlink > 1:
        os.close(descriptor)
        raise Permanent(f"{file} is no lock that a runner made: {_remedy(file)}")
    return descriptor


def _opened(file: Path, flags: int) -> int:
    """The file, or a new one that every user may open.

    A file that another user has just made is his alone until its mode is set: that is waited for. The mode is not left
    to umask, which all threads of a process share.
    """
    for left in reversed(range(MODE_TRIES)):
        try:
            return os.open(file, flags)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                descriptor = os.open(file, flags | os.O_CREAT | os.O_EXCL, 0o666)
                os.fchmod(descriptor, 0o666)
                return descriptor
        except PermissionError:
            if not left:
                raise
            time.sleep(LOOK_EVERY_S)
    raise FileNotFoundError(errno.ENOENT, "it is removed again and again", str(file))


def _remedy(file: Path) -> str:
    with contextlib.suppress(OSError):
        return f"it belongs to user {file.lstat().st_uid}: remove it, or set SPEEDTRACK_LOCK_DIR to another directory"
    return "set SPEEDTRACK_LOCK_DIR to a directory that all runners of this host may write to"


def same_file(file: Path, descriptor: int) -> bool:
    """Whether the path still leads to the open file."""
    try:
        return os.path.samestat(os.lstat(file), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def release(descriptor: int) -> None:
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
    os.close(descriptor)


def words(file: Path) -> str:
    """Who holds a lock, as its file says: every user may write there, so only printable words are passed on."""
    try:
        descriptor = open_lock(file)
        try:
            content = json.loads(os.pread(descriptor, LONGEST_WORDS, 0))
        finally:
            os.close(descriptor)
        told = str(Holder(**content))
    except (Permanent, ValueError, TypeError, RecursionError):
        return "a process that does not say who it is"
    return "".join(letter for letter in told if letter.isprintable())[:500]
