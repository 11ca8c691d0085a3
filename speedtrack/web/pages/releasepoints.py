"""What was measured of the newest releases of projects, and how one of them compares with another."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from speedtrack.alerts.lines.linecolumns import array_of
from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import Metric
from speedtrack.ground.postgres.pgvalues import all_rows
from speedtrack.judging.evidence import TwoSides
from speedtrack.judging.judge import judge
from speedtrack.judging.repeated import NewestValues, SidesOfProject, digest, repeated
from speedtrack.judging.totals import Total, total_of
from speedtrack.projects.models import Branch
from speedtrack.projects.releases import RELEASE

MOST = 40  # releases of a project that are searched for measured ones
FEW = 8  # measured ones: enough to find one that has the same lines
TOTALS: NewestValues[Total] = NewestValues(4000, lambda _: 1)


def version_in_sql(name: str) -> str:
    return f"string_to_array(substring({name} FROM %(release)s), '.')::numeric[]"


# Releases by version, the highest first; of several tags of a commit the first one. On a branch other than the default
# one, only those that lie on it. They are read in the order of the result, so that no more are looked for than it has;
# the points of each by series, not by commit: a commit has the points of all other metrics and machines as well.
TEMPLATE = """
    SELECT a.project_id, measured.*
      FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[]) AS a(project_id, branch_id)
CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT s.id FROM unnest(%(owners)s::bigint[], %(series)s::bigint[]) s(owner, id)
                      WHERE s.owner = a.project_id) AS series OFFSET 0) own
CROSS JOIN LATERAL (
        SELECT r.name, r.sha, r.id, IS_NEWEST, found.*
          FROM (
                SELECT *
                  FROM (SELECT DISTINCT ON (c.id) t.name, c.sha, c.id, VERSION AS version
                          FROM projects_tag t JOIN projects_commit c ON c.project_id = t.project_id AND c.sha = t.sha
                         WHERE t.project_id = a.project_id AND t.name ~ %(release)s
                           AND (%(before)s = '' OR (VERSION, %(before)s) < (BEFORE, t.name))
                           AND (a.branch_id IS NULL
                                OR EXISTS (SELECT FROM projects_position p
                                            WHERE p.branch_id = a.branch_id AND p.commit_id = c.id))
                      ORDER BY c.id, version DESC, t.name) tagged
              ORDER BY version DESC, name
                 LIMIT %(most)s) r
    CROSS JOIN LATERAL (
                SELECT array_send(array_agg(m.series_id::bigint ORDER BY m.attempt_id, m.series_id)),
                       array_send(array_agg(m.value ORDER BY m.attempt_id, m.series_id)),
                       array_send(array_agg(m.attempt_id::bigint ORDER BY m.attempt_id, m.series_id))
                  FROM unnest(own.series) AS s (id)
            CROSS JOIN LATERAL (
                        SELECT m.series_id, m.value, m.attempt_id FROM runs_measurement m
                         WHERE m.series_id = s.id AND m.commit_id = r.id AND IS_CLEAN_POINT OFFSET 0) m
                ) found (ids, measured_values, attempts)
         WHERE found.ids IS NOT NULL OR IS_OF_OTHERS
      ORDER BY r.version DESC, r.name
         LIMIT %(measured)s) measured
""".replace("VERSION", version_in_sql("t.name")).replace("BEFORE", version_in_sql("%(before)s::text"))
RELEASES = sql(TEMPLATE.replace("IS_NEWEST", "true").replace("IS_OF_OTHERS", "false"))
# Whether a release was measured by one of these series; the search ends at the first.
MEASURED_BY = """EXISTS (
    SELECT FROM unnest(%({series})s::int[]) AS s (id)
     CROSS JOIN LATERAL (SELECT FROM runs_measurement m
                          WHERE m.series_id = s.id AND m.commit_id = r.id AND IS_CLEAN_POINT OFFSET 0) m)"""
RELEASES_OF_ROWS = sql(
    TEMPLATE.replace("IS_NEWEST", MEASURED_BY.format(series="newest")).replace(
        "IS_OF_OTHERS", MEASURED_BY.format(series="every")
    )
)


class ComparedRelease(NamedTuple):
    """One side of a comparison of releases: a release, or newer commits without a ``tag``.

    ``commits``: by series, the commit that it measured. ``points``: bytes that differ when any of these points does.
    """

    tag: str
    commits: Mapping[int, int]
    points: bytes


@dataclass(frozen=True)
class MeasuredRelease:
    """A release, and by series the value that was measured of it; ``points``: as that of ComparedRelease.

    ``is_newest``: whether one of the newest series of ``releases_of_rows`` measured it.
    """

    tag: str
    sha: str
    commit_id: int
    values: Mapping[int, float]
    points: bytes
    is_newest: bool

    @cached_property
    def compared(self) -> ComparedRelease:
        return ComparedRelease(self.tag, dict.fromkeys(self.values, self.commit_id), self.points)


class ReleaseSubject(NamedTuple):
    """What releases are compared by: a metric of a project. ``of``: how many benchmarks there are."""

    project_id: int
    metric: Metric
    of: int


@dataclass(frozen=True)
class ReleasePair:
    """Two releases, or a release and newer commits."""

    subject: ReleaseSubject
    old: ComparedRelease
    new: ComparedRelease

    @cached_property
    def sides(self) -> list[TwoSides]:
        """Of each series that measured both."""
        old, new = self.old.commits, self.new.commits
        return [TwoSides(pk, old[pk], commit) for pk, commit in new.items() if pk in old]

    @property
    def repeated(self) -> SidesOfProject:
        points = digest(self.old.points, self.new.points, self.subject.of.to_bytes(4))
        return SidesOfProject(self.subject.project_id, points, self.sides)


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
    return read(RELEASES, parameters_of(series, branches, most, before))


def releases_to_compare(series: Mapping[int, Sequence[int]]) -> dict[int, list[MeasuredRelease]]:
    """By project id: the newest releases that its series measured, as many as ``last_pair`` needs.

    These are mostly two. More are read of projects whose newest two have no series in common.
    """
    releases = newest_releases(series, {}, 2)
    pairs = {pk: own for pk, own in releases.items() if len(own) == 2}
    unlike = {pk: series[pk] for pk, (new, old) in pairs.items() if new.values.keys().isdisjoint(old.values)}
    return {**releases, **newest_releases(unlike, {})} if unlike else releases


def parameters_of(
    series: Mapping[int, Sequence[int]], branches: Mapping[int, Branch | None], most: int, before: str
) -> dict[str, Any]:
    return {
        "projects": list(series),
        "branches": [branch.pk if (branch := branches.get(project)) else None for project in series],
        "owners": [project for project, ids in series.items() for _ in ids],
        "series": [pk for ids in series.values() for pk in ids],
        "release": f"^{RELEASE.pattern}$",
        "most": MOST,
        "measured": most,
        "before": before,
    }


class SeriesOfRows(NamedTuple):
    """The series of rows of which a page shows some, those of the page first.

    ``newest``: the newest one of each row; ``every``: all.
    """

    newest: list[int]
    every: list[int]


def releases_of_rows(
    project: int, of_page: Sequence[int], of_rows: SeriesOfRows, branch: Branch | None
) -> list[MeasuredRelease]:
    """The releases that any of these rows measured, the newest first, with the values of the series of a page."""
    parameters = parameters_of({project: of_page}, {project: branch}, FEW, "") | of_rows._asdict()
    return read(RELEASES_OF_ROWS, parameters)[project]


def read(query: str, parameters: Mapping[str, Any]) -> dict[int, list[MeasuredRelease]]:
    """By project: its measured releases."""
    releases: dict[int, list[MeasuredRelease]] = defaultdict(list)
    for project, tag, sha, commit, is_newest, *columns in all_rows(query, parameters):
        ids, values = (array_of(column).tolist() for column in columns[:2])
        points = digest(*(column or b"" for column in columns))
        by_series = dict(zip(ids, values, strict=True))
        releases[project].append(MeasuredRelease(tag, sha, commit, by_series, points, is_newest))
    return releases


def branch_of_releases(branch: Branch | None, default: str) -> Branch | None:
    """The branch on which releases must be to be compared with a branch; None for the default branch: any."""
    return branch if branch and branch.name != default else None


def last_pair(releases: Sequence[MeasuredRelease], subject: ReleaseSubject) -> ReleasePair | None:
    """The newest release that can be compared with one before it."""
    pairs = (pair_of_first(releases[index:], subject) for index in range(len(releases)))
    return next((pair for pair in pairs if pair), None)


def pair_of_first(releases: Sequence[MeasuredRelease], subject: ReleaseSubject) -> ReleasePair | None:
    """The first of these releases and the newest one before it that shares a series with it."""
    new, *older = releases
    pairs = (ReleasePair(subject, old.compared, new.compared) for old in older)
    return next((pair for pair in pairs if pair.sides), None)


def judge_releases(pairs: Sequence[ReleasePair]) -> list[ReleaseChange]:
    """The totals of these pairs, by a fixed number of queries."""
    sides = [pair.repeated for pair in pairs]
    totals = repeated(TOTALS, sides, lambda missing: totals_of([pairs[index] for index in missing]))
    return [ReleaseChange(pair.new.tag, pair.old.tag, total) for pair, total in zip(pairs, totals, strict=True)]


def totals_of(pairs: Sequence[ReleasePair]) -> list[Total]:
    """The totals of these pairs, from their samples where no answer is stored."""
    judgements = judge([side for pair in pairs for side in pair.sides])
    return [
        total_of(pair.subject.metric, [judgements[side] for side in pair.sides if side in judgements], pair.subject.of)
        for pair in pairs
    ]
