"""Find the commits that results from outside name."""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import NamedTuple

from django.db import connection
from django.utils import timezone

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.errors import RepositoryError, RepositoryUnreachable
from speedtrack.projects.mirrors import fetching, git, gitprocess
from speedtrack.projects.mirrors.directories import has_mirror
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import Branch, Project, Tag
from speedtrack.projects.sync import project_lock, store_commits
from speedtrack.runs.planning import pushes

FULL = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
ABBREVIATED = re.compile(r"[0-9a-f]{7,64}")
NOT_A_NAME = re.compile(r"[\s~^:?*\[\\]|@\{|\.\.|^[-./]")  # no branch or tag contains these; git would interpret them
MOST_ASKED = 200  # names of one batch that git looks up, one by one
MOST_FETCHED = 3  # commits of one batch that are fetched one by one, because no tracked branch has them
PATIENCE_S = 30  # for the repository, if somebody waits for an answer
AGAIN = "send the result again in a minute"
TRY_LOCK_EVERY_S = 0.2
PAUSE = timedelta(seconds=2)  # between two fetches of a repository because of unknown commits

BEGINNING_WITH = """
SELECT asked.name, min(c.sha), count(*)
  FROM unnest(%(names)s::text[]) AS asked (name)
  JOIN projects_commit c ON c.project_id = %(project)s AND c.sha >= asked.name AND c.sha < asked.name || 'g'
 GROUP BY asked.name
"""
KNOWN = "SELECT sha, id FROM projects_commit WHERE project_id = %(project)s AND sha = ANY (%(shas)s)"


class CommitLookup(NamedTuple):
    """``shas``: by name, the full commit id. ``faults``: by name, why there is none."""

    shas: dict[str, str]
    faults: dict[str, str]


def find(project: Project, names: Iterable[str]) -> CommitLookup:
    """The commits of these names: from the database, otherwise from the mirror, otherwise from the remote repository.

    Branches move, so the repository is fetched before their names are read; ids do not move.
    """
    wanted_names = set(names)
    lookup = CommitLookup({}, {name: fault for name in wanted_names if (fault := fault_of(name))})
    moving = {name for name in wanted_names - lookup.faults.keys() if not is_id(name)}
    why = look(project) if moving else None
    if why and not project.untracked_at:
        lookup.faults.update({name: unknown(project, name, why) for name in moving})
    add_found(project, wanted_names, lookup, (find_stored, find_in_mirror))
    if why is None and missing(wanted_names, lookup):
        why = look(project)
        add_found(project, wanted_names, lookup, (find_stored, find_in_mirror))
    add_found(project, wanted_names, lookup, (find_by_fetching,))
    lookup.faults.update({name: unknown(project, name, why or "") for name in missing(wanted_names, lookup)})
    return lookup


def missing(names: set[str], lookup: CommitLookup) -> set[str]:
    return names - lookup.shas.keys() - lookup.faults.keys()


def add_found(
    project: Project,
    names: set[str],
    lookup: CommitLookup,
    searches: Iterable[Callable[[Project, set[str]], CommitLookup]],
) -> None:
    """Call each search for the names that are still missing, and add the results to ``lookup``."""
    for search in searches:
        if remaining := missing(names, lookup):
            result = search(project, remaining)
            lookup.shas.update(result.shas)
            lookup.faults.update(result.faults)


def is_id(name: str) -> bool:
    return ABBREVIATED.fullmatch(name.lower()) is not None


def fault_of(name: str) -> str:
    if NOT_A_NAME.search(name):
        return f"{name!r} is neither the id of a commit nor the name of a branch or tag"
    return ""


def unknown(project: Project, name: str, why: str) -> str:
    sentence = f"{project} has no commit, branch or tag {name!r}"
    return f"{sentence}: {why}" if why else f"{sentence}: check it, and push it before its results are sent"


def find_stored(project: Project, names: set[str]) -> CommitLookup:
    """Search the tables: commits by their ids, which may be abbreviated; branches and tags by name."""
    ids = {name: name.lower() for name in names if is_id(name)}
    with connection.cursor() as cursor:
        cursor.execute(BEGINNING_WITH, {"names": sorted(set(ids.values())), "project": project.pk})
        rows = {name: (sha, count) for name, sha, count in cursor}
    shas = {name: rows[prefix][0] for name, prefix in ids.items() if prefix in rows and rows[prefix][1] == 1}
    faults = {
        name: f"{name} is the beginning of several commits: give more of it"
        for name, prefix in ids.items()
        if prefix in rows and rows[prefix][1] > 1
    }
    # A branch may have the full id of a commit as its name; the id then still means the commit.
    references = {name for name in names - shas.keys() - faults.keys() if not FULL.fullmatch(name.lower())}
    tags = Tag.objects.filter(project=project, name__in=references).values_list("name", "sha")
    branches = Branch.objects.filter(project=project, name__in=references, head__isnull=False, deleted_at=None)
    return CommitLookup(shas | dict(tags) | dict(branches.values_list("name", "head__sha")), faults)


def find_in_mirror(project: Project, names: set[str]) -> CommitLookup:
    """Search the mirror with git: full ids all at once, other names one by one."""
    if not has_mirror(project.slug):
        return CommitLookup({}, {})
    ids = {name.lower() for name in names if FULL.fullmatch(name.lower())}
    present = git.commits_among(project.slug, ids) if ids else set()
    shas = {name: name.lower() for name in names if name.lower() in present}
    references = sorted(name for name in names if name.lower() not in ids)
    faults = dict.fromkeys(
        references[MOST_ASKED:], f"a batch names at most {MOST_ASKED} commits that are not known yet"
    )
    for name in references[:MOST_ASKED]:
        revision = name.lower() if is_id(name) else name
        if sha := asked_for(partial(git.resolve_revision, project.slug, revision)):
            shas[name] = sha
    return CommitLookup(shas, faults)


def asked_for(find: Callable[[], str]) -> str:
    try:
        return find()
    except RepositoryError:
        return ""


def look(project: Project) -> str:
    """Fetch new commits of the repository. Return why that failed; empty if it succeeded.

    New commits are planned as after any push. If another process is fetching, this waits for it.
    """
    if project.untracked_at:
        return "it is no longer tracked, so newer commits are not known here"
    project.refresh_from_db(fields=["polled_at"])
    if project.polled_at and project.polled_at > timezone.now() - PAUSE:
        return ""
    try:
        with locked(project):
            pushes.sync_and_plan(project)
    except RepositoryUnreachable as e:
        return f"it could not be looked at just now, {AGAIN}: {e}"
    except (RepositoryError, DefinitionError) as e:
        return f"it could not be looked at just now: {e}"
    return ""


@contextmanager
def locked(project: Project) -> Iterator[None]:
    """Hold the project's lock in this block.

    Raises RepositoryUnreachable at the deadline of the surrounding ``gitprocess.within``.
    """
    while True:
        with project_lock(project) as is_mine:
            if is_mine:
                yield
                return
        gitprocess.time_left_s()
        time.sleep(TRY_LOCK_EVERY_S)


def find_by_fetching(project: Project, names: set[str]) -> CommitLookup:
    """Fetch full ids and names that are on no tracked branch, such as a pull request's, from the remote repository."""
    if project.untracked_at:
        return CommitLookup({}, {})
    remote = remote_of(project)
    fetchable = sorted(name for name in names if FULL.fullmatch(name.lower()) or not is_id(name))[:MOST_FETCHED]
    revisions = {name: name.lower() if is_id(name) else name for name in fetchable}
    shas = {name: asked_for(partial(fetching.find_commit, project.slug, remote, revisions[name])) for name in fetchable}
    return CommitLookup({name: sha for name, sha in shas.items() if sha}, {})


def ids_of(project: Project, shas: Iterable[str]) -> dict[str, int]:
    """By commit id: the primary key of its row, which is created if it is missing."""
    unique_shas = sorted(set(shas))
    with connection.cursor() as cursor:
        cursor.execute(KNOWN, {"project": project.pk, "shas": unique_shas})
        ids = dict(cursor.fetchall())
    new = store_commits(project, [sha for sha in unique_shas if sha not in ids]) if len(ids) < len(unique_shas) else {}
    return ids | {sha: commit.pk for sha, commit in new.items()}
