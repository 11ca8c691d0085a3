"""What people change in the browser: which repositories and branches are tracked, and how."""

from dataclasses import dataclass

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models.functions import Now
from django.urls import reverse

from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects import git
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.models import Branch, Project, new_hook_id, new_hook_secret
from speedtrack.runs import queue, tracking
from speedtrack.runs.models import Machine, Run

ANSWER_S = 20  # a person waits for the answer of a repository
MOST_FIRST = 500  # commits that the first look at a branch queues at most


class Taken(RepositoryError):
    """A project of this name exists."""


@dataclass(frozen=True)
class Remote:
    """What a repository answers: its branches, and the one that it shows by default."""

    url: str
    branches: list[str]
    default: str


def ask_remote(url: str) -> Remote:
    """Ask a repository for its branches. Raises RepositoryError that says what is wrong with the address."""
    valid = git.valid_url(url)
    refs = git.remote_refs(valid, ANSWER_S)
    branches = sorted(ref.removeprefix("refs/heads/") for ref in refs if ref.startswith("refs/heads/"))
    if not branches:
        raise RepositoryError(f"{valid} is empty: push a commit and try again")
    default = git.remote_default_branch(valid)
    return Remote(valid, branches, default if default in branches else branches[0])


def begin_tracking(request: tracking.TrackingRequest) -> Project:
    """Track a repository whose history is fetched later: the process `git` clones it and queues the newest commits.

    Raises RepositoryError, DefinitionError or Taken.
    """
    url = git.valid_url(request.url)
    load_suite(request.suite)
    branch = tracking.branch_to_track(url, request.branch)
    slug = tracking.valid_slug(request.name or tracking.name_in_url(url))
    first = min(max(request.last, 0), MOST_FIRST)
    known = {"name": request.name or slug, "url": url, "default_branch": branch, "suite": request.suite}
    try:
        with transaction.atomic():
            project = Project.objects.create(slug=slug, **known)
    except IntegrityError:
        known_one = Project.objects.get(slug=slug)
        remedy = "track it again in its settings, or " if known_one.untracked_at else ""
        raise Taken(f"there is a project {slug} already: {remedy}give this one another name") from None
    Branch.objects.create(project=project, name=branch, first_commits=first)
    project.machines.add(*Machine.objects.filter(retired_at=None))
    return project


@transaction.atomic
def untrack(project: Project) -> int:
    """Look at the repository no more, and cancel the project's waiting runs. Return how many these were.

    What was measured stays. The webhook's address and secret change, so that nobody's old one counts.
    """
    cancelled = queue.cancel_waiting(
        Run.objects.filter(project=project, canary=None), "its project is no longer tracked"
    )
    changes = {"untracked_at": Now(), "hook_id": new_hook_id(), "hook_secret": new_hook_secret(), "error": ""}
    Project.objects.filter(pk=project.pk).update(**changes)
    project.machines.clear()
    return cancelled


@transaction.atomic
def track_again(project: Project) -> None:
    """Undo ``untrack``: the next look at the repository queues what is new since then."""
    Project.objects.filter(pk=project.pk).update(untracked_at=None, polled_at=None, failures=0)
    project.machines.add(*Machine.objects.filter(retired_at=None))


def rotate_secret(project: Project) -> str:
    """Give the project's webhook a new secret and return it. The old one is invalid at once."""
    project.hook_secret = new_hook_secret()
    project.save(update_fields=["hook_secret"])
    return project.hook_secret


def hook_url(project: Project) -> str:
    return settings.URL + reverse("hook", args=[project.hook_id])


def add_branch(project: Project, name: str, first_commits: int) -> Branch:
    """Track a branch that the repository has; the next look at it queues its newest commits. Raises RepositoryError."""
    branch_name = tracking.branch_to_track(project.url, name)
    branch, made = Branch.objects.get_or_create(
        project=project, name=branch_name, defaults={"first_commits": min(max(first_commits, 0), MOST_FIRST)}
    )
    if not made and branch.tracked:
        raise RepositoryError(f"branch {branch} is tracked already")
    Branch.objects.filter(pk=branch.pk).update(tracked=True)
    Project.objects.filter(pk=project.pk).update(polled_at=None, failures=0)
    return branch


def drop_branch(branch: Branch) -> None:
    """Measure the branch's new commits no more. Its history stays. Raises RepositoryError for the default branch."""
    if branch.name == branch.project.default_branch:
        raise RepositoryError(f"{branch} is the default branch: make another one the default first")
    Branch.objects.filter(pk=branch.pk).update(tracked=False)
