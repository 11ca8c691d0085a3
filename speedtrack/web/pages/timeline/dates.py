"""Dates at the ends of a timeline: ``since`` and ``until`` of an address become the commits ``from`` and ``to``."""

from datetime import datetime, timedelta

from django.db.models import QuerySet
from django.http import Http404, QueryDict

from speedtrack.projects.models import Branch, Position
from speedtrack.web.addresses import midnight
from speedtrack.web.scope import scope_of

SHA = 12  # characters in an address, as when a reader zooms


def names_dates(query: QueryDict) -> bool:
    return bool(query.get("since") or query.get("until"))


def with_commits(slug: str, metric: str, query: QueryDict) -> QueryDict:
    """The same query with commits of its branch instead of dates, in UTC; the other end stays as it is.

    A timeline begins with the first commit at or after ``since``, and ends with the last one of the day ``until``.
    Raises Http404 for what does not exist.
    """
    branch = scope_of(slug, query, metric).branch
    if branch is None:
        raise Http404(f"{slug} has no branch yet.")
    parameters = query.copy()
    for key in ("since", "until", "around", "last"):
        parameters.pop(key, None)
    if since := query.get("since"):
        parameters["from"] = first_since(branch, midnight(since))
    if until := query.get("until"):
        parameters["to"] = last_before(branch, midnight(until) + timedelta(days=1))
    return parameters


def first_since(branch: Branch, moment: datetime) -> str:
    """The sha of the first commit of a branch at or after a moment."""
    commits = on_branch(branch).filter(commit__committed_at__gte=moment).order_by("number")
    return sha_or_404(commits, f"{branch} has no commit of {moment.date()} or later: choose an earlier date.")


def last_before(branch: Branch, moment: datetime) -> str:
    """The sha of the last commit of a branch before a moment."""
    commits = on_branch(branch).filter(commit__committed_at__lt=moment).order_by("-number")
    return sha_or_404(commits, f"{branch} has no commit before {moment.date()}: choose a later date.")


def on_branch(branch: Branch) -> QuerySet[Position]:
    return Position.objects.filter(branch=branch, commit__project=branch.project_id)


def sha_or_404(commits: QuerySet[Position], absence: str) -> str:
    sha: str | None = commits.values_list("commit__sha", flat=True).first()
    if sha is None:
        raise Http404(absence)
    return sha[:SHA]
