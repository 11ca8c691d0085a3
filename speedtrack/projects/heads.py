"""The heads of pull requests, as full commit ids: the abbreviated ids that some forges send are ambiguous."""

from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import Project, PullRequest

PATIENCE_S = 10  # a person, and a thread of the web server, wait for the answer


def is_whole(sha: str) -> bool:
    return git.SHA.fullmatch(sha) is not None


def own_branch(pull: PullRequest) -> str:
    """The branch of the same repository that is a pull request's source; empty if the source is a fork."""
    return "" if pull.from_fork else pull.head_ref


def complete(pull: PullRequest) -> None:
    """Ask the repository for all digits of a head that the forge abbreviated, and store them.

    Raises RepositoryError if it has no such reference, or if that has moved meanwhile.
    """
    _, sha = fetching.pull_request_ref(remote_of(pull.project), pull.number, own_branch(pull), PATIENCE_S)
    if not sha.startswith(pull.head_sha):
        raise RepositoryError(
            f"the repository's reference of {pull} is at {sha}, and its forge last told of {pull.head_sha}: wait for "
            "the forge's next call"
        )
    store_whole(pull, sha)
    pull.head_sha = sha


def store_whole(pull: PullRequest, sha: str) -> None:
    """Store all digits of the head, unless the forge has reported another one meanwhile."""
    PullRequest.objects.filter(pk=pull.pk, head_sha=pull.head_sha).update(head_sha=sha)


def complete_listed(project: Project, remote_refs: dict[str, str]) -> None:
    """Store all digits of abbreviated heads whose branches are among the remote's references (name -> id)."""
    for pull in project.pull_requests.filter(state=PullRequest.State.OPEN, from_fork=False):
        sha = remote_refs.get(fetching.head_ref(pull.head_ref), "")
        if not is_whole(pull.head_sha) and sha.startswith(pull.head_sha):
            store_whole(pull, sha)
