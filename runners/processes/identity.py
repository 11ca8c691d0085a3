"""Which runner this is: a word that is the same after a restart, and another one for a copy of the runner's home.

The word is kept in the home's file `mark`: half of it is random, the other half a digest of the machine's id and of the
home's path. A home that was copied to another machine or place, as in a cloned virtual machine, does not fit its second
half any more, and gets a new mark.
"""

import hashlib
import platform
import secrets
from pathlib import Path

from runners.machine.topology import ROOT, text

MACHINE_IDS = ("etc/machine-id", "var/lib/dbus/machine-id")
HALF = 16


def machine_id(root: Path = ROOT) -> str:
    """What tells this machine from its copies, the same after a reboot; without an id (most containers) its name."""
    found = (text(root / file) for file in MACHINE_IDS)
    return next((one for one in found if one and one != "uninitialized"), "") or platform.node()


def mark(home: Path, root: Path = ROOT) -> tuple[str, bool]:
    """The mark of this home on this machine, and whether it was made now."""
    file = home / "mark"
    place = hashlib.sha256(f"{machine_id(root)}\0{home.resolve()}".encode(errors="surrogateescape")).hexdigest()[:HALF]
    found = text(file)
    if len(found) == 2 * HALF and found.endswith(place):
        return found, False
    made = secrets.token_hex(HALF // 2) + place
    file.write_text(made)
    return made, True
