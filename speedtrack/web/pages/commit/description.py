"""What git says of a commit: its message and the files that it changed."""

from functools import lru_cache

from speedtrack.projects.mirrors import git
from speedtrack.projects.mirrors.directories import has_mirror
from speedtrack.projects.mirrors.git import Description


class Undescribed(Exception):
    """Git cannot describe the commit now: it has no mirror, lacks the commit, or is too slow."""


def described(slug: str, sha: str) -> Description | None:
    try:
        return known_description(slug, sha)
    except Undescribed:
        return None


@lru_cache(maxsize=500)
def known_description(slug: str, sha: str) -> Description:
    """The description of a commit, which is cached since it never changes.

    Raises Undescribed if git cannot describe it; that is not cached.
    """
    description = git.describe(slug, sha) if has_mirror(slug) else None
    if description is None:
        raise Undescribed(sha)
    return description
