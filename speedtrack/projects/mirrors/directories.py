"""The directories of mirrors: bare repositories, one per project, beside those of its submodules."""

import contextlib
import os
from pathlib import Path
from uuid import uuid4

from django.conf import settings

from speedtrack.projects.mirrors.gitprocess import run_git

TEMPORARY = "."  # begins the names of mirrors for one use, or not finished yet; names of projects have no dot


def mirror_of(slug: str) -> Path:
    return Path(settings.MIRRORS) / f"{slug}.git"


def has_mirror(slug: str) -> bool:
    return (mirror_of(slug) / "HEAD").exists()


def make_mirror(slug: str) -> Path:
    """The path of the project's bare mirror, which is created if it is missing.

    It appears whole or not at all, since two calls at once, or a killed one, must not leave half of it.
    """
    mirror = mirror_of(slug)
    if has_mirror(slug):
        return mirror
    new = mirror.with_name(f"{TEMPORARY}{uuid4().hex}.git")
    mirror.parent.mkdir(parents=True, exist_ok=True)
    try:
        run_git("init", "--bare", "--quiet", "--initial-branch=main", "--", str(new))
        # A build needs all files of the commit, also those that the repository excludes from its release archives.
        (new / "info").mkdir(exist_ok=True)
        (new / "info" / "attributes").write_text("* -export-ignore -export-subst\n")
        put_in_place(slug, new)
    finally:
        remove_directory(new)
    return mirror


def put_in_place(slug: str, new: Path) -> None:
    """Make a new repository the project's mirror, unless another call has made one meanwhile."""
    try:
        new.rename(mirror_of(slug))
    except OSError:
        if not has_mirror(slug):
            remove_directory(mirror_of(slug))  # the rest of one whose files somebody deleted
            new.rename(mirror_of(slug))


def remove_mirror(slug: str) -> None:
    """Delete the project's mirror and the mirrors of its submodules."""
    remove_directory(mirror_of(slug))
    remove_directory(Path(settings.MIRRORS) / f"{slug}.modules")


def remove_directory(path: Path) -> None:
    """Delete a directory as far as possible: a branch may have 2,000 parts, more than ``shutil.rmtree`` can enter."""
    directories = [path]
    for directory in directories:  # it grows during the loop
        with contextlib.suppress(OSError), os.scandir(directory) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    directories.append(Path(entry.path))
                else:
                    Path(entry.path).unlink(missing_ok=True)
    for directory in reversed(directories):
        with contextlib.suppress(OSError):
            directory.rmdir()
