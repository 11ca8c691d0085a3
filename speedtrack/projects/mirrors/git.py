"""The bare mirror of each project: queries of it, and of the references of remotes. ``gitprocess`` runs git."""

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from typing import NamedTuple

from django.conf import settings

from speedtrack.projects.errors import GitFailed, NoSuchCommit, RepositoryError, RepositoryUnreachable
from speedtrack.projects.mirrors.directories import mirror_of
from speedtrack.projects.mirrors.gitprocess import NOWHERE, archive_blocks, run_git
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.projects.mirrors.transports import transport_to

log = logging.getLogger(__name__)

SHA = re.compile(r"^[0-9a-f]{40}([0-9a-f]{24})?$")
FIELDS = ["%H", "%P", "%an", "%ae", "%at", "%ct", "%s", "%b"]
REVERTS = re.compile(r"\b[Tt]his reverts commits? ([0-9a-f]{7,64})\b")  # as `git revert` words it
REF_FORMAT = "--format=%(objectname)%09%(refname)"
MOST_REVERTS = 50  # of one message
LONGEST_TAG = 250  # as Tag.name
LATEST_S = 253402300799  # the end of the year 9999, the latest datetime of Python
BEGINNING = re.compile(r"[0-9a-f]{4,39}")  # of a commit id
MOST_MEANINGS = 10  # of a name, in a message
NOT_UTF8 = "\ufffd"  # replaces undecodable bytes
LIST_TIMEOUT_S = 60
DESCRIBE_TIMEOUT_S = 1.5  # a page waits for it
NOT_FOUND = 1  # exit code of a quiet `rev-parse --verify`; other failures of git give 128 or a signal
# By git's message: the text for people about a remote that cannot be read; the first match counts.
ANSWERS = (
    (r"error: 30[0-9]", "it answers with a redirect, which is not followed: enter the address that it leads to"),
    (r"Out of memory", "it sends more than fits into the memory that git may use"),
    (r"too slow|timed out", "it sends too slowly. Check the address and the network"),
    (
        "",
        "it does not answer as a git repository does. Check the address and the network, and the credential if it is "
        "private",
    ),
)


@dataclass(frozen=True)
class Revision:
    """Git's description of one commit."""

    sha: str
    parents: list[str]
    author_name: str
    author_email: str
    authored_at: datetime
    committed_at: datetime
    subject: str
    reverts: list[str]  #: ids, perhaps abbreviated, of the commits that it reverts according to its message


class ChangedFile(NamedTuple):
    """``added`` and ``removed``: lines; None for a binary file."""

    path: str
    added: int | None
    removed: int | None


@dataclass(frozen=True)
class Description:
    """The facts about a commit that only the repository has."""

    message: str
    files: list[ChangedFile]


def remote_refs(remote: Remote, timeout_s: float | None = None) -> dict[str, str]:
    """Reference name -> object id at the remote now. Raises RepositoryError."""
    return parse_refs(ask(remote, "--heads", "--tags", timeout_s=timeout_s))


def ask(remote: Remote, *options: str, patterns: Sequence[str] = (), timeout_s: float | None = None) -> str:
    """The output of ``git ls-remote``. Raises RepositoryError."""
    arguments, limit_s = ["ls-remote", *options, "--", remote.url, *patterns], timeout_s or list_timeout_s()
    with transport_to(remote) as transport:
        try:
            return run_git(*arguments, timeout_s=limit_s, transport=transport)
        except GitFailed as e:
            raise unreadable(remote, e) from e
        except RepositoryUnreachable as e:
            raise RepositoryUnreachable(f"cannot read {remote.url}: {e}. Check the address and the network") from e


def unreadable(remote: Remote, error: GitFailed) -> RepositoryUnreachable:
    """Return the error for people when git cannot read a remote.

    For a remote on the network the text is always the same, so it does not reveal whether something answers there.
    git's own message is logged.
    """
    if remote.is_local:
        return RepositoryUnreachable(f"cannot read {remote.url}: {error}. Check the address and the network")
    log.warning("cannot read %s: %s", remote.url, error.stderr)
    sentence = next(sentence for pattern, sentence in ANSWERS if re.search(pattern, error.stderr))
    return RepositoryUnreachable(f"cannot read {remote.url}: {sentence}; the server's log has the details")


def list_timeout_s() -> float:
    """The time limit of a list of references, which is short even for large repositories."""
    return min(LIST_TIMEOUT_S, settings.GIT_TIMEOUT_S)


def parse_refs(listing: str) -> dict[str, str]:
    """Lines of object id, tab and reference name as name -> id. Names that are not UTF-8 are left out."""
    pairs = (line.split("\t") for line in listing.split("\n") if line and NOT_UTF8 not in line)
    return {name: sha for sha, name in pairs}


def remote_default_branch(remote: Remote) -> str | None:
    """The branch that the remote's HEAD points to; None if the remote does not report it. Raises RepositoryError."""
    listing = ask(remote, "--symref", patterns=["HEAD"])
    match = re.search(r"^ref: refs/heads/([^\t\n]+)\tHEAD", listing, re.M)
    return match[1] if match else None


def resolve_revision(slug: str, name: str) -> str:
    """The commit id of a name. Raises NoSuchCommit, or another RepositoryError if git failed or it has two meanings.

    git itself would prefer a branch or tag whose name is the digits of a commit id.
    """
    none = NoSuchCommit(
        f"{slug} has no commit, branch or tag {name!r}: check the spelling, and give the full id of a commit that is "
        "on no tracked branch"
    )
    try:
        sha = run_git(
            "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", directory=mirror_of(slug)
        ).strip()
    except GitFailed as e:
        if e.returncode == NOT_FOUND and not e.stderr:
            raise none from e
        check_unambiguous(slug, name)
        raise
    if not SHA.fullmatch(sha):  # "^main" excludes commits, and names none
        raise none
    check_unambiguous(slug, name)
    return sha


def check_unambiguous(slug: str, name: str) -> None:
    """Raise RepositoryError for the first digits of several commit ids, or if a branch or tag has the same name."""
    begin = re.split(r"[~^@:]", name, maxsplit=1)[0].lower()
    if not BEGINNING.fullmatch(begin):
        return
    meanings = commits_among(slug, run_git("rev-parse", f"--disambiguate={begin}", directory=mirror_of(slug)).split())
    refs = [ref for ref in (f"refs/tags/{begin}", f"refs/heads/{begin}") if ref in local_refs(slug)]
    if meanings and len(meanings) + len(refs) > 1:
        listing = ", ".join([*sorted(meanings), *refs][:MOST_MEANINGS])
        raise RepositoryError(f"{begin!r} is the name of several things in {slug}: give all of one: {listing}")


def first_parents(slug: str, head: str) -> list[str]:
    """The ids from the root to ``head`` along first parents, oldest first."""
    return run_git(
        "rev-list", "--first-parent", "--reverse", "--end-of-options", head, directory=mirror_of(slug)
    ).split()


def new_first_parents(slug: str, heads: Iterable[str], former: Iterable[str]) -> dict[str, str]:
    """The commits that heads lead to along first parents and no former head contains: id -> first parent.

    The first parent of a root is empty. Former heads that the mirror lacks exclude nothing.
    """
    lines = "".join([*(f"{sha}\n" for sha in heads), *(f"^{sha}\n" for sha in former)])
    if not lines:
        return {}
    options = ("--first-parent", "--parents", "--ignore-missing", "--stdin")
    listing = run_git("rev-list", *options, directory=mirror_of(slug), stdin=lines)
    ids = (line.split(" ") for line in listing.splitlines())
    return {sha: parents[0] if parents else "" for sha, *parents in ids}


def commits_in_range(slug: str, expression: str, find: Callable[[str], str] | None = None) -> list[str]:
    """The first-parent commits of ``A..B``, oldest first, or the one commit of a name.

    ``find`` gives the commit id of a name (default: ``resolve_revision`` in the mirror).
    """
    find = find or partial(resolve_revision, slug)
    if ".." not in expression:
        return [find(expression)]
    begin, _, end = expression.partition("..")
    return run_git(
        "rev-list",
        "--first-parent",
        "--reverse",
        "--end-of-options",
        find(end.lstrip(".")),
        f"^{find(begin)}",
        directory=mirror_of(slug),
    ).split()


def revisions(slug: str, shas: list[str]) -> Iterator[Revision]:
    """The commits of these ids, in this order. git is called in blocks, so that a long history needs little memory."""
    options = ("--no-walk=unsorted", "-z", f"--format={'%x00'.join(FIELDS)}", "--stdin")
    for at in range(0, len(shas), 5000):
        lines = "".join(f"{valid_sha(sha)}\n" for sha in shas[at : at + 5000])
        text = run_git("log", *options, directory=mirror_of(slug), stdin=lines)
        # NUL is the only character that no field can contain.
        values = text.split("\0")
        for first in range(0, len(values) - 1, len(FIELDS)):
            yield parse_revision(values[first : first + len(FIELDS)])


def parse_revision(values: list[str]) -> Revision:
    sha, parents, name, email, authored, committed, subject, body = values
    return Revision(
        sha=sha,
        parents=parents.split(),
        author_name=name[:200],
        author_email=email[:254],
        authored_at=datetime_of(authored),
        committed_at=datetime_of(committed),
        subject=subject.strip()[:500],
        reverts=list(dict.fromkeys(REVERTS.findall(body)))[:MOST_REVERTS],
    )


def describe(slug: str, sha: str) -> Description | None:
    """A commit's message and files against its first parent; None if git cannot tell within DESCRIBE_TIMEOUT_S."""
    options = ("--format=%B%x00", "--numstat", "-z", "--no-renames", "--diff-merges=first-parent")
    try:
        text = run_git(
            "show", *options, "--end-of-options", sha, directory=mirror_of(slug), timeout_s=DESCRIBE_TIMEOUT_S
        )
    except RepositoryError:
        return None
    message, _, numstat = text.partition("\0")
    lines = (line.lstrip("\n").split("\t", 2) for line in numstat.split("\0"))
    files = [ChangedFile(line[2], *map(lines_of, line[:2])) for line in lines if len(line) == 3]
    return Description(message.strip(), files)


def changed_paths(slug: str, shas: list[str]) -> dict[str, list[str]]:
    """By commit id: the paths that it changes against its first parent. Calls git in blocks, as ``revisions``."""
    options = (
        "--no-walk=unsorted",
        "-z",
        "--format=%x00%H%x00",
        "--name-only",
        "--no-renames",
        "--diff-merges=first-parent",
    )
    paths_by_sha: dict[str, list[str]] = {}
    for at in range(0, len(shas), 1000):
        text = run_git("log", *options, "--end-of-options", *shas[at : at + 1000], directory=mirror_of(slug))
        pieces = iter(text.split("\0"))
        next(pieces)  # before the first commit there is nothing
        while sha := next(pieces, ""):
            next(pieces)  # the end of the format
            paths = list(takewhile(bool, pieces))  # no path is empty: an empty string begins the next commit
            paths_by_sha[sha] = [paths[0].removeprefix("\n"), *paths[1:]] if paths else []
    return paths_by_sha


def merge_base(slug: str, sha: str, other_sha: str) -> str:
    """The best common ancestor of two commits. Raises NoSuchCommit if they have none."""
    try:
        return run_git("merge-base", "--end-of-options", sha, other_sha, directory=mirror_of(slug)).split()[0]
    except GitFailed as e:
        if e.returncode == NOT_FOUND and not e.stderr:
            raise NoSuchCommit(f"{sha[:10]} and {other_sha[:10]} have no common history") from e
        raise


def lines_of(number: str) -> int | None:
    return int(number) if number.isdigit() else None


def datetime_of(seconds: str) -> datetime:
    """The time from git's seconds since 1970.

    If the commit has none, git prints the format itself, and this is 1970.
    """
    return datetime.fromtimestamp(min(int(seconds), LATEST_S) if seconds.isdigit() else 0, UTC)


def local_refs(slug: str) -> dict[str, str]:
    """Reference name -> object id of the mirror's branches and tags, as ``remote_refs`` returns it."""
    return parse_refs(run_git("for-each-ref", REF_FORMAT, "refs/heads", "refs/tags", directory=mirror_of(slug)))


def delete_refs(slug: str, names: Iterable[str]) -> None:
    """Delete these references from the mirror. Their objects stay."""
    orders = "".join(f"delete {name}\0\0" for name in names)
    if orders:
        run_git("update-ref", "--no-deref", "-z", "--stdin", directory=mirror_of(slug), stdin=orders)


def commits_among(slug: str, shas: Iterable[str]) -> set[str]:
    """The object ids among these that are commits in the mirror."""
    ids = sorted(set(shas))
    lines = "".join(f"{sha}\n" for sha in ids)
    kinds = run_git("cat-file", "--batch-check=%(objecttype)", directory=mirror_of(slug), stdin=lines).split("\n")
    return {sha for sha, kind in zip(ids, kinds, strict=False) if kind == "commit"}


def unreachable(slug: str, shas: Iterable[str]) -> set[str]:
    """The commits among these that no branch and no tag of the mirror contains, or that the mirror lacks."""
    ids = set(shas)
    present = commits_among(slug, ids)
    lines = "".join(f"{sha}\n" for sha in sorted(present))
    listing = run_git("rev-list", "--stdin", "--not", "--branches", "--tags", directory=mirror_of(slug), stdin=lines)
    return ids & {*listing.split(), *(ids - present)}


def have_common_commit(slug: str, sha: str, other_sha: str) -> bool:
    """Return whether the histories of these two commits meet."""
    try:
        return bool(run_git("merge-base", "--end-of-options", sha, other_sha, directory=mirror_of(slug)))
    except GitFailed as e:
        if e.returncode == NOT_FOUND and not e.stderr:
            return False
        raise


def tags_by_name(slug: str) -> dict[str, str]:
    """Tag name -> id of the tagged commit. Tags of other objects, and names longer than LONGEST_TAG, are left out."""
    columns = ("refname:strip=2", "objectname", "*objectname", "objecttype", "*objecttype")
    form = "%09".join(f"%({column})" for column in columns)
    listing = run_git("for-each-ref", f"--format={form}", "refs/tags", directory=mirror_of(slug))
    tags = {}
    for line in filter(None, listing.split("\n")):
        name, own, peeled, own_type, peeled_type = line.split("\t")
        if "commit" in (own_type, peeled_type) and len(name) <= LONGEST_TAG and NOT_UTF8 not in name:
            tags[name] = peeled or own
    return tags


def archive(slug: str, sha: str) -> Iterator[bytes]:
    """The files of a commit as an uncompressed tar, in blocks.

    Raises RepositoryError: immediately if there is no such commit, at the end if git failed.
    """
    return archive_blocks(mirror_of(slug), resolve_revision(slug, valid_sha(sha)), NOWHERE)


def valid_sha(sha: str) -> str:
    """The id unchanged. Raises RepositoryError if it does not have the form of a commit id."""
    if not SHA.fullmatch(sha):
        raise RepositoryError(f"{sha!r} is not a commit id")
    return sha
