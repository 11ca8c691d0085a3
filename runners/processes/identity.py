"""The mark of a runner: the same after a restart, but different for a copy of the runner's home.

It is kept in the file `mark` of the home: one half is random, the other half is a digest of the machine's id and of the
home's path. In a home that was copied to another machine or place, as by cloning a virtual machine, the second half
does not match any more, and a new mark is made.
"""

import hashlib
import platform
import secrets
from pathlib import Path

from runners.machine.kernel_files import ROOT, text

MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
HALF = 16


def machine_id(root: Path = ROOT) -> str:
    """An id that distinguishes this machine from its copies, also after a reboot; the host name if there is none."""
    ids = (text(root / file) for file in MACHINE_IDS)
    return next((value for value in ids if value and value != "uninitialized"), "") or platform.node()


def mark(home: Path, root: Path = ROOT) -> tuple[str, bool]:
    """The mark of this home on this machine, and whether it is new."""
    file = home / "mark"
    half = hashlib.sha256(f"{machine_id(root)}\0{home.resolve()}".encode(errors="surrogateescape")).hexdigest()[:HALF]
    content = text(file)
    if len(content) == 2 * HALF and content.endswith(half):
        return content, False
    created = secrets.token_hex(HALF // 2) + half
    file.write_text(created)
    return created, True
