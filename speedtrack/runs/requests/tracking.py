"""Track a repository, or another branch of one that is tracked."""

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath

from django.conf import settings
from django.urls import reverse

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.errors import NoSuchBranch, RepositoryError, UnusableName
from speedtrack.projects.mirrors import git, remotes
from speedtrack.projects.mirrors.credentials import store_credential
from speedtrack.projects.mirrors.directories import remove_mirror
from speedtrack.projects.mirrors.fetching import head_ref
from speedtrack.projects.mirrors.remotes import Remote, remote_of
from speedtrack.projects.models import Branch, Credential, Project
from speedtrack.projects.sync import LONGEST_BRANCH, sync
from speedtrack.runs.models import IN_SERVICE, Machine
from speedtrack.runs.naming import LONGEST_SLUG
from speedtrack.runs.planning import choosing, pushes


@dataclass(frozen=True)
class TrackingRequest:
    """How to track a repository.

    ``last``: the number of newest commits to measure now. ``mail_history_verdicts``: None leaves the setting as it is.
    """

    url: str
    suite: str
    branch: str | None = None
    last: int = 10
    name: str | None = None
    mail_history_verdicts: bool | None = None
    credential: Credential | None = None  #: not yet stored


@dataclass(frozen=True)
class Hook:
    """What the forge needs to send webhooks. ``secret``: None if it is not to be shown any more."""

    url: str
    secret: str | None = None


def hook_url(project: Project) -> str:
    return settings.URL + reverse("hook", args=[project.hook_id])


def hook_of(project: Project, is_new: bool) -> Hook:
    """The webhook of a project. Its secret is shown once, to whoever has just tracked the project."""
    return Hook(hook_url(project), project.hook_secret.reveal() if is_new else None)


@dataclass(frozen=True)
class Tracked:
    """The result of tracking. ``is_new``: the project was created now, so nobody has seen its webhook's secret yet."""

    project: Project
    branch: Branch
    commits: int
    queued: int
    is_new: bool = False

    @property
    def hook(self) -> Hook:
        return hook_of(self.project, self.is_new)


def track(request: TrackingRequest) -> Tracked:
    """Track a repository, or another branch of one that is tracked. Safe to repeat.

    Raises RepositoryError or DefinitionError, and then leaves no new project behind.
    """
    url = remotes.valid_url(request.url)
    load_suite(request.suite)
    slug = slug_of(request)
    branch_name = branch_to_track(remote_to_track(slug, url, request.credential), request.branch)
    project, is_new = Project.objects.get_or_create(
        slug=slug,
        defaults={"name": request.name or slug, "url": url, "default_branch": branch_name, "suite": request.suite},
    )
    try:
        check_same_url(project, url)
        store_credential(project, request.credential)
        return replace(track_branch(project, branch_name, request), is_new=is_new)
    except (RepositoryError, DefinitionError):
        if is_new:
            project.delete()
            remove_mirror(slug)
        raise


def remote_to_track(slug: str, url: str, credential: Credential | None) -> Remote:
    """The remote with the entered credential, otherwise with that of the project ``slug`` if it tracks this address."""
    project = Project.objects.filter(slug=slug, url=url).first()
    return Remote(url, credential) if credential or not project else remote_of(project)


def check_same_url(project: Project, url: str) -> None:
    if project.url != url:
        raise UnusableName(f"project {project.slug} tracks {project.url}: give this one another --name")


def track_branch(project: Project, branch_name: str, request: TrackingRequest) -> Tracked:
    """Store the branch's history and queue its newest commits on all machines."""
    project.suite = request.suite
    if request.mail_history_verdicts is not None:
        project.mail_history_verdicts = request.mail_history_verdicts
    project.untracked_at = None
    project.save(update_fields=["suite", "mail_history_verdicts", "untracked_at"])
    branch, is_new = Branch.objects.update_or_create(project=project, name=branch_name, defaults={"tracked": True})
    project.machines.add(*Machine.objects.filter(IN_SERVICE))
    sync(project, then=partial(pushes.plan_changes, project))
    if is_new:
        check_fetched(project, branch)
    branch.refresh_from_db()
    run_count = choosing.plan_newest(branch, request.last)
    return Tracked(project, branch, branch.positions.count(), run_count)


def check_fetched(project: Project, branch: Branch) -> None:
    """Raise RepositoryError if a new branch could not be fetched, and do not track it."""
    if fault := project.left_out.get(head_ref(branch.name)):
        branch.delete()
        raise RepositoryError(f"cannot fetch branch {branch} of {project.url}: {fault['why']}")


def branch_to_track(remote: Remote, name: str | None) -> str:
    """The named branch, or by default the remote's. Raises RepositoryError that lists the branches if there is none."""
    refs, url = git.remote_refs(remote), remote.url
    branches = sorted(ref.removeprefix("refs/heads/") for ref in refs if ref.startswith("refs/heads/"))
    if not branches:
        raise RepositoryError(f"{url} is empty: push a commit and track it again")
    name = name or git.remote_default_branch(remote) or branches[0]
    if name not in branches:
        raise NoSuchBranch(f"{url} has no branch {name!r}: it has {', '.join(branches[:10])}")
    if len(name) > LONGEST_BRANCH:
        raise NoSuchBranch(f"branch {name[:40]}... has more than {LONGEST_BRANCH} characters: it cannot be tracked")
    return name


def slug_of(request: TrackingRequest) -> str:
    """The name of its project in addresses. Raises RepositoryError."""
    return valid_slug(request.name or name_in_url(remotes.valid_url(request.url)))


def name_in_url(url: str) -> str:
    """The name of a repository: the last segment of its URL, without ``.git``."""
    return PurePosixPath(url.rstrip("/")).name.removesuffix(".git")


def valid_slug(name: str) -> str:
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")
    if not slug:
        raise UnusableName(f"cannot make a project name of {name!r}: give one with --name")
    if len(slug) > LONGEST_SLUG:
        raise UnusableName(f"{slug} has more than {LONGEST_SLUG} characters: give a shorter one with --name")
    return slug
