"""A data directory of the embedded PostgreSQL: whose it is, its socket, and the rights of its server's user."""

import contextlib
import os
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOCKET = ".s.PGSQL.5432"
LONGEST_SOCKET = 100  # bytes of a socket's path; Linux takes 107, macOS 103
READ, PASS = stat.S_IRGRP | stat.S_IROTH, stat.S_IXGRP | stat.S_IXOTH  # rights of others


@dataclass(frozen=True)
class Cluster:
    """A data directory, and the user of its server: SYSTEM_USER if root starts it, otherwise the same user."""

    directory: Path
    programs: Path
    user: Any = None

    @property
    def log(self) -> Path:
        return self.directory / "log"

    @property
    def as_user(self) -> dict[str, Any]:
        """Arguments of ``subprocess.Popen``."""
        identity = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        return {"cwd": "/", "stdin": subprocess.DEVNULL, "start_new_session": True, **identity}

    def hand_over(self, path: Path) -> None:
        if self.user:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)


def lock_file(directory: Path, name: str) -> Path:
    return directory.parent / f".{directory.name}.{name}"


def open_the_way(cluster: Cluster) -> None:
    """If another user runs the server, let others pass through the directories above its data without reading."""
    for parent in cluster.directory.parents if cluster.user else ():
        allow(parent, PASS)


def open_programs(cluster: Cluster) -> None:
    """Where another user runs the server, let others use its programs, and pass through the directories above them."""
    if not cluster.user:
        return
    package = cluster.programs.parents[1]
    for parent in (package, *package.parents):
        allow(parent, PASS)
    for tree in (cluster.programs.parent, *package.parent.glob(f"{package.name}.libs")):
        for path in (tree, *tree.rglob("*")):
            allow(path, READ | (PASS if path.stat().st_mode & stat.S_IXUSR else 0))


def allow(path: Path, rights: int) -> None:
    """Add these rights to those of a file, where some lack: another user's file, or one of an image, stays alone."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & rights != rights:
        path.chmod(mode | rights)


def socket_directory(cluster: Cluster) -> Path:
    """The data directory, or a private one if its path is too long for a socket or has separators of lists in it.

    The private one is noted beside the data, so that the server has the same address after a crash.
    """
    if len(os.fsencode(cluster.directory / SOCKET)) <= LONGEST_SOCKET and not set(str(cluster.directory)) & set(',"\\'):
        return cluster.directory
    note = lock_file(cluster.directory, "sockets")
    with contextlib.suppress(OSError):
        if is_private(directory := Path(note.read_text()), cluster):
            return directory
    directory = Path(tempfile.mkdtemp(prefix="speedtrack-postgresql-"))
    cluster.hand_over(directory)
    note.write_text(str(directory))
    return directory


def is_private(directory: Path, cluster: Cluster) -> bool:
    """Return whether this is a directory, not a link, that only the server's user may enter. Raises OSError."""
    status, owner = directory.lstat(), cluster.user.pw_uid if cluster.user else os.getuid()
    is_own = stat.S_ISDIR(status.st_mode) and status.st_uid == owner and not status.st_mode & 0o077
    return is_own and directory.is_absolute()
