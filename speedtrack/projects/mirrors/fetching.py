"""Update the mirror from the remote: the tracked branches, the tags of mirrored commits, and all releases.

An object that git refuses affects only the references that need it: a fetch that fails because of an object is repeated
in halves. Untracked branches are not fetched.
"""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from django.conf import settings

from speedtrack.projects.errors import GitFailed, NoSuchCommit, RepositoryError, RepositoryUnreachable
from speedtrack.projects.mirrors import git, gitprocess
from speedtrack.projects.mirrors.directories import TEMPORARY, make_mirror, mirror_of, remove_mirror
from speedtrack.projects.mirrors.remotes import Remote
from speedtrack.projects.mirrors.transports import transport_to
from speedtrack.projects.releases import version_of

FETCH = ("fetch", "--quiet", "--force", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head")
MALFORMED = re.compile(r"^error: object ([0-9a-f]{40,64}): (.+)$", re.M)
LACKING = re.compile(r"corruption on the remote side|did not send all necessary objects")
OBJECT_ID = re.compile(r"\b[0-9a-f]{40}(?:[0-9a-f]{24})?\b")
#: The names that forges give the head of a pull request: GitHub, Gitea and Forgejo; GitLab; Bitbucket Data Center.
PULL_REFS = ("refs/pull/{}/head", "refs/merge-requests/{}/head", "refs/pull-requests/{}/from")
REQUESTED = "refs/asked/"  # of commits that people or programs have requested, by commit id
NO_COMMIT = "non-commit object"
GONE = "couldn't find remote ref"
# Remedies for git's other messages; the first match counts. These texts may be shown for any remote.
HERE = (
    (r"No space left on device|Disk quota exceeded", "Make room on this machine"),
    (r"\.lock'?:", "Another git is running there, or was killed: its lock is removed {timeout} s after it was made"),
)
REMEDIES = (
    (r"Permission denied", "Let the server write to {mirror}"),
    (
        r"unable to access|Could not (?:resolve|read from)|not appear to be|early EOF|hung up|RPC failed|not allowed"
        r"|bad pack header|[Cc]onnection",
        "Check the address and the network",
    ),
    ("", "If it stays so, remove {mirror}: it is then cloned anew"),
)


@dataclass(frozen=True)
class FetchResult:
    """The remote's references (name -> object id), and the reasons why some could not be fetched."""

    remote: dict[str, str]
    faults: dict[str, str]


def head_ref(branch: str) -> str:
    return f"refs/heads/{branch}"


def fetch(slug: str, remote: Remote, branches: Iterable[str]) -> FetchResult:
    """Update the mirror to these branches of the remote, and to the remote's releases and tags of mirrored commits.

    One call at a time per project. Raises RepositoryError if nothing can be fetched at all.
    """
    check_whole(remote)
    break_old_locks(make_mirror(slug))
    remote_refs = git.remote_refs(remote)
    local = git.local_refs(slug)
    if not remote_refs and any(ref.startswith("refs/heads/") for ref in local):
        # A server with another page in place of the repository causes this, too.
        raise RepositoryUnreachable(f"{remote.url} lists no branch at all: is it still the repository?")
    heads = dict.fromkeys(ref for ref in map(head_ref, branches) if ref in remote_refs)
    # Deletions first: the name of a deleted branch may become the folder of a new one.
    git.delete_refs(slug, [ref for ref in local if ref.startswith("refs/heads/") and ref not in heads])
    faults = fetch_refs(slug, remote, heads_to_fetch(slug, list(heads), remote_refs, local))
    tags = tags_to_fetch(slug, remote_refs)
    git.delete_refs(slug, [ref for ref in local if ref.startswith("refs/tags/") and ref not in tags])
    faults |= fetch_refs(slug, remote, [ref for ref, sha in tags.items() if local.get(ref) != sha])
    return FetchResult(remote_refs, faults)


def check_whole(remote: Remote) -> None:
    """Refuse a shallow clone on this machine: git fetches nothing from it, and only warns."""
    if remote.is_local and any((Path(remote.url) / name).exists() for name in ("shallow", ".git/shallow")):
        raise RepositoryUnreachable(
            f"{remote.url} is a shallow clone, which lacks the beginning of the history: run "
            "git fetch --unshallow there, or track its source"
        )


def heads_to_fetch(slug: str, refs: Sequence[str], remote: Mapping[str, str], local: Mapping[str, str]) -> list[str]:
    """Those of these references that have moved, or whose commit the mirror has lost: git takes 5 ms for each one."""
    same = {ref for ref in refs if local.get(ref) == remote[ref]}
    present = git.commits_among(slug, {local[ref] for ref in same})
    return [ref for ref in refs if ref not in same or local[ref] not in present]


def tags_to_fetch(slug: str, remote: dict[str, str]) -> dict[str, str]:
    """The remote's releases, and its tags of mirrored commits: reference name -> object id.

    Names longer than LONGEST_TAG are left out. A release may be on an untracked branch; other tags there are not
    fetched.
    """
    longest = len("refs/tags/") + git.LONGEST_TAG
    tags = [ref for ref in remote if ref.startswith("refs/tags/") and not ref.endswith("^{}") and len(ref) <= longest]
    commit_of = {ref: remote.get(f"{ref}^{{}}", remote[ref]) for ref in tags}
    present = git.commits_among(slug, commit_of.values())
    return {ref: remote[ref] for ref in tags if commit_of[ref] in present or version_of(ref.removeprefix("refs/tags/"))}


def fetch_refs(slug: str, remote: Remote, refs: Sequence[str]) -> dict[str, str]:
    """Fetch these references under their own names. Return the faults of those that git refuses (name -> fault).

    Raises RepositoryError for every other failure.
    """
    if not refs:
        return {}
    try:
        run_fetch(slug, remote, [f"+{ref}:{ref}" for ref in refs])
    except GitFailed as e:
        why = ref_fault(e.stderr)
        if not why:
            raise failure_with_remedy(slug, remote, e) from e
        if len(refs) == 1:
            return {refs[0]: why}
        middle = len(refs) // 2
        return fetch_refs(slug, remote, refs[:middle]) | fetch_refs(slug, remote, refs[middle:])
    return {}


def run_fetch(
    slug: str, remote: Remote, refspecs: list[str], timeout_s: float | None = None, options: Sequence[str] = ()
) -> None:
    """Fetch these refspecs, given on standard input because thousands of tags do not fit on a command line."""
    arguments, lines = [*FETCH, *options, "--stdin", "--", remote.url], "".join(f"{refspec}\n" for refspec in refspecs)
    mirror, began_at = mirror_of(slug), time.time()
    try:
        with transport_to(remote) as transport:
            gitprocess.run_git(*arguments, directory=mirror, timeout_s=timeout_s, stdin=lines, transport=transport)
    except RepositoryError as e:
        if remove_halves(mirror, began_at) >= (settings.GIT_MOST_MB << 20) - gitprocess.BLOCK:
            raise RepositoryUnreachable(
                f"cannot fetch {remote.url}: it sends more than GIT_MOST_MB={settings.GIT_MOST_MB} allows: raise that "
                "if it is so large"
            ) from e
        raise


def remove_halves(mirror: Path, since_s: float) -> int:
    """Remove the partial packs of a failed fetch, which a killed git leaves. Return the largest size in bytes."""
    halves = [half for half in (mirror / "objects" / "pack").glob("tmp_*") if half.stat().st_mtime >= since_s]
    largest = max((half.stat().st_size for half in halves), default=0)
    for half in halves:
        half.unlink(missing_ok=True)
    return largest


def ref_fault(stderr: str) -> str:
    """The fault of a reference at the remote, with its remedy, from git's message; empty if none is at fault."""
    if malformed := MALFORMED.search(stderr):
        return f"object {malformed[1]} is malformed ({malformed[2]}): rewrite that history in the repository"
    if LACKING.search(stderr):
        match = OBJECT_ID.search(stderr)
        which = f"object {match[0]}" if match else "an object"
        return f"{which} is missing or damaged at the remote: find it with `git fsck` there and push it again"
    if NO_COMMIT in stderr:
        return "it does not name a commit: point it at one in the repository"
    if GONE in stderr:
        return "the remote no longer has it, or it has a name that git refuses"
    return ""


def failure_with_remedy(slug: str, remote: Remote, error: GitFailed) -> RepositoryError:
    """A failure that no reference caused, with its remedy."""
    here = next((remedy for pattern, remedy in HERE if re.search(pattern, error.stderr)), None)
    if not here and not remote.is_local:
        return git.unreadable(remote, error)
    remedy = here or next(remedy for pattern, remedy in REMEDIES if re.search(pattern, error.stderr))
    remedy = remedy.format(mirror=mirror_of(slug), timeout=settings.GIT_TIMEOUT_S)
    return RepositoryUnreachable(f"cannot fetch {remote.url}: {error}. {remedy}")


def fetch_branch(slug: str, remote: Remote, branch: str, sha: str, timeout_s: float | None = None) -> None:
    """Fetch a branch that is not tracked, whose head is ``sha``. Raises RepositoryError."""
    run_fetch(slug, remote, [f"+{head_ref(branch)}:{REQUESTED}{sha}"], timeout_s)


def is_related(slug: str, remote: Remote, branch: str, within_s: float) -> bool:
    """Return whether git finds a common commit of this remote and the mirror within the time.

    Raises RepositoryError if the remote does not answer.
    """
    remote_refs = git.remote_refs(remote, within_s)
    local = [sha for ref, sha in git.local_refs(slug).items() if ref.startswith("refs/heads/")]
    if not local or git.commits_among(slug, remote_refs.values()):
        return True
    sha = remote_refs.get(head_ref(branch), "")
    try:
        fetch_branch(slug, remote, branch, sha, within_s)
        return any(git.have_common_commit(slug, sha, local_sha) for local_sha in local)
    except RepositoryError:
        return False


def break_old_locks(mirror: Path) -> None:
    """Remove the locks of killed gits: no running git is older than its time limit."""
    for lock in [*mirror.glob("*.lock"), *(mirror / "refs").rglob("*.lock")]:
        if lock.stat().st_mtime < time.time() - settings.GIT_TIMEOUT_S:
            lock.unlink(missing_ok=True)


def fetch_pull_request(slug: str, remote: Remote, number: int, branch: str = "") -> str:
    """Fetch the head of a pull or merge request from its target repository. Return its commit id.

    ``branch``: the source branch, if it is in the same repository: Bitbucket Cloud has no reference of the pull
    request. Forks are never fetched from, because only the forge knows their addresses. Raises RepositoryError.
    """
    ref, sha = pull_request_ref(remote, number, branch)
    make_mirror(slug)
    fetch_asked(slug, remote, ref, sha)
    return git.resolve_revision(slug, sha)


def pull_request_ref(remote: Remote, number: int, branch: str = "", within_s: float | None = None) -> tuple[str, str]:
    """The remote's reference of the head of a pull or merge request, and its full commit id.

    ``branch``: as for ``fetch_pull_request``. Raises RepositoryError.
    """
    names = [form.format(number) for form in PULL_REFS]
    remote_refs = git.parse_refs(git.ask(remote, patterns=names, timeout_s=within_s))
    ref = next((name for name in names if name in remote_refs), None)
    if ref is None and branch:
        remote_refs = git.remote_refs(remote, within_s)
        ref = head_ref(branch) if head_ref(branch) in remote_refs else None
    if ref is None:
        raise RepositoryError(
            f"{remote.url} has no reference of pull request {number}, such as {names[0]}: is it still there? Bitbucket "
            "Cloud makes none: there a pull request is measured if it comes from a branch of the repository itself"
        )
    return ref, remote_refs[ref]


def newest_commits(remote: Remote, branch: str, count: int, within_s: float | None = None) -> list[git.Revision]:
    """Return the newest ``count`` commits of a branch along first parents, at least one, oldest first.

    They are fetched into a temporary mirror by a shallow fetch, without files if the remote supports partial clones.
    Raises RepositoryError.
    """
    slug, name = f"{TEMPORARY}{uuid4().hex}", "newest"
    # Git cannot use the path of a local repository as the remote of a partial clone.
    options = [f"--depth={max(count, 1)}", *([] if remote.is_local else ["--filter=tree:0"])]
    make_mirror(slug)
    try:
        fetch_asked(slug, remote, head_ref(branch), name, within_s, options)
        return list(git.revisions(slug, git.first_parents(slug, f"{REQUESTED}{name}")))
    finally:
        remove_mirror(slug)


def fetch_asked(
    slug: str,
    remote: Remote,
    source: str,
    sha: str,
    timeout_s: float | None = None,
    options: Sequence[str] = (),
) -> None:
    """Fetch a commit that a person has requested; it may be on no branch. Raises RepositoryError."""
    try:
        run_fetch(slug, remote, [f"+{source}:{REQUESTED}{sha}"], timeout_s, options)
    except GitFailed as e:
        why = ref_fault(e.stderr)
        raise (RepositoryError(f"cannot fetch {source}: {why}") if why else failure_with_remedy(slug, remote, e)) from e


def requested_refs(slug: str) -> dict[str, str]:
    """Reference name -> commit id of what ``fetch_asked`` has fetched into the mirror."""
    listing = gitprocess.run_git("for-each-ref", git.REF_FORMAT, REQUESTED, directory=mirror_of(slug))
    return git.parse_refs(listing)


def find_commit(slug: str, remote: Remote, name: str) -> str:
    """The commit id of a name; it is fetched if the mirror lacks it. Raises RepositoryError.

    So tags, untracked branches and full commit ids can be named, too.
    """
    try:
        return git.resolve_revision(slug, name)
    except NoSuchCommit:
        base = re.split(r"[~^@:]", name, maxsplit=1)[0]
        remote_refs = git.remote_refs(remote)
        source = base if git.SHA.fullmatch(base) else reference_named(base, remote_refs)
        if not source:
            raise
    sha = remote_refs.get(source, source)
    fetch_asked(slug, remote, source, sha)
    return git.resolve_revision(slug, sha + name[len(base) :])


def reference_named(name: str, remote_refs: dict[str, str]) -> str | None:
    """The remote's tag, branch or reference with this name. Not for full commit ids: a branch may be named like one."""
    return next((ref for ref in (f"refs/tags/{name}", head_ref(name), name) if ref in remote_refs), None)
