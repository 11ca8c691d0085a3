"""What lies near a commit: its parents, commits before and after it on its branch, its tags and the last release."""

import numpy as np
from django.db.models import F, IntegerField, Value

from speedtrack.projects.models import Commit
from speedtrack.reports.readings.commits import CommitReading

PARENT = -1  # instead of a position


def commits_around(reading: CommitReading) -> tuple[list[Commit | str], dict[int, Commit]]:
    """The parents, and other commits that the page names by their distance.

    A parent that is not stored is given as its hash. The second value: distance -> commit; positive distances are
    before this commit on its branch, negative ones after it.
    """
    commit, position = reading.commit, reading.position
    parent_rows = Commit.objects.filter(project=commit.project, sha__in=commit.parents)
    commits = parent_rows.annotate(number=Value(PARENT, IntegerField()))
    if position is not None:
        distances = {1, -1, *np.unique(reading.measured.neighbours.distance).tolist()}
        numbers = [position - distance for distance in distances]
        near = Commit.objects.filter(positions__branch=reading.branch, positions__number__in=numbers)
        commits = commits.union(near.annotate(number=F("positions__number")), all=True)
    rows: list[tuple[Commit, int]] = [(row, row.number) for row in commits]
    parents = {row.sha: row for row, number in rows if number == PARENT}
    by_distance = {position - number: row for row, number in rows if position is not None and number != PARENT}
    return [parents.get(sha, sha) for sha in commit.parents], by_distance
