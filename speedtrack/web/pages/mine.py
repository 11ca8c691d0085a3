"""My pushes: what the newest commits and pull requests of a person did, at the top of the home page."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils import timezone

from speedtrack.accounts import people
from speedtrack.accounts.access import Access
from speedtrack.ground.postgres.pgvalues import row_of
from speedtrack.judging.summaries import State, Summary, pull_summaries, summaries_of
from speedtrack.projects.models import Commit, Project
from speedtrack.runs.models import Approval, Reason, Run
from speedtrack.runs.scheduling import states
from speedtrack.web.pages.running.live import stream_of_queue

LATELY = timedelta(days=14)
MOST_COMMITS, MOST_PULLS = 10, 5
# Of a person: the addresses, the newest commits on branches of tracked projects, and of each pull request the newest
# approval of its head, those that were approved last.
OWN = f"""
      WITH own AS MATERIALIZED ({people.ADDRESSES})
    SELECT ARRAY(SELECT address FROM own),
           ARRAY(SELECT c.id FROM projects_commit c
                  WHERE c.committed_at > %(since)s AND c.unreachable_since IS NULL
                    AND lower(c.author_email) = ANY (ARRAY(SELECT address FROM own))
                    AND c.project_id IN (SELECT id FROM projects_project WHERE untracked_at IS NULL)
                    AND c.project_id <> ALL (%(hidden)s::bigint[])
                    AND EXISTS (SELECT FROM projects_position p WHERE p.commit_id = c.id)
               ORDER BY c.committed_at DESC, c.id DESC LIMIT %(commits)s),
           ARRAY(SELECT a.id
                   FROM runs_approval a
                   JOIN projects_commit head ON head.id = a.head_id
                   JOIN projects_pullrequest pull ON pull.id = a.pull_request_id
                  WHERE a.at > %(since)s AND lower(head.author_email) = ANY (ARRAY(SELECT address FROM own))
                    AND pull.project_id <> ALL (%(hidden)s::bigint[])
                    AND NOT EXISTS (SELECT FROM runs_approval newer
                                     WHERE newer.pull_request_id = a.pull_request_id AND newer.id > a.id
                                       AND newer.head_id IS NOT NULL)
               ORDER BY a.id DESC LIMIT %(pulls)s)
"""  # noqa: S608 - constants


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


class Own(NamedTuple):
    """The addresses of a person, the newest commits by them, and the newest approvals of pull requests by them: ids."""

    addresses: list[str]
    commits: list[int]
    approvals: list[int]


def load(access: Access, version: str = "") -> MyPushes | None:
    """The pushes of the caller, whose addresses their commits have; None without a person.

    ``version``: that of the queues, if it was read before.
    """
    user = access.caller.user
    if user is None:
        return None
    version = version or states.version_now()  # first: what changes meanwhile makes the page load it again
    own = own_of(user, access)
    return MyPushes(sorted(own.addresses), pushes_of(own), version)


def own_of(user: User, access: Access) -> Own:
    parameters: dict[str, Any] = {
        "user": user.pk,
        "hidden": sorted(access.hidden),
        "since": timezone.now() - LATELY,
        "commits": MOST_COMMITS,
        "pulls": MOST_PULLS,
    }
    return Own._make(row_of(OWN, parameters))


def pushes_of(own: Own) -> list[Push]:
    """What a person pushed: pull requests, then commits, each newest first."""
    return [*pulls_of(own.approvals), *commits_of(own.commits)]


def commits_of(ids: list[int]) -> list[Push]:
    """The pushes of these commits, in this order."""
    rows = Commit.objects.select_related("project").in_bulk(ids) if ids else {}
    summaries = summaries_of(ids) if ids else {}
    return [Push(rows[pk].project, rows[pk], summaries[pk]) for pk in ids if pk in rows]


def pulls_of(ids: list[int]) -> list[Push]:
    """The pushes of the heads with these approvals, the newest first."""
    if not ids:
        return []
    approvals = Approval.objects.filter(pk__in=ids).select_related("pull_request__project", "head")
    rows = list(approvals.order_by("-pk"))
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
        for push in (pushes_of(own_of(user, access)) if user else [])
    ]
