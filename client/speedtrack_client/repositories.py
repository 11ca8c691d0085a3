"""The git repository of the current directory: its project, and the commits of its names."""

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

REPOSITORY = "SPEEDTRACK_REPOSITORY"
FIRST = ("origin", "upstream")
OWN = ("HEAD", "@")  # names that mean something else, or nothing, in the server's copy


def git(*arguments: str) -> str:
    """The output of git; empty if it fails or is not installed."""
    return asked_of_git(*arguments)[0]


def asked_of_git(*arguments: str) -> tuple[str, str]:
    """The output of git, and its error: git's English message, on one line."""
    english = {**os.environ, "LC_ALL": "C", "LANGUAGE": "C"}
    try:
        process = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, errors="replace", timeout=60, env=english
        )
    except FileNotFoundError:
        return "", "git is not installed"
    except (OSError, subprocess.TimeoutExpired) as e:
        return "", f"git cannot be run: {e}"
    if process.returncode == 0:
        return process.stdout.strip(), ""
    return "", " ".join(process.stderr.split())[:300] or f"git ended with {process.returncode}"


def patch_against(base: str) -> tuple[bytes, str]:
    """The diff of the working tree against a commit, as the server reads it, and git's error."""
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--submodule=short")
    try:
        process = subprocess.run(
            ["git", "diff", *options, "--src-prefix=a/", "--dst-prefix=b/", base, "--"], capture_output=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return b"", f"git cannot be run: {e}"
    return process.stdout, process.stderr.decode(errors="replace").strip()[:300] if process.returncode else ""


def fork_of(repository: str, branch: str) -> str | None:
    """The merge base of HEAD with a branch of that repository, as it was fetched last; None if there is none here."""
    names = git("remote").splitlines()
    own = [name for name in names if normal(git("remote", "get-url", name)) == normal(repository)]
    tips = [commit_of(f"refs/remotes/{name}/{branch}") for name in own]
    return next((git("merge-base", "HEAD", tip) or None for tip in tips if tip), None)


def why_without_remotes() -> str:
    """Why this directory names no project, as the end of "no project can be found: "."""
    folder, fault = asked_of_git("rev-parse", "--absolute-git-dir")
    if folder:
        return "this git repository has no remote"
    if "not a git repository" in fault:
        return "this is no git repository"
    if "dubious ownership" in fault:
        return (
            f"git refuses this repository, because it belongs to another user: run `git config --global --add "
            f"safe.directory {Path.cwd()}`"
        )
    return fault


def remotes() -> list[str]:
    """The addresses of the remotes, `origin` first."""
    lines = git("config", "--get-regexp", r"^remote\..*\.url$").splitlines()
    named_urls = [
        (name.split(".", 1)[1].removesuffix(".url"), url) for name, _, url in (line.partition(" ") for line in lines)
    ]
    named_urls.sort(key=lambda remote: FIRST.index(remote[0]) if remote[0] in FIRST else len(FIRST))
    return list(dict.fromkeys(normal(url) for _, url in named_urls))


def addresses() -> list[str]:
    """The addresses by which the project is found.

    First the addresses of the environment, as in a job without a checkout, then the remotes.
    """
    stated = os.environ.get(REPOSITORY, "")
    return list(dict.fromkeys([*([normal(stated)] if stated else []), *remotes()]))


def normal(url: str) -> str:
    """The host and path of a repository; its HTTPS and SSH addresses have the same ones."""
    text = url.strip().rstrip("/")
    if "://" in text:
        scheme, _, location = text.partition("://")
        authority, _, path = location.partition("/")
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


def projects_of(remote_urls: Iterable[str], projects: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The projects that track the first of these remotes that any project tracks."""
    tracked: dict[str, list[dict[str, Any]]] = {}
    for project in projects:
        tracked.setdefault(normal(project["repository"]), []).append(project)
    return next((tracked[url] for url in remote_urls if url in tracked), [])


def commit_of(name: str) -> str | None:
    """The full id of the commit with this name here; None if there is none."""
    return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}") or None


def why_no_commit(name: str) -> str:
    """Why this directory has no commit with this name."""
    is_shallow, fault = asked_of_git("rev-parse", "--is-shallow-repository")
    if fault:
        return why_without_remotes() if "fatal" in fault else fault
    if not commit_of("HEAD"):
        return "this repository has no commits"
    if is_shallow == "true":
        return "this clone is shallow, and may lack it: fetch the history (`git fetch --unshallow`, `fetch-depth: 0`)"
    return "this repository has no such commit"


def is_own(name: str) -> bool:
    """Return whether the name, such as HEAD~2, is a commit of this repository, whatever the project is."""
    return any(name == own or name.startswith((f"{own}~", f"{own}^", f"{own}@")) for own in OWN)
