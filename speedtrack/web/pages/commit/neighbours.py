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
    commit: Commit, branch_place: BranchPlace | None, results: list[SeriesResult]
) -> tuple[list[Commit | str], dict[int, Commit]]:
    """The parents, and other commits that the page names by their distance.

    A parent that is not stored is given as its hash. The second value: distance -> commit; positive distances are
    before this commit on its branch, negative ones after it.
    """
    parent_rows = Commit.objects.filter(project=commit.project, sha__in=commit.parents)
    commits = parent_rows.annotate(number=Value(PARENT, IntegerField()))
    if branch_place:
        distances = {1, -1, *(result.comparison.distance for result in results if result.comparison)}
        numbers = [branch_place.number - distance for distance in distances]
        near = Commit.objects.filter(positions__branch=branch_place.branch, positions__number__in=numbers)
        commits = commits.union(near.annotate(number=F("positions__number")), all=True)
    rows: list[tuple[Commit, int]] = [(row, row.number) for row in commits]
    parents = {row.sha: row for row, number in rows if number == PARENT}
    by_distance = {branch_place.number - number: row for row, number in rows if branch_place and number != PARENT}
    return [parents.get(sha, sha) for sha in commit.parents], by_distance


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
        (tag["at"], version, tag["name"], tag["sha"])
        for tag in tags
        if tag["at"] and tag["at"] < commit.committed_at.timestamp() and (version := version_of(tag["name"]))
    ]
    last = max(releases, default=None)
    return [tag["name"] for tag in tags if tag["sha"] == commit.sha], LastRelease(*last[2:]) if last else None
