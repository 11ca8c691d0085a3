"""A patch that a person tries becomes a commit of the mirror, which no branch and no tag contains.

Its parent is the commit that the patch was made from, and its dates are those of its parent: the same patch of the same
person has the same commit id, so it is built once. A reference of its own keeps the commit until ``forget`` deletes it.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

from speedtrack.projects.errors import GitFailed, UnusablePatch
from speedtrack.projects.mirrors import git
from speedtrack.projects.mirrors.directories import has_mirror, mirror_of
from speedtrack.projects.mirrors.gitprocess import NO_PROTOCOL, run_git
from speedtrack.projects.mirrors.transports import Transport

REFS = "refs/speedtrack/tries/"
MOST_BYTES = 500_000
SHOWN_CHARACTERS = 1_000_000  # of a patch on a page: all of it, as long as copies of files are refused
COPY = re.compile(r"^copy from (.+)$", re.M)
BINARY = re.compile(r"^(?:GIT binary patch|Binary files (?P<files>.*) differ)$", re.M)
HEADERS = re.compile(
    r"^(?:diff|index|---|\+\+\+|@@|(?:new|deleted|old) (?:file )?mode|(?:rename|copy|similarity) ).*\r$", re.M
)
SYMLINK, SUBMODULE = "120000", "160000"
KINDS = {SYMLINK: "a symbolic link", SUBMODULE: "a submodule"}
REFERRED = "push a branch and try that instead"
#: By git's complaint: the sentence for people. The first match counts.
COMPLAINTS = (
    (
        r"error: patch failed: (.+):(\d+)",
        "the patch does not apply to {base}: the hunk of {0} at line {1} expects other lines. Make it anew from that "
        "commit, or name the one that it was made from",
    ),
    (
        r"error: (.+): does not exist in index",
        "the patch does not apply to {base}, which has no {0}. Make it with `git diff`, with its usual prefixes a/ "
        "and b/, or name the commit that it was made from",
    ),
    (
        r"error: (.+): already exists in index",
        "the patch does not apply to {base}, which has {0} already: make it anew",
    ),
    (
        r"error: corrupt patch at line (\d+)",
        "line {0} of the patch is damaged, as if a part was left out: paste the whole output of `git diff`",
    ),
    (
        r"error: invalid path '(.+)'",
        "the patch changes {0}, which is outside of the repository's files: leave that out",
    ),
    (
        r"error: affected file '(.+)' is beyond a symbolic link",
        "the patch changes {0}, which lies behind a symbolic link: change the file itself",
    ),
    (r"error: No valid patches in input", "the patch is not a diff: paste the output of `git diff`"),
    (r"error: (.+)", "git cannot apply the patch to {base}: {0}. Paste the whole output of `git diff`"),
)


def commit_patch(slug: str, base: str, text: str, author: str) -> str:
    """Make a commit of a patch to the commit ``base`` of the mirror. Return its id.

    ``text``: a diff as git makes it, or mails of `git format-patch`, which become one commit. ``keep`` protects it.
    Raises UnusablePatch, whose message says what is wrong with the patch, or another RepositoryError.
    """
    check_text(text)
    with tempfile.TemporaryDirectory(prefix="speedtrack-patch-") as folder:
        tree = tree_with(slug, base, text, Path(folder) / "index")
    paths = changed_paths(slug, base, tree)
    further = f" and {len(paths) - 1} more file{'s' * (len(paths) > 2)}" if len(paths) > 1 else ""
    return commit_tree(slug, tree, base, f"Try a patch of {paths[0]}{further}", author)


def commit_tree(slug: str, tree: str, base: str, subject: str, author: str) -> str:
    """Make a commit of a tree whose parent is ``base`` and whose dates are those of that. Return its id."""
    at = f"@{next(git.revisions(slug, [base])).committed_at.timestamp():.0f} +0000"
    authorship = {"NAME": author, "EMAIL": "", "DATE": at}
    identity = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in authorship.items()}
    return run_git(
        *("commit-tree", tree, "-p", base, "-m", subject),
        directory=mirror_of(slug),
        transport=Transport(NO_PROTOCOL, environment=identity),
    ).strip()


def check_text(text: str) -> None:
    """Raise UnusablePatch for a text that is no patch, or not one of text files."""
    if not text.strip():
        raise UnusablePatch(
            "the patch is empty: paste the output of `git diff`, which shows nothing of files that are not added"
        )
    if len(text.encode(errors="replace")) > MOST_BYTES:
        raise UnusablePatch(f"the patch is longer than {MOST_BYTES // 1000} kB: {REFERRED}")
    if "\0" in text:
        raise UnusablePatch(
            "the patch is not UTF-8, but perhaps UTF-16: let git write the file, `git diff --output=FILE`"
        )
    if copied := COPY.search(text):
        raise UnusablePatch(f"the patch copies {copied[1].strip()}: make it with `git diff --no-renames`")
    if binary := BINARY.search(text):
        raise UnusablePatch(f"the patch changes a binary file ({binary['files'] or 'a binary patch'}): {REFERRED}")


def tree_with(slug: str, base: str, text: str, index: Path) -> str:
    """The tree of a commit with a patch, made in a temporary index. Raises UnusablePatch."""
    with_index = Transport(NO_PROTOCOL, environment={"GIT_INDEX_FILE": str(index)})
    failures = []
    for form in forms_of(text):
        run_git("read-tree", base, directory=mirror_of(slug), transport=with_index)
        try:
            options = ("--cached", "--whitespace=nowarn", "-")
            run_git("apply", *options, directory=mirror_of(slug), stdin=form, transport=with_index)
        except GitFailed as e:
            failures.append(e)
        else:
            return run_git("write-tree", directory=mirror_of(slug), transport=with_index).strip()
    raise UnusablePatch(complaint_of(failures[0], base)) from failures[0]


def forms_of(text: str) -> Iterator[str]:
    """The patch with its own ends of lines and with those of Unix, the likelier first.

    A browser sends CRLF at the end of each line of a form, whatever the files have.
    """
    text = text.removeprefix("\ufeff") + "\n" * (not text.endswith("\n"))
    of_unix = text.replace("\r\n", "\n")
    own = HEADERS.sub(lambda header: header[0][:-1], text)
    all_alike = text.count("\r\n") == text.count("\n")
    yield from dict.fromkeys((of_unix, own) if all_alike else (own, of_unix))


def complaint_of(failure: GitFailed, base: str) -> str:
    """What git complained of when it applied a patch, with the remedy."""
    for pattern, sentence in COMPLAINTS:
        if match := re.search(pattern, failure.stderr):
            return sentence.format(*match.groups(), base=base[:10])
    return f"git cannot apply the patch: {failure}"


def changed_paths(slug: str, base: str, tree: str) -> list[str]:
    """The paths that a tree changes against a commit. Raises UnusablePatch for links, submodules, and no change."""
    listing = run_git("diff-tree", "-r", "--raw", "-z", "--no-renames", base, tree, directory=mirror_of(slug))
    fields = listing.split("\0")
    changes = list(zip(fields[::2], fields[1::2], strict=False))
    if not changes:
        raise UnusablePatch(f"the patch changes nothing of {base[:10]}: there is nothing to measure")
    for facts, path in changes:
        before, after, *_ = facts.removeprefix(":").split()
        kind = KINDS.get(after) or KINDS.get(before) or (KINDS[SUBMODULE] if path == ".gitmodules" else None)
        if kind:
            raise UnusablePatch(f"the patch changes {kind}, {path}: {REFERRED}")
    return [path for _, path in changes]


def keep(slug: str, sha: str, refs: str = REFS) -> None:
    """Keep the commit of a patch in the mirror, by a reference in the folder ``refs``."""
    run_git("update-ref", f"{refs}{sha}", sha, directory=mirror_of(slug))


def kept(slug: str, refs: str = REFS) -> set[str]:
    """The ids of the commits that are kept there; none without a mirror."""
    if not has_mirror(slug):
        return set()
    return set(run_git("for-each-ref", "--format=%(objectname)", refs, directory=mirror_of(slug)).split())


def forget(slug: str, shas: set[str], refs: str = REFS) -> None:
    """Let git delete these commits."""
    git.delete_refs(slug, sorted(f"{refs}{sha}" for sha in shas))


def text_of(slug: str, base: str, head: str) -> str:
    """The patch between two commits, at most its first SHOWN_CHARACTERS. Raises RepositoryError."""
    options = ("--no-color", "--no-ext-diff", "--no-textconv", "--end-of-options")
    patch = run_git("diff", *options, base, head, directory=mirror_of(slug), timeout_s=git.DESCRIBE_TIMEOUT_S)
    return patch if len(patch) <= SHOWN_CHARACTERS else f"{patch[:SHOWN_CHARACTERS]}\n… and more, which is not shown"
