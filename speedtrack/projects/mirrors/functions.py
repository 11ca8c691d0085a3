"""The functions that the changed lines of a commit are in, by their names.

The header of a hunk names the last function that begins above it, which may have ended there. So git is asked for whole
functions (`--function-context`): the line that names a changed one is then in its output.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.mirrors.gitprocess import NO_PROTOCOL, run_git
from speedtrack.projects.mirrors.hunks import OPTIONS, RANGE, Hunk, Kind
from speedtrack.projects.mirrors.transports import Transport

#: What begins a function for git: a line that is not indented and no label, as in C; or `fn`, in Rust.
RULES = "\n".join(
    (r"!^[A-Za-z_][A-Za-z_0-9]*:[[:space:]]*($|/[/*])", r"^[A-Za-z_].*$", r"^[[:space:]]+([a-z() ]+ )?fn .*$")
)
BEGINNING = re.compile(r"(?![A-Za-z_]\w*:\s*(?:$|/[/*]))[A-Za-z_]|\s+(?:[a-z() ]+ )?fn ")
SECTION, HUNK = re.compile(r"^(?=diff --git )", re.M), re.compile(r"^(?=@@ )", re.M)
NAME = re.compile(r"([A-Za-z_]\w*)\s*(?:<[^()]*>\s*)?\(")

Names = frozenset[str]
NOWHERE: Names = frozenset()


@dataclass
class FunctionReader:
    """Reads a file line by line, and knows the names of the function that the newest one belongs to."""

    names: Names = NOWHERE
    has_body: bool = False

    def read(self, line: str) -> Names:
        """The names that this line's function may have: each name before a parenthesis where it begins."""
        if BEGINNING.match(line):
            self.names, self.has_body = frozenset(NAME.findall(line)), False
        names = self.names
        self.has_body = self.has_body or "{" in line
        if line.startswith("}") or (not self.has_body and line.rstrip().endswith(";")):
            self.names = NOWHERE
        return names if self.has_body or self.names else NOWHERE


@dataclass
class FileFunctions:
    """By number of a changed line: the names of its function, in the file before the commit and in the file after."""

    before: dict[int, Names] = field(default_factory=dict)
    after: dict[int, Names] = field(default_factory=dict)

    def of(self, hunk: Hunk) -> Names:
        """The names of the functions that a hunk changes; those of the whole file for a new or a deleted one."""
        if hunk.kind in (Kind.ADDED, Kind.DELETED):
            return NOWHERE.union(*self.before.values(), *self.after.values())
        old = (self.before.get(hunk.before_line + index, NOWHERE) for index in range(hunk.before_lines))
        new = (self.after.get(hunk.line + index, NOWHERE) for index in range(hunk.lines))
        return NOWHERE.union(*old, *new)


def functions_between(
    slug: str, before: str, commit: str, hunks: Iterable[Hunk], timeout_s: float | None = None
) -> dict[str, FileFunctions]:
    """By path: the functions in which two commits differ. ``hunks``: all of them. Raises RepositoryError."""
    text = run_git(
        *("diff-tree", "-r", "--patch", *OPTIONS, "--function-context", "--end-of-options", before, commit),
        directory=mirror_of(slug),
        timeout_s=timeout_s,
        transport=Transport(NO_PROTOCOL, config={"diff.default.xfuncname": RULES}),
    )
    # A file that became something else has two sections with the same first line.
    sections = groupby(SECTION.split(text)[1:], key=lambda section: section.partition("\n")[0])
    paths = dict.fromkeys(hunk.path for hunk in hunks)
    return {path: functions_of_file([*own]) for path, (_, own) in zip(paths, sections, strict=False)}


def functions_of_file(sections: Sequence[str]) -> FileFunctions:
    """``sections``: of git's diff, with whole functions."""
    file = FileFunctions()
    for section in sections:
        for body in HUNK.split(section)[1:]:
            add_hunk(file, body)
    return file


def add_hunk(file: FileFunctions, body: str) -> None:
    head, *lines = body.split("\n")
    match = RANGE.match(head)
    if match is None:
        return
    old_number, new_number = int(match[1]), int(match[3])
    old, new = FunctionReader(), FunctionReader()
    for line in lines:
        sign, code = line[:1], line[1:]
        if sign in ("-", " "):
            names = old.read(code)
            if sign == "-":
                file.before[old_number] = names
            old_number += 1
        if sign in ("+", " "):
            names = new.read(code)
            if sign == "+":
                file.after[new_number] = names
            new_number += 1
