"""Keep mirrors small, once a day: references that nothing needs are deleted, and git packs what was fetched.

git keeps the objects of a deleted reference for two weeks: a request that comes meanwhile finds them.
"""

import logging
import time
from collections.abc import Callable
from pathlib import Path

from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import fetching, git, patches
from speedtrack.projects.mirrors.directories import TEMPORARY, has_mirror, mirror_of, remove_directory
from speedtrack.projects.mirrors.gitprocess import NO_PROTOCOL, run_git
from speedtrack.projects.mirrors.transports import Transport

log = logging.getLogger(__name__)

DAY_S = 86_400
MARK = "tidied"  # the file in a mirror that is as old as its last tidying
#: Packing with one core and little memory, before the call returns.
PACKING = {
    "gc.auto": "6700",
    "gc.autoPackLimit": "50",
    "gc.autoDetach": "false",
    "gc.pruneExpire": "2.weeks.ago",
    "pack.threads": "1",
    "pack.windowMemory": "100m",
}


def is_due(slug: str) -> bool:
    """Return whether the project has a mirror that was not tidied within a day."""
    return has_mirror(slug) and not is_younger(mirror_of(slug) / MARK, DAY_S)


def is_younger(file: Path, seconds: float) -> bool:
    return file.exists() and file.stat().st_mtime > time.time() - seconds


def tidy(slug: str, needed: Callable[[set[str]], set[str]]) -> None:
    """Delete the references to requested commits that are not ``needed``, and let git pack the mirror if it is time.

    ``needed`` returns the commit ids among these that something needs. A reference of the last day stays, since its
    request may not be stored yet. The caller holds the project's lock.
    """
    mirror = mirror_of(slug)
    (mirror / MARK).touch()
    requested, kept_patches = fetching.requested_refs(slug), patches.kept(slug)
    shas = needed({*requested.values(), *kept_patches})
    unneeded = [ref for ref, sha in requested.items() if sha not in shas and not is_younger(mirror / ref, DAY_S)]
    git.delete_refs(slug, unneeded)
    patches.forget(slug, kept_patches - shas)  # a patch that was submitted since is not among them
    for directory in (mirror, *mirror.with_suffix(".modules").glob("*.git")):
        pack(directory)
    remove_leftovers(mirror.parent)


def remove_leftovers(mirrors: Path) -> None:
    """Remove the temporary mirrors of killed processes: none is in use for a day."""
    for directory in mirrors.glob(f"{TEMPORARY}*.git"):
        if not is_younger(directory, DAY_S):
            remove_directory(directory)


def pack(mirror: Path) -> None:
    """Let git pack a mirror if it has many objects or packs. A failure is logged; the next day tries again."""
    began_at = time.time()
    try:
        run_git("gc", "--auto", "--quiet", directory=mirror, transport=Transport(NO_PROTOCOL, config=PACKING))
    except RepositoryError as e:
        fetching.remove_halves(mirror, began_at)
        log.warning("the mirror %s was not packed, and is tomorrow: %s", mirror.name, e)
