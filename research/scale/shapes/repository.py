"""A real repository of any length, made by one process of git."""

import shutil
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from research.scale.histories.commits import AUTHORS, time_of, version
from research.scale.shapes.extents import ShapeExtent

OWN_SHARE = 600  # a branch has one commit of its own for so many of the default branch
LEAST_OWN = 3


def make_repository(path: Path, extent: ShapeExtent, now: datetime) -> None:
    """A bare repository that replaces ``path``, with its default branch ``main``."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    run_git(path, "init", "--quiet", "--bare", "--initial-branch=main")
    run_git(path, "fast-import", "--quiet", content="".join(stream(extent, now)))


def run_git(path: Path, *arguments: str, content: str = "") -> None:
    subprocess.run(["git", "-C", str(path), *arguments], input=content.encode(), check=True)


def branch_names(extent: ShapeExtent) -> list[str]:
    """All but the default branch."""
    return [f"release-{number}" for number in range(1, extent.branches)]


def stream(extent: ShapeExtent, now: datetime) -> Iterator[str]:
    """What git's fast-import reads. Branches and tags begin evenly over the default branch."""
    count = extent.commits
    for number in range(count):
        yield commit_text(
            "main", f"Change number {number}", number, time_of(number, count, now), f"mark :{number + 1}\n"
        )
    for ordinal, name in enumerate(branch_names(extent), 1):
        fork = max(1, count * ordinal // extent.branches)
        for own in range(max(LEAST_OWN, count // OWN_SHARE)):
            begin = "" if own else f"from :{fork}\n"
            yield commit_text(name, f"{name}: repair {own}", own, time_of(fork + own, count, now), "", begin)
    for ordinal in range(1, extent.tags + 1):
        yield f"reset refs/tags/{version(ordinal)}\nfrom :{max(1, count * ordinal // (extent.tags + 1))}\n\n"


def commit_text(branch: str, subject: str, number: int, at: datetime, mark: str, begin: str = "") -> str:
    author = AUTHORS[number * 7 % len(AUTHORS)]
    email = f"{author.replace(' ', '.').lower()}@example.org"
    identity = f"{author} <{email}> {int(at.timestamp())} +0000"
    content = f"{branch} {number}\n"
    return (
        f"commit refs/heads/{branch}\n{mark}author {identity}\ncommitter {identity}\n"
        f"data {len(subject)}\n{subject}\n{begin}"
        f"M 100644 inline file.txt\ndata {len(content)}\n{content}\n"
    )
