"""The change of a commit in pieces, and commits that lack some of them.

A piece is a hunk of a text file, as git and the forges show it. Whatever else a commit does to a file is one piece: a
new or deleted file, a binary file, a mode, a symbolic link, a submodule. Renames are a deleted and a new file. Where a
file has hunks and another mode, the mode belongs to none of them: it is never taken back.

A commit without some of its pieces is a child of it in the mirror, which no branch and no tag contains (``patches``):
the same pieces of the same commit have the same id, so they are built once. Hunks of one diff do not overlap, so any of
them can be taken back without the others.
"""

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby
from pathlib import Path

from speedtrack.ground.texts.text import listed
from speedtrack.projects.errors import RepositoryError, UnusablePatch
from speedtrack.projects.mirrors import git, patches
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.mirrors.gitprocess import NO_PROTOCOL, run_git, run_git_raw
from speedtrack.projects.mirrors.patches import SUBMODULE, SYMLINK
from speedtrack.projects.mirrors.transports import Transport

REFS = "refs/speedtrack/hunks/"
AUTHOR = "SpeedTrack"
MOST_LINES = 500_000  # of a diff
NAMED = 3  # pieces in the subject of a commit
OPTIONS = ("--no-renames", "--full-index", "--unified=3", "--no-color", "--no-ext-diff", "--no-textconv")
SECTION = re.compile(rb"^(?=diff --git )", re.M)
HUNK = re.compile(rb"^(?=@@ )", re.M)
RANGE = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@ ?(.*)")
MODE_LINES = re.compile(rb"^(?:old|new) mode \d+\n", re.M)
REGULAR = ("100644", "100755")
NO_FILE = "000000"  # the mode in a tree that lacks the file
ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")


class Kind(StrEnum):
    """What a piece is."""

    HUNK = "hunk"
    ADDED = "new file"
    DELETED = "deleted file"
    BINARY = "binary file"
    MODE = "file mode"
    LINK = "symbolic link"
    SUBMODULE = "submodule"


@dataclass(frozen=True)
class TreeEntry:
    """A file of a tree, as git lists it."""

    mode: str
    sha: str


@dataclass(frozen=True)
class Hunk:
    """One piece of a commit's change.

    ``number`` of ``count``: which piece of its file it is, from 1. ``before_line`` and ``line``: where a hunk begins in
    the parent's file and in the commit's, from 1, its three lines of context included; ``before_lines`` and ``lines``:
    how many it has there. All four are 0 for what is no hunk. ``header``: the line of code that git names beside it,
    usually the function's. ``text``: its lines as git shows them, without the line ``@@``; of a new or deleted text
    file, those of the whole file; else empty. Undecodable bytes and zero bytes are replaced.
    """

    path: str
    kind: Kind = Kind.HUNK
    number: int = 1
    count: int = 1
    before_line: int = 0
    before_lines: int = 0
    line: int = 0
    lines: int = 0
    header: str = ""
    text: str = ""
    before: TreeEntry = field(default=TreeEntry(NO_FILE, ""), repr=False)  #: the file as it was
    head: bytes = field(default=b"", repr=False)  #: of a hunk: what git's diff says of its file before the first one
    patch: bytes = field(default=b"", repr=False)  #: of a hunk: itself

    @property
    def name(self) -> str:
        """Such as ``the second hunk of zmalloc.c``."""
        return name_of(self.path, self.kind, self.number, self.count)


def name_of(path: str, kind: str, number: int, count: int) -> str:
    """A piece as a part of a sentence."""
    if kind == Kind.MODE:
        return f"the mode of {path}"
    if kind != Kind.HUNK:
        return f"the {kind} {path}"
    if count == 1:
        return f"the only hunk of {path}"
    return f"the {ORDINALS[number - 1]} hunk of {path}" if number <= len(ORDINALS) else f"hunk {number} of {path}"


def hunks_between(slug: str, before: str, commit: str, timeout_s: float | None = None) -> list[Hunk]:
    """The pieces of the change from one commit to another, by path and line.

    Of a merge, name its first parent as ``before``. ``timeout_s``: of each of three calls of git. Raises
    UnusablePatch for a diff of more than MOST_LINES, or another RepositoryError.
    """
    ends, mirror = ("--end-of-options", before, commit), mirror_of(slug)
    shortstat = run_git("diff-tree", "-r", "--no-renames", "--shortstat", *ends, directory=mirror, timeout_s=timeout_s)
    lines = sum(map(int, re.findall(r"(\d+) (?:insertion|deletion)", shortstat)))
    if lines > MOST_LINES:
        raise UnusablePatch(f"{commit[:10]} changes {lines:,} lines: a change of more than {MOST_LINES:,} is not split")
    raw = run_git("diff-tree", "-r", "-z", "--raw", "--no-renames", *ends, directory=mirror, timeout_s=timeout_s)
    patch = run_git_raw("diff-tree", "-r", "--patch", *OPTIONS, *ends, directory=mirror, timeout_s=timeout_s)
    sections = iter(SECTION.split(patch)[1:])
    fields = raw.split("\0")
    pieces: list[Hunk] = []
    for facts, path in zip(fields[::2], fields[1::2], strict=False):
        pieces += pieces_of_file(path, facts.removeprefix(":").split(), sections)
    return pieces


def pieces_of_file(path: str, facts: Sequence[str], sections: Iterator[bytes]) -> list[Hunk]:
    """The pieces of one file.

    ``facts``: both modes, both ids and the status, as git lists them. ``sections``: of the diff; those of this file are
    taken from it, two if the file became something else, such as a link.
    """
    old_mode, new_mode, old_sha, _, status = facts
    section = next(sections, b"")
    if status == "T":
        next(sections, b"")
    if not section:
        raise RepositoryError(f"git's diff lacks {path}, which git lists as changed")
    head, *bodies = HUNK.split(section)
    before = TreeEntry(old_mode, old_sha)
    if old_mode in REGULAR and new_mode in REGULAR and bodies:
        head = MODE_LINES.sub(b"", head)
        return [hunk_of(path, number, len(bodies), head, body) for number, body in enumerate(bodies, start=1)]
    kind = kind_of_change(old_mode, new_mode, is_mode_only=b"\nindex " not in section)
    has_text = kind in (Kind.ADDED, Kind.DELETED)
    return [Hunk(path, kind, text="".join(map(text_of_body, bodies)) if has_text else "", before=before)]


def kind_of_change(old_mode: str, new_mode: str, is_mode_only: bool) -> Kind:
    modes = (old_mode, new_mode)
    if SUBMODULE in modes:
        return Kind.SUBMODULE
    if SYMLINK in modes:
        return Kind.LINK
    if NO_FILE in modes:
        return Kind.ADDED if old_mode == NO_FILE else Kind.DELETED
    return Kind.MODE if is_mode_only else Kind.BINARY


def hunk_of(path: str, number: int, count: int, head: bytes, patch: bytes) -> Hunk:
    match = RANGE.match(decoded(patch.partition(b"\n")[0]))
    if match is None:
        raise RepositoryError(f"git's diff of {path} has a hunk without line numbers")
    before_line, before_lines, line, lines = (int(number) if number else 1 for number in match.groups()[:4])
    ranges = (before_line, before_lines, line, lines)
    return Hunk(path, Kind.HUNK, number, count, *ranges, match[5].strip(), text_of_body(patch), head=head, patch=patch)


def text_of_body(patch: bytes) -> str:
    """A hunk without its first line."""
    return decoded(patch.partition(b"\n")[2])


def decoded(line: bytes) -> str:
    """A text that PostgreSQL can store."""
    return line.decode("utf-8", "replace").replace("\0", git.NOT_UTF8)


def commit_without(slug: str, commit: str, pieces: Sequence[Hunk]) -> str:
    """Make a commit of the mirror that takes these pieces of ``commit`` back. Return its id.

    ``keep`` protects it. Raises RepositoryError if git cannot take them back.
    """
    with tempfile.TemporaryDirectory(prefix="speedtrack-hunks-") as folder:
        tree = tree_without(slug, commit, pieces, Path(folder) / "index")
    names = listed([piece.name for piece in pieces], NAMED)
    return patches.commit_tree(slug, tree, commit, f"{commit[:10]} without {names}", AUTHOR)


def tree_without(slug: str, commit: str, pieces: Sequence[Hunk], index: Path) -> str:
    """The tree of a commit without these pieces, made in a temporary index."""
    mirror, with_index = mirror_of(slug), Transport(NO_PROTOCOL, environment={"GIT_INDEX_FILE": str(index)})
    run_git("read-tree", commit, directory=mirror, transport=with_index)
    if patch := patch_of([piece for piece in pieces if piece.kind == Kind.HUNK]):
        options = ("--cached", "--reverse", "--whitespace=nowarn", "-")
        run_git_raw("apply", *options, directory=mirror, stdin=patch, transport=with_index)
    entries = "".join(entry_of(piece) for piece in pieces if piece.kind != Kind.HUNK)
    run_git("update-index", "-z", "--index-info", directory=mirror, stdin=entries, transport=with_index)
    return run_git("write-tree", directory=mirror, transport=with_index).strip()


def patch_of(hunks: Sequence[Hunk]) -> bytes:
    by_file = groupby(sorted(hunks, key=lambda hunk: (hunk.path, hunk.number)), key=lambda hunk: hunk.head)
    return b"".join(head + b"".join(hunk.patch for hunk in of_file) for head, of_file in by_file)


def entry_of(piece: Hunk) -> str:
    """The line of `git update-index` that makes a file what it was; the mode 0 deletes it."""
    return f"{piece.before.mode.lstrip('0') or '0'} {piece.before.sha}\t{piece.path}\0"


def keep(slug: str, sha: str) -> None:
    """Keep the commit in the mirror."""
    patches.keep(slug, sha, REFS)


def kept(slug: str) -> set[str]:
    """The ids of the commits that are kept; none without a mirror."""
    return patches.kept(slug, REFS)


def forget(slug: str, shas: set[str]) -> None:
    """Let git delete these commits."""
    patches.forget(slug, shas, REFS)
