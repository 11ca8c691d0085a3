"""What lies near a commit: its parents, commits before and after it on its branch, its tags and the last release."""

from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import F, IntegerField, OuterRef, Subquery, Value
from django.db.models.functions import Extract, JSONObject

from speedtrack.projects.models import Commit, Tag
from speedtrack.projects.releases import version_of
from speedtrack.web.pages.commit.results import BranchPlace, SeriesResult

PARENT = -1  # instead of a position
EPOCH = Extract("committed_at", "epoch")


class LastRelease(NamedTuple):
    """The release that was committed last before a commit."""

    tag: str
    sha: str


def commits_around(
    commit: Commit, place: BranchPlace | None, results: list[SeriesResult]
) -> tuple[list[Commit | str], dict[int, Commit]]:
    """The parents, and other commits that the page names by their distance.

    A parent that is not stored is given as its hash. The second value: distance -> commit; positive distances are
    before this commit on its branch, negative ones after it.
    """
    known = Commit.objects.filter(project=commit.project, sha__in=commit.parents)
    found = known.annotate(number=Value(PARENT, IntegerField()))
    if place:
        distances = {1, -1, *(one.comparison.distance for one in results if one.comparison)}
        numbers = [place.number - distance for distance in distances]
        near = Commit.objects.filter(positions__branch=place.branch, positions__number__in=numbers)
        found = found.union(near.annotate(number=F("positions__number")), all=True)
    rows: list[tuple[Commit, int]] = [(row, row.number) for row in found]
    parents = {row.sha: row for row, number in rows if number == PARENT}
    named = {place.number - number: row for row, number in rows if place and number != PARENT}
    return [parents.get(sha, sha) for sha in commit.parents], named


#: Of a commit: the tags of its project in the order of their names, each with its commit and that one's time.
TAGS = ArraySubquery(
    Tag.objects.filter(project=OuterRef("project"))
    .annotate(
        at=Subquery(Commit.objects.filter(project=OuterRef("project"), sha=OuterRef("sha")).values_list(EPOCH)[:1])
    )
    .order_by("name")
    .values_list(JSONObject(name="name", sha="sha", at="at"))
)


def tags_around(commit: Commit, tags: list[dict[str, Any]]) -> tuple[list[str], LastRelease | None]:
    """The commit's tags, and the last release before it. ``tags``: those of TAGS.

    Releases are ordered by date, since many are made on branches of their own.
    """
    releases = [
        (one["at"], version, one["name"], one["sha"])
        for one in tags
        if one["at"] and one["at"] < commit.committed_at.timestamp() and (version := version_of(one["name"]))
    ]
    last = max(releases, default=None)
    return [one["name"] for one in tags if one["sha"] == commit.sha], LastRelease(*last[2:]) if last else None
