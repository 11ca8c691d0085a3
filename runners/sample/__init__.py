"""A small key-value server, kvd, stored as the recipe of its git history: patches and a table of their effects."""

import json
import os
import re
import subprocess
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

HISTORY = Path(__file__).parent / "history"
TABLE = HISTORY / "history.toml"
BRANCH = "main"
EFFECTS = ("none", "slower", "faster", "does-not-compile", "same-binary")

_MAINTAINER = "kvd maintainers"
_MAINTAINER_EMAIL = "kvd@example.org"
_TABLE_HEAD = "# Written by `python -m runners.sample --export`; only `effect` is edited by hand.\n"
_TIMEOUT_SECONDS = 300


class HistoryError(Exception):
    """The destination cannot hold the history; the message has cause and remedy."""


@dataclass(frozen=True)
class HistoryCommit:
    """One commit of the recipe. `effect`: its effect on the speed of the server, compared with its parent."""

    number: int
    subject: str
    effect: str
    patch: Path
    release: str | None


def commits() -> list[HistoryCommit]:
    """The recipe, oldest first."""
    rows = tomllib.loads(TABLE.read_text())["commit"]
    entries = [
        HistoryCommit(number, row["subject"], row["effect"], HISTORY / row["patch"], row.get("release"))
        for number, row in enumerate(rows, start=1)
    ]
    for entry in entries:
        if entry.effect not in EFFECTS:
            raise HistoryError(f"{TABLE.name}: commit {entry.number} has the unknown effect {entry.effect!r}")
    return entries


def write_history(destination: Path, upto: int | None = None) -> list[str]:
    """Brings the repository at `destination` to the first `upto` commits; returns their SHAs, oldest first.

    The destination may be missing, an empty directory, or a repository with an earlier part of this history, which is
    only ever moved forward. Anything else raises HistoryError and is not changed. A repository that already has more
    commits is not changed either, and the SHAs of the first `upto` are returned.
    """
    entries = _first(upto)
    destination = Path(destination)
    present = present_commits(destination)
    with tempfile.TemporaryDirectory(prefix="kvd-history-") as scratch:
        source = Path(scratch)
        shas = _build(source, entries)
        if present[: len(shas)] == shas:
            return shas
        if present != shas[: len(present)]:
            raise HistoryError(f"{destination} has commits that are not of this history: give another destination")
        _forward(destination, source, is_new=not (destination / ".git").exists())
    return shas


def present_commits(destination: Path) -> list[str]:
    """The SHAs on the destination's branch, oldest first; HistoryError if something in it could be lost."""
    if not destination.exists() or (destination.is_dir() and not any(destination.iterdir())):
        return []
    if not (destination / ".git").exists():
        raise HistoryError(f"{destination} is not empty and not a git repository: give another destination")
    if _git(destination, "symbolic-ref", "HEAD", check=False) != f"refs/heads/{BRANCH}":
        raise HistoryError(f"{destination} is not on the branch {BRANCH}: check it out first")
    if _git(destination, "status", "--porcelain"):
        raise HistoryError(f"{destination} has uncommitted changes or files: move them away first")
    return _shas(destination)


def export_history(repository: Path) -> list[HistoryCommit]:
    """Replaces the patches by the branch `main` of `repository`, and the table with them.

    A commit keeps the effect that the table has for its subject; a new subject gets "none". Releases are
    the tags of the repository.
    """
    repository = Path(repository)
    _refuse_merges(repository)
    effects = {entry.subject: entry.effect for entry in commits()} if TABLE.exists() else {}
    with tempfile.TemporaryDirectory(prefix="kvd-export-") as scratch:
        _git(
            repository,
            "format-patch",
            "--quiet",
            "--root",
            "--no-numbered",
            "--no-signature",
            "--zero-commit",
            "--no-stat",
            "--full-index",
            "--no-renames",
            "-o",
            scratch,
            BRANCH,
        )
        patches = sorted(Path(scratch).iterdir())
        shas = _shas(repository)
        rows = [_row(repository, sha, patch.name, effects) for sha, patch in zip(shas, patches, strict=True)]
        for old in HISTORY.glob("*.patch"):
            old.unlink()
        for patch in patches:
            (HISTORY / patch.name).write_bytes(patch.read_bytes())
    TABLE.write_text(_TABLE_HEAD + "".join(rows))
    return commits()


def _first(upto: int | None) -> list[HistoryCommit]:
    entries = commits()
    if upto is not None and not 1 <= upto <= len(entries):
        raise HistoryError(f"the history has the commits 1 to {len(entries)}, there is no {upto}")
    return entries[:upto]


def _shas(repository: Path) -> list[str]:
    """The commits of the branch, oldest first; none on an unborn branch."""
    return _git(repository, "rev-list", "--reverse", BRANCH, "--", check=False).split()


def _build(repository: Path, entries: list[HistoryCommit]) -> list[str]:
    """Applies the patches to a new repository."""
    _git(repository, "init", "--quiet", f"--initial-branch={BRANCH}")
    for entry in entries:
        _git(repository, "am", "--quiet", "--committer-date-is-author-date", "--no-gpg-sign", str(entry.patch))
        if entry.release:
            date = _git(repository, "log", "-1", "--format=%cI")
            _git(repository, "tag", "-a", entry.release, "-m", f"kvd {entry.release}", date=date)
    return _shas(repository)


def _forward(destination: Path, source: Path, is_new: bool) -> None:
    """Moves the destination to the end of the source, in one fast-forward."""
    if is_new:
        destination.mkdir(parents=True, exist_ok=True)
        _git(destination, "init", "--quiet", f"--initial-branch={BRANCH}")
    _git(destination, "fetch", "--quiet", "--tags", str(source.resolve()), f"refs/heads/{BRANCH}")
    _git(destination, "merge", "--quiet", "--ff-only", "FETCH_HEAD")


def _refuse_merges(repository: Path) -> None:
    if _git(repository, "rev-list", "--merges", BRANCH, "--"):
        raise HistoryError(f"{repository} has merge commits on {BRANCH}: a patch series is a straight line, rebase it")


def _row(repository: Path, sha: str, patch: str, effects: dict[str, str]) -> str:
    subject = _git(repository, "log", "-1", "--format=%s", sha)
    release = _git(repository, "tag", "--points-at", sha).split()
    row = {"patch": patch, "subject": subject, "effect": effects.get(subject, "none")}
    if release:
        row["release"] = release[0]
    return "\n[[commit]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in row.items())


def _git(directory: Path, *arguments: str, check: bool = True, date: str | None = None) -> str:
    """Runs git in the directory without the configuration of the user; returns its output, stripped."""
    command = [
        "git",
        "-c",
        "core.autocrlf=false",
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "commit.gpgSign=false",
        "-c",
        "tag.gpgSign=false",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "gc.auto=0",
        *arguments,
    ]
    process = subprocess.run(
        command,
        cwd=directory,
        env=_environment(date),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_SECONDS,
    )
    if check and process.returncode != 0:
        raise HistoryError(
            f"git {arguments[0]} failed in {directory}: {process.stderr.strip() or process.stdout.strip()}"
        )
    return process.stdout.strip() if process.returncode == 0 else ""


def _environment(date: str | None) -> dict[str, str]:
    foreign = re.compile(r"GIT_|EMAIL$")
    environment = {name: value for name, value in os.environ.items() if not foreign.match(name)}
    environment |= {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_COMMITTER_NAME": _MAINTAINER,
        "GIT_COMMITTER_EMAIL": _MAINTAINER_EMAIL,
        "LC_ALL": "C",
        "TZ": "UTC",
    }
    if date:
        environment["GIT_COMMITTER_DATE"] = date
    return environment
