"""What was measured of the newest releases of projects: the points of some series at their commits."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, NamedTuple

from django.db import connection

from speedtrack.alerts.lines.linecolumns import array_of
from speedtrack.alerts.lines.lines import sql
from speedtrack.benchmarks.metrics import Direction, Metric
from speedtrack.projects.models import Branch
from speedtrack.projects.releases import RELEASE
from speedtrack.stats.compare import LEVEL
from speedtrack.web.drawing.grades import Z95

Z_OF_LEVEL = NormalDist().inv_cdf(1 - LEVEL / 2)
MOST = 40  # releases of a project that are searched for measured ones
# Releases by version, the highest first. On a branch other than the default one, only those that lie on it.
RELEASES = sql("""
    SELECT a.project_id, r.name, r.sha, r.id, found.*
      FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[]) AS a(project_id, branch_id)
CROSS JOIN LATERAL (
        SELECT t.name, c.sha, c.id
          FROM projects_tag t JOIN projects_commit c ON c.project_id = t.project_id AND c.sha = t.sha
         WHERE t.project_id = a.project_id AND t.name ~ %(release)s
           AND (a.branch_id IS NULL OR EXISTS (SELECT FROM projects_position p
                                                WHERE p.branch_id = a.branch_id AND p.commit_id = c.id))
      ORDER BY string_to_array(substring(t.name FROM %(release)s), '.')::numeric[] DESC, t.name
         LIMIT %(most)s) r
CROSS JOIN LATERAL (
        SELECT array_send(array_agg(m.series_id::bigint ORDER BY m.attempt_id)),
               array_send(array_agg(m.value ORDER BY m.attempt_id)),
               array_send(array_agg(m.low ORDER BY m.attempt_id)), array_send(array_agg(m.high ORDER BY m.attempt_id))
          FROM runs_measurement m
         WHERE m.series_id = ANY (ARRAY(SELECT s.id FROM unnest(%(owners)s::bigint[], %(series)s::bigint[]) s(owner, id)
                                         WHERE s.owner = a.project_id))
           AND m.commit_id = r.id AND IS_CLEAN_POINT
        HAVING count(*) > 0) found
""")


class ReleaseEstimate(NamedTuple):
    """A value with its 95% interval, in the metric's unit."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MeasuredRelease:
    """A release, and by series what was measured of it."""

    tag: str
    sha: str
    points: Mapping[int, ReleaseEstimate]


class Ratio(NamedTuple):
    """New / old with its 95% interval. ``look``: worse, better, or same where it does not matter or may be chance.

    Chance is judged at the 1% level, as in comparisons: two runs of one build differ by more than their trials tell.
    """

    ratio: float
    low: float
    high: float
    look: str


@dataclass(frozen=True)
class ReleaseChange:
    """A release against the one before it: the geometric mean over the ``series`` that both were measured with."""

    tag: str
    before: str
    change: Ratio
    series: int


def newest_releases(
    series: Mapping[int, Sequence[int]], branches: Mapping[int, Branch | None]
) -> dict[int, list[MeasuredRelease]]:
    """By project id: the releases that its series measured, the newest first. One query for all projects.

    ``branches``: on which branch of each project a release must be; None: on any or none.
    """
    parameters: dict[str, Any] = {
        "projects": list(series),
        "branches": [branch.pk if (branch := branches.get(project)) else None for project in series],
        "owners": [project for project, ids in series.items() for _ in ids],
        "series": [pk for ids in series.values() for pk in ids],
        "release": f"^{RELEASE.pattern}$",
        "most": MOST,
    }
    releases: dict[int, list[MeasuredRelease]] = defaultdict(list)
    commits: set[int] = set()
    with connection.cursor() as cursor:
        cursor.execute(RELEASES, parameters)
        for project, tag, sha, commit, *columns in cursor:
            if commit not in commits:
                ids, *values = (array_of(column).tolist() for column in columns)
                points = {pk: ReleaseEstimate(*estimate) for pk, *estimate in zip(ids, *values, strict=True)}
                releases[project].append(MeasuredRelease(tag, sha, points))
                commits.add(commit)
    return releases


def branch_of_releases(branch: Branch | None, default: str) -> Branch | None:
    """The branch on which releases must be to be compared with a branch; None for the default branch: any."""
    return branch if branch and branch.name != default else None


def ratio_of(old: ReleaseEstimate, new: ReleaseEstimate, metric: Metric, smallest_effect: float) -> Ratio | None:
    """The ratio of two estimates; None if it has no meaning."""
    if min(old.low, new.low, old.value, new.value) <= 0:
        return None
    return ratio_from_logs([math.log(new.value / old.value)], [log_error(old), log_error(new)], metric, smallest_effect)


def log_error(estimate: ReleaseEstimate) -> float:
    """The standard error of an estimate's logarithm, from its interval."""
    return math.log(estimate.high / estimate.low) / (2 * Z95)


def ratio_from_logs(shifts: Sequence[float], errors: Sequence[float], metric: Metric, smallest_effect: float) -> Ratio:
    """The geometric mean of ratios by their logarithms; ``errors``: those of all values."""
    shift, half = math.fsum(shifts) / len(shifts), Z95 * math.hypot(*errors) / len(shifts)
    matters = abs(shift) >= math.log1p(smallest_effect) and abs(shift) > half * Z_OF_LEVEL / Z95
    worse = (shift > 0) == (metric.better == Direction.LOWER)
    look = ("worse" if worse else "better") if matters else "same"
    return Ratio(math.exp(shift), math.exp(shift - half), math.exp(shift + half), look)


def last_change(releases: Sequence[MeasuredRelease], metric: Metric, smallest_effect: float) -> ReleaseChange | None:
    """The change of the newest release that can be compared with one before it."""
    changes = (change_of_first(releases[index:], metric, smallest_effect) for index in range(len(releases)))
    return next((change for change in changes if change), None)


def change_of_first(
    releases: Sequence[MeasuredRelease], metric: Metric, smallest_effect: float
) -> ReleaseChange | None:
    """The first of these releases against the newest one before it that shares a series with it."""
    changes = (change_between(old, releases[0], metric, smallest_effect) for old in releases[1:])
    return next((change for change in changes if change), None)


def change_between(
    old: MeasuredRelease, new: MeasuredRelease, metric: Metric, smallest_effect: float
) -> ReleaseChange | None:
    shared = [pk for pk in new.points if pk in old.points and min(new.points[pk].low, old.points[pk].low) > 0]
    if not shared:
        return None
    shifts = [math.log(new.points[pk].value / old.points[pk].value) for pk in shared]
    errors = [log_error(release.points[pk]) for pk in shared for release in (old, new)]
    return ReleaseChange(new.tag, old.tag, ratio_from_logs(shifts, errors, metric, smallest_effect), len(shared))
