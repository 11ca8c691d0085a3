"""What was measured of the newest releases of projects, and how one of them compares with another."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection

from speedtrack.alerts.lines.linecolumns import array_of
from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import Metric
from speedtrack.judging.evidence import TwoSides
from speedtrack.judging.judge import judge
from speedtrack.judging.totals import Total, total_of
from speedtrack.projects.models import Branch
from speedtrack.projects.releases import RELEASE

MOST = 40  # releases of a project that are searched for measured ones
FEW = 8  # measured ones: enough to find one that has the same lines


def version_in_sql(name: str) -> str:
    return f"string_to_array(substring({name} FROM %(release)s), '.')::numeric[]"


# Releases by version, the highest first. On a branch other than the default one, only those that lie on it. They are
# read in the order of the result, so that no more are looked for than it has; the points of each by series, not by
# commit: a commit has the points of all other metrics and machines as well.
RELEASES = sql(
    """
    SELECT a.project_id, measured.*
      FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[]) AS a(project_id, branch_id)
CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT s.id FROM unnest(%(owners)s::bigint[], %(series)s::bigint[]) s(owner, id)
                      WHERE s.owner = a.project_id) AS series OFFSET 0) own
CROSS JOIN LATERAL (
        SELECT r.name, r.sha, r.id, found.*
          FROM (
                SELECT t.name, c.sha, c.id,
                       VERSION AS version
                  FROM projects_tag t JOIN projects_commit c ON c.project_id = t.project_id AND c.sha = t.sha
                 WHERE t.project_id = a.project_id AND t.name ~ %(release)s
                   AND (%(before)s = '' OR (VERSION, %(before)s) < (BEFORE, t.name))
                   AND (a.branch_id IS NULL OR EXISTS (SELECT FROM projects_position p
                                                        WHERE p.branch_id = a.branch_id AND p.commit_id = c.id))
              ORDER BY version DESC, t.name
                 LIMIT %(most)s) r
    CROSS JOIN LATERAL (
                SELECT array_send(array_agg(m.series_id::bigint ORDER BY m.attempt_id)),
                       array_send(array_agg(m.value ORDER BY m.attempt_id))
                  FROM unnest(own.series) AS s (id)
            CROSS JOIN LATERAL (
                        SELECT m.series_id, m.value, m.attempt_id FROM runs_measurement m
                         WHERE m.series_id = s.id AND m.commit_id = r.id AND IS_CLEAN_POINT OFFSET 0) m
                HAVING count(*) > 0) found
      ORDER BY r.version DESC, r.name
         LIMIT %(measured)s) measured
""".replace("VERSION", version_in_sql("t.name")).replace("BEFORE", version_in_sql("%(before)s::text"))
)


@dataclass(frozen=True)
class MeasuredRelease:
    """A release, and by series the value that was measured of it."""

    tag: str
    sha: str
    commit_id: int
    values: Mapping[int, float]

    @property
    def commits(self) -> dict[int, int]:
        """By series: the commit that it measured."""
        return dict.fromkeys(self.values, self.commit_id)


class ReleasePair(NamedTuple):
    """Two releases, or a release and newer commits: by series, the commit of each side. ``of``: how many benchmarks."""

    metric: Metric
    tag: str
    before: str
    old: Mapping[int, int]
    new: Mapping[int, int]
    of: int

    @property
    def sides(self) -> list[TwoSides]:
        return [TwoSides(pk, self.old[pk], self.new[pk]) for pk in self.new if pk in self.old]


@dataclass(frozen=True)
class ReleaseChange:
    """A release against another one: the total over the benchmarks that both were measured with."""

    tag: str
    before: str
    total: Total


def newest_releases(
    series: Mapping[int, Sequence[int]], branches: Mapping[int, Branch | None], most: int = FEW, before: str = ""
) -> dict[int, list[MeasuredRelease]]:
    """By project id: the releases that its series measured, the newest first. One query for all projects.

    ``branches``: on which branch of each project a release must be; None: on any or none. ``most``: of a project.
    ``before``: only those behind this tag.
    """
    parameters: dict[str, Any] = {
        "projects": list(series),
        "branches": [branch.pk if (branch := branches.get(project)) else None for project in series],
        "owners": [project for project, ids in series.items() for _ in ids],
        "series": [pk for ids in series.values() for pk in ids],
        "release": f"^{RELEASE.pattern}$",
        "most": MOST,
        "measured": most,
        "before": before,
    }
    releases: dict[int, list[MeasuredRelease]] = defaultdict(list)
    commits: set[int] = set()
    with connection.cursor() as cursor:
        cursor.execute(RELEASES, parameters)
        for project, tag, sha, commit, *columns in cursor:
            if commit not in commits:
                ids, values = (array_of(column).tolist() for column in columns)
                releases[project].append(MeasuredRelease(tag, sha, commit, dict(zip(ids, values, strict=True))))
                commits.add(commit)
    return releases


def branch_of_releases(branch: Branch | None, default: str) -> Branch | None:
    """The branch on which releases must be to be compared with a branch; None for the default branch: any."""
    return branch if branch and branch.name != default else None


def last_pair(releases: Sequence[MeasuredRelease], metric: Metric, of: int) -> ReleasePair | None:
    """The newest release that can be compared with one before it."""
    pairs = (pair_of_first(releases[index:], metric, of) for index in range(len(releases)))
    return next((pair for pair in pairs if pair), None)


def pair_of_first(releases: Sequence[MeasuredRelease], metric: Metric, of: int) -> ReleasePair | None:
    """The first of these releases and the newest one before it that shares a series with it."""
    new = releases[0]
    pairs = (ReleasePair(metric, new.tag, old.tag, old.commits, new.commits, of) for old in releases[1:])
    return next((pair for pair in pairs if pair.sides), None)


def judge_releases(pairs: Sequence[ReleasePair]) -> list[ReleaseChange]:
    """The totals of these pairs, by a fixed number of queries."""
    sides = [pair.sides for pair in pairs]
    judgements = judge([side for of_pair in sides for side in of_pair])
    return [
        ReleaseChange(
            pair.tag,
            pair.before,
            total_of(pair.metric, [judgements[side] for side in of_pair if side in judgements], pair.of),
        )
        for pair, of_pair in zip(pairs, sides, strict=True)
    ]
