"""The open pull requests of a project, and what approved heads of them did."""

from dataclasses import dataclass

from django.http import Http404

from speedtrack.judging.pulls import PairedJudgement, judge_pulls
from speedtrack.judging.summaries import Summary, pull_summary
from speedtrack.projects.models import Project, PullRequest
from speedtrack.runs.models import Approval, Run
from speedtrack.runs.planning import pullrequests
from speedtrack.runs.scheduling import standing

SHOWN = 50  # pull requests
ENDED = 20  # closed ones that were measured


@dataclass(frozen=True)
class PullRow:
    """A pull request, the newest approval of it, and its result. ``is_current``: the approval is of today's head."""

    pull: PullRequest
    approval: Approval | None
    is_current: bool
    runs: list[Run]
    judgements: list[PairedJudgement]
    summary: Summary | None  #: None until its runs are planned


@dataclass(frozen=True)
class PullsPage:
    open: list[PullRow]
    ended: list[PullRow]


def pull_or_404(project: Project, number: int) -> PullRequest:
    pull = project.pull_requests.filter(number=number).first()
    if pull is None:
        raise Http404(f"{project} has no pull request {number}.")
    return pull


def load(project: Project) -> PullsPage:
    newest = project.pull_requests.select_related("project").order_by("-number")
    is_open = newest.filter(state=PullRequest.State.OPEN)
    closed_pulls = newest.exclude(state=PullRequest.State.OPEN).filter(approvals__planned_at__isnull=False).distinct()
    return PullsPage([row_of(pull) for pull in is_open[:SHOWN]], [row_of(pull) for pull in closed_pulls[:ENDED]])


def row_of(pull: PullRequest) -> PullRow:
    approval = pull.approvals.select_related("by", "head", "base").order_by("-pk").first()
    runs = pullrequests.runs_of(approval) if approval else []
    is_current = approval is not None and approval.head_sha == pull.head_sha
    judgements = judge_pulls(runs) if runs else []
    summary = pull_summary(judgements, runs, standing.why_wait(runs)) if runs else None
    return PullRow(pull, approval, is_current, runs, judgements, summary)
