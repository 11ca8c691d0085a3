"""The branch that goes on where the default branch ended, if a forge gave that another name."""

from speedtrack.projects.errors import NoSuchCommit, RepositoryError
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.fetching import FetchResult, head_ref
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import Project


def successor_of(project: Project, fetched: FetchResult) -> str:
    """The remote's default branch, if it contains the last commit of ours, which the remote lacks; else "".

    A default branch that is still there has none.
    """
    last = project.branches.default().values_list("head__sha", flat=True).first()
    if last is None or head_ref(project.default_branch) in fetched.remote:
        return ""
    try:
        name = git.remote_default_branch(remote_of(project)) or ""
        head = fetched.remote.get(head_ref(name), "")
        if head and not git.commits_among(project.slug, [head]):
            fetching.fetch_branch(project.slug, remote_of(project), name, head)
        return name if head and git.merge_base(project.slug, last, head) == last else ""
    except (NoSuchCommit, RepositoryError):  # the page then asks for a branch without naming one
        return ""


def in_words(project: Project) -> str:
    """What follows a default branch that is gone, as a clause for pages, mails and commands."""
    if project.successor:
        return f"the repository's branch is now {project.successor}"
    return "no branch is known that goes on from it"


def note(project: Project, successor: str) -> None:
    """Store since when the default branch is gone, if it is, and what goes on from it."""
    branch = project.branches.default().first()
    gone_at = branch.deleted_at if branch else None
    if (gone_at, successor) != (project.branch_gone_at, project.successor):
        project.branch_gone_at, project.successor = gone_at, successor
        project.save(update_fields=["branch_gone_at", "successor"])
