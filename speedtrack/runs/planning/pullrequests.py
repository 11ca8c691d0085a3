"""Pull requests are measured once a maintainer approves a head: in pairs against its merge base.

Building a head runs code of whoever wrote it on the measuring machines, so an approval is for one whole commit id: a
new push needs a new one. (Two commits whose ids begin with the same 12 digits are made in seconds.) The repository's
own reference of the pull request is fetched, never the author's repository. What is measured are pairs, which are no
points of any line.
"""

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.storing import usual_set
from speedtrack.projects import heads
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.fetching import head_ref
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import Branch, Commit, PullRequest
from speedtrack.projects.sync import store_commits
from speedtrack.runs.models import Approval, Reason, Run
from speedtrack.runs.planning import policies
from speedtrack.runs.planning.approvals import NotApprovable, check_head, check_tracked
from speedtrack.runs.planning.questions import Question, plan_each, plan_pairs
from speedtrack.runs.queue import queue

State = PullRequest.State


def approve(pull_request: PullRequest, head_sha: str, by: User | None) -> Approval:
    """Let the machines measure this head of a pull request. After a failure, approving again tries again.

    ``head_sha``: the whole commit id. If the forge abbreviated the head, the repository is asked for all of it, which
    may take heads.PATIENCE_S. The process `git` fetches the head and queues the runs. Raises NotApprovable.
    """
    complete_head(pull_request)
    with transaction.atomic():
        pull_request = PullRequest.objects.select_for_update().select_related("project").get(pk=pull_request.pk)
        check_approvable(pull_request, head_sha)
        approval, _ = Approval.objects.update_or_create(
            pull_request=pull_request, head_sha=head_sha, defaults={"error": ""}, create_defaults={"by": by}
        )
    return approval


def complete_head(pull_request: PullRequest) -> None:
    """Let the head of an open pull request be a whole commit id. Raises NotApprovable if the repository has none."""
    pull_request.refresh_from_db()
    if heads.is_whole(pull_request.head_sha) or pull_request.state != State.OPEN or pull_request.project.untracked_at:
        return
    try:
        heads.complete(pull_request)
    except RepositoryError as e:
        raise NotApprovable(
            f"{pull_request.head_sha} is only a part of a commit id, which others may have, too, and the whole one is "
            f"not known: {e}"
        ) from e


def check_approvable(pull_request: PullRequest, head_sha: str) -> None:
    """Raise NotApprovable unless this is the whole commit id of the head of an open pull request."""
    if pull_request.state != State.OPEN:
        raise NotApprovable(f"{pull_request} is {pull_request.state}: only an open one is measured")
    check_tracked(pull_request.project)
    now = pull_request.head_sha
    if not heads.is_whole(now):
        raise NotApprovable(f"the forge has just told of another head of {pull_request}, {now}: approve again")
    check_head(pull_request, now, head_sha)


@transaction.atomic
def approve_as_fetched(pull_request: PullRequest, head_sha: str, by: User | None) -> Approval:
    """Approve a head and queue its runs as if it had been fetched. Only for dry runs: the caller rolls it back.

    If the head's commit is unknown, a commit is made up; its base is the newest known commit of the target branch.
    Without such a commit nothing is queued. Raises NotApprovable.
    """
    approval = approve(pull_request, head_sha, by)
    pull, project = approval.pull_request, approval.project
    target = project.branches.select_related("head").filter(name=pull.base_ref).first()
    if approval.planned_at or target is None or target.head is None:
        return approval
    if target.commits.filter(sha=head_sha).exists():
        raise adds_nothing(pull)
    made_up = {"subject": pull.title, "authored_at": pull.updated_at, "committed_at": pull.updated_at}
    head, _ = Commit.objects.get_or_create(project=project, sha=head_sha, defaults=made_up)
    try:
        queue_pairs(approval, target.head, head)
    except DefinitionError as e:
        raise NotApprovable(str(e)) from e
    return approval


def adds_nothing(pull: PullRequest) -> NotApprovable:
    return NotApprovable(f"{pull} adds nothing to {pull.base_ref}: its head is in that branch already")


def plan_approved() -> int:
    """Queue the runs of all approvals that have none yet. Return how many. A failure is stored on its approval."""
    return plan_each(Approval.objects.unplanned().select_related("pull_request__project"), plan)


def plan(approval: Approval) -> int:
    """Fetch an approved head and queue its pairs against the merge base. Return the number of runs.

    Waiting runs of earlier heads of the same pull request are cancelled. Raises RepositoryError, DefinitionError or
    NotApprovable.
    """
    pull, project = approval.pull_request, approval.project
    remote = remote_of(project)
    fetched = fetching.fetch_pull_request(project.slug, remote, pull.number, heads.own_branch(pull))
    if fetched != approval.head_sha:
        raise NotApprovable(
            f"the repository's reference of {pull} is at {fetched}, not at the approved {approval.head_sha}: "
            "it was pushed to since; approve the new head"
        )
    target = fetching.find_commit(project.slug, remote, head_ref(pull.base_ref))
    base = git.merge_base(project.slug, target, fetched)
    if base == fetched:
        raise adds_nothing(pull)
    commits = store_commits(project, [base, fetched])
    return queue_pairs(approval, commits[base], commits[fetched])


def queue_pairs(approval: Approval, base: Commit, head: Commit) -> int:
    """Queue the pairs of an approved head against this base. Return the number of runs.

    Raises DefinitionError or NotApprovable.
    """
    pull, project = approval.pull_request, approval.project
    policy = policies.policy_of(Branch(project=project, name=pull.base_ref))
    machines = policies.machines_of(policy)
    if not machines:
        raise NotApprovable(f"no machine measures {project}: add one first")
    with transaction.atomic():
        suite, usual = usual_set(project, policies.suite_of(policy))
        queue.cancel_waiting(
            Run.objects.filter(reason=Reason.PULL, commit__in=heads_before(approval)), "a newer head was approved"
        )
        questions = [Question(base.pk, head.pk, machine, suite, usual, Reason.PULL) for machine in machines]
        new = [plan_pairs(question) for question in questions if not question.runs.filter(benchmark_set=usual).exists()]
        Approval.objects.filter(pk=approval.pk).update(planned_at=Now(), head=head, base=base)
    return len(new)


def heads_before(approval: Approval) -> list[int]:
    """The ids of the heads of the same pull request that were approved earlier."""
    approvals = Approval.objects.filter(pull_request=approval.pull_request, head__isnull=False).exclude(pk=approval.pk)
    return list(approvals.values_list("head_id", flat=True))


def runs_of(approval: Approval) -> list[Run]:
    """The runs of an approved head, newest first."""
    if approval.head_id is None:
        return []
    runs = Run.objects.filter(reason=Reason.PULL, commit=approval.head_id, base=approval.base_id)
    return list(runs.select_related("machine").order_by("-pk"))
