"""Decide which tags are releases, and which of these represent a history."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

#: A word and its separator, then two to four numbers: v1.6.21, release-7.2.4, 8.0. Candidates and betas have more.
RELEASE = re.compile(r"(?:[A-Za-z]+[-_./]?)?(\d+(?:\.\d+){1,3})", re.ASCII)

Version = tuple[int, ...]


def version_of(tag: str) -> Version | None:
    """The numbers in a release's tag; None for other tags, such as those of release candidates."""
    match = RELEASE.fullmatch(tag)
    return tuple(int(number) for number in match[1].split(".")) if match else None


def newest_patches(tags: Iterable[str], pattern: str = "*") -> list[str]:
    """The newest patch of each minor version among the releases that match a shell pattern, oldest version first."""
    newest: dict[Version, tuple[Version, str]] = {}
    for tag in tags:
        version = version_of(tag) if fnmatchcase(tag, pattern) else None
        if version and (version, tag) > newest.get(version[:2], ((), "")):
            newest[version[:2]] = (version, tag)
    return [tag for _, tag in sorted(newest.values())]
