"""Remove directories that foreign code has filled, whatever it left there.

A directory is first moved aside, so its name is free at once. Then its directories are moved up to its top one by one,
made accessible, and emptied there. So no tree is too deep and no path too long; no link is followed, because each name
is used below an open directory; and a mount point cannot be moved, so it is not entered. Anything that cannot be
removed stays aside until `remove_left` tries again.
"""

import contextlib
import ctypes
import errno
import fcntl
import logging
import os
import secrets
import stat
import struct
import time
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

ASIDE = ".removed-"
HANDLE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
LIMIT_S = 120.0  # of one removal, enough for two million files: a directory that still grows never ends
MOST_PASSES = 20  # over a directory to which something still writes
FS_IOC_GETFLAGS, FS_IOC_SETFLAGS = 0x80086601, 0x40086602
INT = struct.Struct("i")
PROTECTED = 0x10 | 0x20  # FS_IMMUTABLE_FL and FS_APPEND_FL
UMOUNT = 2 | 8  # MNT_DETACH and UMOUNT_NOFOLLOW

_libc = ctypes.CDLL(None, use_errno=True)


def remove(path: Path) -> str:
    """Removes a directory, or moves it aside; returns why something is left, or "". Raises OSError if it stays."""
    aside = path.with_name(f"{path.name}{ASIDE}{secrets.token_hex(8)}")
    if not os.path.lexists(path):
        return ""
    with _opened(path.parent) as parent:
        _rename(parent, path.name, aside.name)
    return _remove_aside(aside)


def empty_directory(path: Path) -> Path:
    """A fresh, empty directory at this path. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if obstacle := remove(path):
        log.warning("%s", obstacle)
    path.mkdir()
    return path


def remove_left(directory: Path) -> str:
    """Removes everything aside in this directory; returns why something is left, or an empty text. Raises nothing."""
    with contextlib.suppress(OSError):
        return "; ".join(filter(None, map(_remove_aside, sorted(directory.glob(f"*{ASIDE}*")))))
    return ""


def _remove_aside(aside: Path) -> str:
    """Removes a directory that was moved aside; returns why something is left, or an empty text."""
    try:
        with _opened(aside.parent) as parent:
            if not _unlink(parent, aside.name):
                with _entered(parent, aside.name) as top:
                    _Removal(top).run()
                os.rmdir(aside.name, dir_fd=parent)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return f"{aside} cannot be removed ({error.strerror}): remove it by hand"
    return ""


class _Removal:
    """The removal of everything below an open directory, the top."""

    def __init__(self, top: int) -> None:
        self.top = top
        self.prefix = secrets.token_hex(8)
        self.count = 0
        self.pending: list[str] = []
        self.deadline = time.monotonic() + LIMIT_S

    def run(self) -> None:
        """Removes all that can be removed."""
        self._empty(self.top)
        while self.pending:
            name = self.pending.pop()
            with contextlib.suppress(OSError):
                with _entered(self.top, name) as directory:
                    self._empty(directory)
                os.rmdir(name, dir_fd=self.top)

    def _empty(self, directory: int) -> None:
        """Removes the files of a directory, and moves its directories to the top, until nothing changes."""
        for _ in range(MOST_PASSES):
            if not self._pass(directory):
                return

    def _pass(self, directory: int) -> bool:
        """Removes or moves each entry; returns whether that succeeded for one."""
        has_changed = False
        with os.scandir(directory) as entries:
            for entry in entries:
                if time.monotonic() > self.deadline:
                    return False
                if directory != self.top or not entry.name.startswith(self.prefix):
                    has_changed |= self._take(directory, entry.name)
        return has_changed

    def _take(self, directory: int, name: str) -> bool:
        try:
            return _unlink(directory, name) or self._move_up(directory, name)
        except OSError:
            return False

    def _move_up(self, directory: int, name: str) -> bool:
        new = f"{self.prefix}{self.count}"
        _rename(directory, name, new, self.top)
        self.count += 1
        self.pending.append(new)
        return True


def _unlink(directory: int, name: str) -> bool:
    """Removes an entry that is no directory; False for a directory. Raises OSError."""
    if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=directory)
            return True
        return False
    try:
        os.unlink(name, dir_fd=directory)
    except OSError as error:
        _make_removable(directory, name, error)
        os.unlink(name, dir_fd=directory)
    return True


def _rename(directory: int, name: str, new: str, to: int | None = None) -> None:
    """Renames an entry, also one that is protected, or on which something is mounted. Raises OSError."""
    target = directory if to is None else to
    try:
        os.rename(name, new, src_dir_fd=directory, dst_dir_fd=target)
    except OSError as error:
        _make_removable(directory, name, error)
        os.rename(name, new, src_dir_fd=directory, dst_dir_fd=target)


def _make_removable(directory: int, name: str, error: OSError) -> None:
    """Removes the cause of this error from an entry. Raises the error if there is no such cause."""
    match error.errno:
        case errno.EBUSY:
            _libc.umount2(f"/proc/self/fd/{directory}/{name}".encode(errors="surrogateescape"), UMOUNT)
        case errno.EPERM | errno.EACCES:
            with contextlib.suppress(OSError):
                _enter_or_open(directory, name)
        case _:
            raise error


def _enter_or_open(directory: int, name: str) -> None:
    """Makes an entry accessible and takes its protection away."""
    if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
        with _entered(directory, name):
            return
    descriptor = os.open(name, FILE, dir_fd=directory)
    try:
        _unprotect(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _entered(directory: int, name: str) -> Iterator[int]:
    """A descriptor of a directory that was made accessible, and whose protection was taken away. Raises OSError."""
    handle = os.open(name, HANDLE, dir_fd=directory)
    try:
        own = f"/proc/self/fd/{handle}"  # the opened directory, wherever its name leads by now
        with contextlib.suppress(OSError):
            os.chmod(own, stat.S_IRWXU)
        descriptor = os.open(own, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    finally:
        os.close(handle)
    try:
        if _unprotect(descriptor):
            os.fchmod(descriptor, stat.S_IRWXU)
        yield descriptor
    finally:
        os.close(descriptor)


def _unprotect(descriptor: int) -> bool:
    """Takes the attributes immutable and append-only away (`man 1 chattr`); False if there was none."""
    flags = bytearray(INT.size)
    try:
        fcntl.ioctl(descriptor, FS_IOC_GETFLAGS, flags)
        (value,) = INT.unpack(flags)
        if value & PROTECTED:
            fcntl.ioctl(descriptor, FS_IOC_SETFLAGS, INT.pack(value & ~PROTECTED))
    except OSError:  # other file systems have no attributes, and only root may take them away
        return False
    return bool(value & PROTECTED)
