"""Check that there is space on the disk of the runner's home.

Without space, builds and results fail although the commit is not at fault.
"""

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from runners.errors import NoSpace
from runners.removal import ASIDE, remove, remove_left

FULL = (errno.ENOSPC, errno.EDQUOT)
MB = 1 << 20
REPLACEABLE = ("build", "image", "ccache")  # directories of the home that each build makes anew


@dataclass(frozen=True)
class Space:
    """The directory of a runner, and the free space that it needs to take work."""

    home: Path
    least_bytes: int

    def lack(self) -> str:
        """Why the runner can take no work, with the remedy; empty if there is space."""
        state = os.statvfs(self.home)
        free = state.f_bavail * state.f_frsize
        inodes_left = state.f_favail > 0 or state.f_files == 0  # some file systems do not count them
        if free >= self.least_bytes and inodes_left:
            return ""
        shortage = f"{free // MB} MB free" if inodes_left else "no inodes free"
        leftover = next(self.home.glob(f"*{ASIDE}*"), None)
        return (
            f"the disk of the runner's home {self.home} is full: {shortage}, {self.least_bytes // MB} MB are needed "
            "(SPEEDTRACK_LEAST_FREE_MB): free space, lower SPEEDTRACK_CACHE_MB, or move SPEEDTRACK_RUNNER_HOME"
            + (f"; {leftover} holds files of a run that could not be removed" if leftover else "")
        )

    def make_room(self) -> None:
        """Removes leftovers of builds that the next build does not need: no project may fill the disk for others."""
        remove_left(self.home)
        for name in REPLACEABLE:
            with contextlib.suppress(OSError):
                remove(self.home / name)

    def cause_of(self, error: BaseException) -> NoSpace | None:
        """A NoSpace error if the disk is full, which then caused this error; otherwise None.

        Builds and servers report a full disk in various ways.
        """
        if lack := self.lack():
            return NoSpace(lack)
        if isinstance(error, OSError) and error.errno in FULL:
            return NoSpace(f"{error.strerror} ({error.filename or self.home}): free space on the runner's disk")
        return None
