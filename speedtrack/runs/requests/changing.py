"""What people change in the browser: which repositories and branches are tracked, and how."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from speedtrack.accounts import members
from speedtrack.accounts.models import Role
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects import hooks
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import fetching, git, remotes
from speedtrack.projects.mirrors.credentials import store_credential
from speedtrack.projects.mirrors.directories import has_mirror
from speedtrack.projects.mirrors.remotes import Remote, remote_of
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import IN_SERVICE, Machine, Run
from speedtrack.runs.queue import queue
from speedtrack.runs.requests import tracking

ANSWER_S = 20  # a person waits for the answer of a repository
MOST_FIRST = 500  # commits that the first look at a branch queues at most


class Taken(RepositoryError):
    """Another project already has this name."""


class Unrelated(RepositoryError):
    """The repository at a new address has another history."""


@dataclass(frozen=True)
class RemoteAnswer:
    """What a repository answers: its branches, and the one that it shows by default."""

    url: str
    branches: list[str]
    default: str


def ask_remote(remote: Remote) -> RemoteAnswer:
    """Ask a repository for its branches. Raises RepositoryError that says what is wrong with the address."""
    valid = Remote(remotes.valid_url(remote.url), remote.credential)
    refs = git.remote_refs(valid, ANSWER_S)
    branches = sorted(ref.removeprefix("refs/heads/") for ref in refs if ref.startswith("refs/heads/"))
    if not branches:
        raise RepositoryError(f"{valid.url} is empty: push a commit and try again")
    default = git.remote_default_branch(valid)
    return RemoteAnswer(valid.url, branches, default if default in branches else branches[0])


def change(project: Project, values: Mapping[str, Any], unrelated: bool = False) -> dict[str, tuple[Any, Any]]:
    """Give a project these values. Return field -> (before, after) of those that differ. Raises as ``address_for``."""
    changes = {name: (getattr(project, name), value) for name, value in values.items()}
    changes = {name: pair for name, pair in changes.items() if pair[0] != pair[1]}
    if "url" in changes:
        changes["url"] = (project.url, address_for(project, values["url"], unrelated))
        project.renamed_to = ""
    if "default_branch" in changes:
        project.branch_gone_at, project.successor = None, ""
    for name, (_, value) in changes.items():
        setattr(project, name, value)
    if changes:
        project.polled_at = None  # so that it is looked at soon
        project.save(update_fields=[*changes, "polled_at", "renamed_to", "branch_gone_at", "successor"])
    return changes


def address_for(project: Project, url: str, unrelated: bool) -> str:
    """The valid form of a new address for a project's repository.

    The repository must answer, and must share a commit with the project's history unless ``unrelated`` is true. Raises
    Unrelated if it shares none, or RepositoryError.
    """
    remote = remote_of(project, remotes.valid_url(url))
    answer = ask_remote(remote)
    branch = project.default_branch if project.default_branch in answer.branches else answer.default
    if unrelated or not has_mirror(project.slug):
        return answer.url
    if not fetching.is_related(project.slug, remote, branch, ANSWER_S):
        count = project.commits.filter(positions__isnull=False).distinct().count()
        raise Unrelated(
            f"{answer.url} shows no commit in common with the {count} commits of {project.url}. All of them would "
            "leave their branches and be marked as unreachable; what was measured of them stays. Tick the box if that "
            "is meant, or track it as a project of its own"
        )
    return answer.url


def begin_tracking(request: tracking.TrackingRequest, user: User | None = None) -> Project:
    """Track a repository whose history is fetched later: the process `git` clones it and queues the newest commits.

    ``user`` asks for it, and becomes the project's owner. Raises RepositoryError, DefinitionError or Taken.
    """
    project = make_project(request, *checked(request))
    if user:
        members.give_role(project, user, Role.OWNER)
    return project


def checked(request: tracking.TrackingRequest) -> tuple[Remote, str]:
    """The repository to track, which answers, and its branch. Raises RepositoryError or DefinitionError."""
    remote = Remote(remotes.valid_url(request.url), request.credential)
    load_suite(request.suite)
    tracking.slug_of(request)
    return remote, tracking.branch_to_track(remote, request.branch)


def make_project(request: tracking.TrackingRequest, remote: Remote, branch: str) -> Project:
    """The rows of a project whose repository was not looked at yet. Raises Taken."""
    slug = tracking.slug_of(request)
    columns = {"name": request.name or slug, "url": remote.url, "default_branch": branch, "suite": request.suite}
    try:
        with transaction.atomic():
            project = Project.objects.create(slug=slug, **columns)
            store_credential(project, request.credential)
    except IntegrityError:
        known_one = Project.objects.get(slug=slug)
        remedy = "track it again in its settings, or " if known_one.untracked_at else ""
        raise Taken(f"there is a project {slug} already: {remedy}give this one another name") from None
    Branch.objects.create(project=project, name=branch, first_commits=first_commits(request))
    project.machines.add(*Machine.objects.filter(IN_SERVICE))
    return project


def first_commits(request: tracking.TrackingRequest) -> int:
    """How many of the newest commits the first look queues."""
    return min(max(request.last, 0), MOST_FIRST)


@transaction.atomic
def untrack(project: Project) -> int:
    """Stop looking at the repository, and cancel the project's waiting runs. Return the number of cancelled runs.

    What was measured stays. The webhook gets a new address and secret, so the old ones are refused.
    """
    cancelled = queue.cancel_waiting(
        Run.objects.filter(project=project, canary=None), "its project is no longer tracked"
    )
    hooks.renew_all(project)
    Project.objects.filter(pk=project.pk).update(untracked_at=Now(), error="")
    project.machines.clear()
    return cancelled


@transaction.atomic
def track_again(project: Project) -> None:
    """Undo ``untrack``: the next look at the repository queues what is new since then."""
    Project.objects.filter(pk=project.pk).update(untracked_at=None, polled_at=None, failures=0)
    project.machines.add(*Machine.objects.filter(IN_SERVICE))


def add_branch(project: Project, name: str, first_commits: int) -> Branch:
    """Track a branch that the repository has; the next look at it queues its newest commits. Raises RepositoryError."""
    branch_name = tracking.branch_to_track(remote_of(project), name)
    branch, is_new = Branch.objects.get_or_create(
        project=project, name=branch_name, defaults={"first_commits": min(max(first_commits, 0), MOST_FIRST)}
    )
    if not is_new and branch.tracked:
        raise RepositoryError(f"branch {branch} is tracked already")
    Branch.objects.filter(pk=branch.pk).update(tracked=True)
    Project.objects.filter(pk=project.pk).update(polled_at=None, failures=0)
    return branch


def drop_branch(branch: Branch) -> None:
    """Stop measuring new commits of the branch; its history stays. Raises RepositoryError for the default branch."""
    if branch.name == branch.project.default_branch:
        raise RepositoryError(f"{branch} is the default branch: make another one the default first")
    Branch.objects.filter(pk=branch.pk).update(tracked=False)
