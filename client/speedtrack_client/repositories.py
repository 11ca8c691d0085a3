"""The git repository of the current directory: its project, and the commits that names mean there."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REPOSITORY = "SPEEDTRACK_REPOSITORY"
FIRST = ("origin", "upstream")
OWN = ("HEAD", "@")  # names that mean something else, or nothing, in the server's copy


def git(*words: str) -> str:
    """The output of git; empty if it fails or is not installed."""
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def remotes() -> list[str]:
    """The addresses of the remotes, `origin` first."""
    lines = git("config", "--get-regexp", r"^remote\..*\.url$").splitlines()
    found = [
        (name.split(".", 1)[1].removesuffix(".url"), url) for name, _, url in (line.partition(" ") for line in lines)
    ]
    found.sort(key=lambda one: FIRST.index(one[0]) if one[0] in FIRST else len(FIRST))
    return list(dict.fromkeys(normal(url) for _, url in found))


def addresses() -> list[str]:
    """The addresses by which the project is found.

    First those that the environment states, as in a job without a checkout, then the remotes.
    """
    stated = os.environ.get(REPOSITORY, "")
    return list(dict.fromkeys([*([normal(stated)] if stated else []), *remotes()]))


def normal(url: str) -> str:
    """The host and path of a repository, which are the same in its HTTPS and SSH addresses."""
    text = url.strip().rstrip("/")
    if "://" in text:
        scheme, _, rest = text.partition("://")
        authority, _, path = rest.partition("/")
        if scheme == "file":
            return local(f"/{path}")
        host = authority.rpartition("@")[2].partition(":")[0]
    elif ":" in text and "/" not in text.partition(":")[0]:
        authority, _, path = text.partition(":")
        host = authority.rpartition("@")[2]
    else:
        return local(text)
    return f"{host.lower()}/{path.strip('/').removesuffix('.git').lower()}"


def local(path: str) -> str:
    return str(Path(path).resolve()).removesuffix(".git").rstrip("/")


def project_of(remote_urls: Iterable[str], projects: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The project that tracks the first of these remotes that any project tracks."""
    tracked = {normal(one["repository"]): one for one in projects}
    return next((tracked[url] for url in remote_urls if url in tracked), None)


def commit_of(name: str) -> str | None:
    """The full id of the commit that a name means here; None if it means none."""
    return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}") or None


def is_own(name: str) -> bool:
    """Return whether the name, such as HEAD~2, means a commit of this repository whatever the project is."""
    return any(name == own or name.startswith((f"{own}~", f"{own}^", f"{own}@")) for own in OWN)
