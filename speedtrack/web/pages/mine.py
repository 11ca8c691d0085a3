"""My pushes: what the newest commits and pull requests of a person did, at the top of the home page."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Lower
from django.utils import timezone

from speedtrack.accounts import people
from speedtrack.accounts.access import Access
from speedtrack.judging.summaries import State, Summary, pull_summaries, summaries_of
from speedtrack.projects.models import Commit, Position, Project
from speedtrack.runs.models import Approval, Reason, Run
from speedtrack.runs.scheduling import states
from speedtrack.web.pages.running.live import stream_of_queue

LATELY = timedelta(days=14)
MOST_COMMITS, MOST_PULLS = 10, 5


class Push(NamedTuple):
    """A commit, or the approved head of a pull request ``number``, and what it did."""

    project: Project
    commit: Commit
    summary: Summary
    number: int | None = None
    title: str = ""


@dataclass(frozen=True)
class MyPushes:
    """``pushes``: pull requests, then commits, each newest first. ``version``: of the queues before they were read."""

    addresses: list[str]
    pushes: list[Push]
    version: str

    @property
    def days(self) -> int:
        return LATELY.days

    @property
    def stream(self) -> str:
        return stream_of_queue()


def load(access: Access) -> MyPushes | None:
    """The pushes of the caller, whose addresses their commits have; None without a person."""
    user = access.caller.user
    if user is None:
        return None
    version = states.version_now()  # first: what changes meanwhile makes the page load it again
    addresses = sorted(people.addresses_of(user))
    return MyPushes(addresses, pushes_of(addresses, access), version)


def pushes_of(addresses: Collection[str], access: Access) -> list[Push]:
    """What these addresses pushed: pull requests, then commits, each newest first."""
    return [*pulls_of(addresses, access), *commits_of(addresses, access)] if addresses else []


def commits_of(addresses: Collection[str], access: Access) -> list[Push]:
    """The newest commits on branches."""
    commits = Commit.objects.filter(project__in=Project.objects.tracked(), committed_at__gt=timezone.now() - LATELY)
    own = commits.annotate(address=Lower("author_email")).filter(address__in=addresses)
    placed = own.filter(Exists(Position.objects.filter(commit=OuterRef("pk"))), unreachable_since=None)
    rows = list(access.among(placed).select_related("project").order_by("-committed_at", "-pk")[:MOST_COMMITS])
    summaries = summaries_of([commit.pk for commit in rows]) if rows else {}
    return [Push(commit.project, commit, summaries[commit.pk]) for commit in rows]


def pulls_of(addresses: Collection[str], access: Access) -> list[Push]:
    """The pull requests whose head was approved last."""
    approvals = Approval.objects.filter(at__gt=timezone.now() - LATELY, head__isnull=False)
    own = approvals.annotate(address=Lower("head__author_email")).filter(address__in=addresses)
    newer = Approval.objects.filter(pull_request=OuterRef("pull_request"), pk__gt=OuterRef("pk"), head__isnull=False)
    newest = access.among(own.filter(~Exists(newer)), "pull_request__project")
    rows = list(newest.select_related("pull_request__project", "head").order_by("-pk")[:MOST_PULLS])
    if not rows:
        return []
    sides = Q(pk__in=[])
    for approval in rows:
        sides |= Q(base=approval.base_id, commit=approval.head_id)
    runs = Run.objects.filter(sides, reason=Reason.PULL).select_related("machine").defer("machine__facts")
    summaries = pull_summaries(list(runs.order_by("pk")))
    nothing = Summary(State.UNKNOWN, "Not measured")
    return [
        Push(
            approval.project,
            approval.head,
            summaries.get((approval.base_id, approval.head_id), nothing),
            approval.pull_request.number,
            approval.pull_request.title,
        )
        for approval in rows
        if approval.head
    ]


def mine_document(access: Access) -> list[dict[str, Any]]:
    """The pushes of the caller as JSON; none without a person."""
    user = access.caller.user
    return [
        {
            "project": push.project.slug,
            "sha": push.commit.sha,
            "pull": push.number,
            "state": push.summary.state,
            "summary": push.summary.sentence,
        }
        for push in (pushes_of(people.addresses_of(user), access) if user else [])
    ]
