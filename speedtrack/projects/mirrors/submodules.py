"""Add the submodules of a commit to its sources, if the project lists their repositories.

Each listed repository has a separate mirror below the project's, which the first build that needs it fetches. A commit
with the files of all of them is composed in the project's mirror, and a runner builds its archive.
"""

import fcntl
import posixpath
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from speedtrack.ground.texts.text import listed
from speedtrack.projects.errors import GitFailed, RepositoryError
from speedtrack.projects.mirrors import fetching, git, gitprocess, remotes
from speedtrack.projects.mirrors.directories import has_mirror, make_mirror, mirror_of
from speedtrack.projects.mirrors.transports import Transport
from speedtrack.projects.models import Project

MOST = 100  # of a commit, including those inside its submodules
GITLINK = "160000"  # mode of a submodule in a tree
NOBODY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "SpeedTrack"), ("EMAIL", "speedtrack@localhost"))
}


class Submodule(NamedTuple):
    """One submodule.

    ``path``: from the root of the sources; ``url``: in the listed form, empty if .gitmodules names none.
    """

    path: str
    url: str
    sha: str


@dataclass(frozen=True)
class Sources:
    """The submodules that a commit's sources contain (submodule -> name of its mirror), and the missing ones."""

    present: dict[Submodule, str]
    lacking: list[Submodule]


def valid_urls(text: str) -> str:
    """The addresses that a project allows, one per line. Raises RepositoryError."""
    return "\n".join(dict.fromkeys(remotes.valid_url(line.strip()) for line in text.splitlines() if line.strip()))


def archive(project: Project, sha: str) -> Iterator[bytes]:
    """The files of a commit and its listed submodules as an uncompressed tar, in blocks. Raises as ``git.archive``."""
    if not project.submodule_urls:
        return git.archive(project.slug, sha)
    sources = sources_of(project, git.resolve_revision(project.slug, git.valid_sha(sha)))
    if not sources.present:
        return git.archive(project.slug, sha)
    alternates = ":".join(str(mirror_of(mirror) / "objects") for mirror in dict.fromkeys(sources.present.values()))
    transport = replace(gitprocess.NOWHERE, environment={"GIT_ALTERNATE_OBJECT_DIRECTORIES": alternates})
    return gitprocess.archive_blocks(
        mirror_of(project.slug),
        compose_commit(project.slug, sha, list(sources.present), transport),
        transport,
    )


def lacking(project: Project, sha: str) -> str:
    """A sentence about the missing submodules of a commit's sources, with the remedy; empty if none is missing."""
    try:
        missing = sources_of(project, sha, fetch=False).lacking
    except RepositoryError as e:
        return f"Its submodules cannot be read: {e}"
    if not missing:
        return ""
    names = listed([f"{submodule.path} ({submodule.url or 'no address in .gitmodules'})" for submodule in missing], 5)
    remedy = "list their addresses under Submodules in the project's settings"
    return f"Its sources lack the submodules {names}: {remedy}"


def sources_of(project: Project, sha: str, fetch: bool = True) -> Sources:
    """The submodules of a commit, fetched if necessary, and those inside them. Raises RepositoryError."""
    urls = {plain(url): url for url in project.submodule_urls.splitlines()}
    sources = Sources({}, [])
    queue = [("", project.slug, project.url, sha)]
    while queue:
        prefix, mirror, base, commit = queue.pop(0)
        for submodule in submodules_in(mirror, commit, base):
            inside = submodule._replace(path=prefix + submodule.path)
            url = urls.get(plain(submodule.url))
            if url is None:
                sources.lacking.append(inside)
                continue
            module = f"{project.slug}.modules/{sha256(plain(url).encode()).hexdigest()[:16]}"
            if fetch:
                fetch_commit(project, module, url, submodule.sha)
            elif not has_mirror(module):
                continue  # it is allowed, but not fetched yet
            sources.present[inside] = module
            if len(sources.present) > MOST:
                raise RepositoryError(f"commit {sha[:10]} has more than {MOST} submodules: list fewer of them")
            queue.append((f"{inside.path}/", module, url, submodule.sha))
    return sources


def fetch_commit(project: Project, mirror: str, url: str, sha: str) -> None:
    """Fetch a commit of a submodule unless its mirror has it; one fetch of it at a time. Raises RepositoryError."""
    directory = make_mirror(mirror)
    if git.commits_among(mirror, [sha]):
        return
    with locked(directory):
        if git.commits_among(mirror, [sha]):  # the fetch that this one waited for has brought it
            return
        fetching.break_old_locks(directory)
        try:
            fetching.find_commit(mirror, remotes.remote_of(project, remotes.valid_url(url)), sha)
        except RepositoryError as e:
            raise type(e)(f"submodule {url}: {e}") if type(e) is not GitFailed else e from e


@contextmanager
def locked(mirror: Path) -> Iterator[None]:
    """Hold the lock of a submodule's mirror. The end of the process releases it, too."""
    with (mirror / "fetching").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def submodules_in(mirror: str, sha: str, base: str) -> list[Submodule]:
    """The submodules in the tree of one commit, without those inside them."""
    directory = mirror_of(mirror)
    listing = gitprocess.run_git("ls-tree", "-r", "-z", "--full-tree", "--end-of-options", sha, directory=directory)
    links = [line.partition("\t") for line in listing.split("\0") if line.startswith(GITLINK)]
    if not links:
        return []
    urls = urls_by_path(directory, sha)
    return [Submodule(path, absolute(urls.get(path, ""), base), head.split()[2]) for head, _, path in links]


def urls_by_path(directory: Path, sha: str) -> dict[str, str]:
    """The addresses in the .gitmodules of a commit, by path."""
    try:
        listing = gitprocess.run_git("config", "--null", f"--blob={sha}:.gitmodules", "--list", directory=directory)
    except GitFailed:
        return {}  # there is none, or it is malformed
    sections: dict[str, dict[str, str]] = {}
    for line in listing.split("\0"):
        key, _, value = line.partition("\n")
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    return {
        section_values["path"].rstrip("/"): section_values.get("url", "")
        for section_values in sections.values()
        if "path" in section_values
    }


def absolute(url: str, base: str) -> str:
    """The absolute form of an address in .gitmodules; ``./`` and ``../`` are relative to ``base``, its repository."""
    if not url.startswith(("./", "../")):
        return url
    if remotes.is_path(base):
        return posixpath.normpath(posixpath.join(base, url))
    base_url = urlsplit(base)
    return base_url._replace(path=posixpath.normpath(posixpath.join(base_url.path or "/", url))).geturl()


def plain(url: str) -> str:
    """An address in a form for comparisons, since forges serve a repository with and without ``.git``."""
    return url.rstrip("/").removesuffix(".git")


def compose_commit(slug: str, sha: str, submodules: list[Submodule], transport: Transport) -> str:
    """The id of a new commit in the mirror with the files of a commit and of its submodules, and with its date."""
    mirror = mirror_of(slug)
    dated = gitprocess.run_git("show", "--no-patch", "--format=%ct", "--end-of-options", sha, directory=mirror).strip()
    with tempfile.TemporaryDirectory() as directory:
        dates = {f"GIT_{role}_DATE": f"{dated} +0000" for role in ("AUTHOR", "COMMITTER")}
        # ``read-tree --prefix`` needs a work tree, but writes nothing to it.
        here = {"GIT_DIR": str(mirror), "GIT_WORK_TREE": directory, "GIT_INDEX_FILE": f"{directory}/index"}
        local = replace(transport, environment={**transport.environment, **here, **NOBODY, **dates})
        gitprocess.run_git("read-tree", "--end-of-options", sha, directory=mirror, transport=local)
        for submodule in submodules:
            removal = f"0 {'0' * 40}\t{submodule.path}\0"
            gitprocess.run_git("update-index", "-z", "--index-info", directory=mirror, stdin=removal, transport=local)
            gitprocess.run_git(
                "read-tree", f"--prefix={submodule.path}/", submodule.sha, directory=mirror, transport=local
            )
        tree = gitprocess.run_git("write-tree", directory=mirror, transport=local).strip()
        return gitprocess.run_git("commit-tree", tree, directory=mirror, stdin=f"{sha}\n", transport=local).strip()
