"""Data along the paths of a timeline: commits, gaps, changes, tags, annotations, releases and single trials.

An annotation stands at the commit that it is about, or at the one that followed its moment.
"""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple

from django.db.models import F, Q, QuerySet

from speedtrack.alerts.lines.lines import sql
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.ground.postgres.plainrows import among
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.ground.texts.markdown import plain_of
from speedtrack.projects.releases import RELEASE
from speedtrack.runs.models import Deferral, Run
from speedtrack.web.drawing.charts.gaps import DEFERRAL_COLUMNS, GAP_COLUMNS, WITHOUT_POINT, Gap, newest_gaps
from speedtrack.web.pages import changes
from speedtrack.web.pages.timeline.overlay import Overlay, rows_of
from speedtrack.web.pages.timeline.view import View

NEWEST_CHANGES = 60
COMMITS = """
    SELECT asked.place - 1, p.number, c.sha, c.subject, c.author_name, extract(epoch FROM c.committed_at)::bigint
      FROM unnest(%(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
           WITH ORDINALITY AS asked (branch_id, first, last, place)
      JOIN projects_position p ON p.branch_id = asked.branch_id AND p.number BETWEEN asked.first AND asked.last
      JOIN projects_commit c ON c.id = p.commit_id
  ORDER BY asked.place, p.number
"""

MOST_NOTES = 500  # the newest
LONGEST_NOTE = 500  # characters
# A moment belongs to the first commit at or after it, or to the last one if it is after all of them. For moments, the
# commits next to the path are read as well: what happened before the one or after the other is out of sight. A commit
# that is older than one before it does not count: dates may go back.
NOTES = """
    WITH notes AS MATERIALIZED (
        SELECT * FROM (
            SELECT a.id, a.text, coalesce(u.username, '') AS author, extract(epoch FROM a.moment)::float8 AS moment,
                   (SELECT number FROM projects_position p
                     WHERE p.commit_id = a.commit_id AND p.branch_id = %(branch)s) AS number
              FROM projects_annotation a LEFT JOIN auth_user u ON u.id = a.author_id
             WHERE a.project_id = %(project)s OR a.project_id IS NULL) found
         WHERE moment IS NOT NULL OR number BETWEEN %(first)s AND %(last)s
      ORDER BY id DESC LIMIT %(most)s
    ), times AS MATERIALIZED (
        SELECT p.number, extract(epoch FROM c.committed_at)::float8 AS at
          FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
         WHERE EXISTS (SELECT FROM notes WHERE moment IS NOT NULL)
           AND p.branch_id = %(branch)s AND p.number BETWEEN %(first)s - 1 AND %(last)s + 1
    ), ends AS (
        SELECT min(number) AS begin, max(number) AS last FROM times
    ), following AS (
        SELECT id, min(number) OVER (ORDER BY at DESC) AS number
          FROM (SELECT NULL AS id, number, at FROM times
                 UNION ALL
                SELECT id, NULL, moment FROM notes WHERE moment IS NOT NULL) each
    ), placed AS (
        SELECT n.id, n.text, n.author,
               CASE WHEN n.moment IS NULL THEN n.number
                    WHEN f.number IS NULL THEN ends.last
                    WHEN f.number > ends.begin THEN f.number END AS number
          FROM notes n CROSS JOIN ends LEFT JOIN following f ON f.id = n.id
    ), tags AS (
        SELECT asked.place, p.number, t.name
          FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
               WITH ORDINALITY AS asked (project_id, branch_id, first, last, place)
          JOIN projects_tag t ON t.project_id = asked.project_id
          JOIN projects_commit c ON c.project_id = t.project_id AND c.sha = t.sha
    CROSS JOIN LATERAL (
            SELECT number FROM projects_position WHERE branch_id = asked.branch_id AND commit_id = c.id OFFSET 0) p
         WHERE p.number BETWEEN asked.first AND asked.last
    )
    SELECT (SELECT coalesce(json_agg(json_build_array(place - 1, number, name) ORDER BY place, number, name), '[]')
              FROM tags),
           (SELECT coalesce(json_agg(json_build_array(number, text, id, author) ORDER BY number, id), '[]')
              FROM placed WHERE number BETWEEN %(first)s AND %(last)s)
"""
# The measured releases. Of another branch than the default one, only those that lie on it. The tags of a project are
# read once, not for each branch and point.
RELEASES = sql("""
      WITH release AS MATERIALIZED (
        SELECT o.id AS project_id, o.default_branch, t.name, c.id AS commit_id, c.committed_at,
               string_to_array(substring(t.name FROM %(release)s), '.')::numeric[] AS version
          FROM projects_project o
          JOIN projects_tag t ON t.project_id = o.id AND t.name ~ %(release)s
          JOIN projects_commit c ON c.project_id = o.id AND c.sha = t.sha
         WHERE o.id = ANY (%(projects)s::bigint[])),
           path AS MATERIALIZED (
        SELECT asked.place, array_agg(r.commit_id) AS commits
          FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[])
               WITH ORDINALITY AS asked (project_id, branch_id, place)
          JOIN projects_branch b ON b.id = asked.branch_id
          JOIN release r ON r.project_id = asked.project_id
         WHERE b.name = r.default_branch
            OR EXISTS (SELECT FROM projects_position p WHERE p.branch_id = b.id AND p.commit_id = r.commit_id)
      GROUP BY asked.place)
    SELECT path.place - 1, s.id, r.name, extract(epoch FROM r.committed_at)::bigint, m.value, m.low, m.high
      FROM path
      JOIN unnest(%(series)s::bigint[], %(places)s::bigint[]) AS s (id, place) ON s.place = path.place
CROSS JOIN LATERAL (
        SELECT * FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = ANY (path.commits) AND IS_CLEAN_POINT OFFSET 0) m
      JOIN release r ON r.commit_id = m.commit_id
  ORDER BY r.committed_at, r.version, m.attempt_id
""")
MOST_POINTS = 400  # whose single trials are shown
TRIALS = sql("""
    SELECT asked.path, m.series_id, p.number, a.run_id, s.values, s.flagged
      FROM unnest(%(paths)s::int[], %(series)s::bigint[], %(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
           AS asked (path, series_id, branch_id, first, last)
CROSS JOIN LATERAL (
        SELECT m.* FROM runs_measurement m
         WHERE m.series_id = asked.series_id
           AND m.commit_id = ANY(ARRAY(SELECT commit_id FROM projects_position
                                        WHERE branch_id = asked.branch_id
                                          AND number BETWEEN asked.first AND asked.last))
           AND IS_POINT OFFSET 0) m
      JOIN projects_position p ON p.branch_id = asked.branch_id AND p.commit_id = m.commit_id
      JOIN runs_attempt a ON a.id = m.attempt_id
 LEFT JOIN runs_samples s ON s.measurement_id = m.id
  ORDER BY m.attempt_id
""")


class TimelineCommit(NamedTuple):
    """A commit of a path; ``at``: its time in seconds since 1970."""

    path: int
    number: int
    sha: str
    subject: str
    author: str
    at: int

    @property
    def time(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)


def commits_of(overlay: Overlay) -> list[TimelineCommit]:
    """The commits of all paths, each path by itself, oldest first."""
    return [TimelineCommit._make(row) for row in overlay.fetch(COMMITS)]


Gaps = list[dict[int, Gap]]


def gaps_in(overlay: Overlay) -> Gaps:
    """By path and position: why the newest own run on the lines' machines, or else the branch's policy, left its commit
    without a point."""
    branches = {path.branch.pk: number for number, path in enumerate(overlay.paths)}
    # "+ 0": without it PostgreSQL reads all runs of a machine rather than the index of the runs without a point.
    runs = Run.objects.own().annotate(on_machine=F("machine_id") + 0).filter(WITHOUT_POINT)
    own, deferred = Q(pk__in=[]), Q(pk__in=[])
    for path, along in zip(overlay.paths, overlay.along, strict=True):
        machines = {series.machine_id for _, series in along.values()}
        within = Q(commit__positions__branch=path.branch, commit__positions__number__range=(path.first, path.last))
        own |= within & Q(project=path.branch.project_id, on_machine__in=machines)
        deferred |= within & Q(branch=path.branch)
    position_columns = ("commit__positions__branch", "commit__positions__number")
    rows = runs.filter(own).values_list(*position_columns, *GAP_COLUMNS)
    rows = rows.union(Deferral.objects.filter(deferred).values_list(*position_columns, *DEFERRAL_COLUMNS), all=True)
    gaps: Gaps = [{} for _ in overlay.paths]
    ordered = sorted(rows, key=itemgetter(2))
    for (branch, number), gap in newest_gaps(((row[0], row[1]), *row[2:]) for row in ordered).items():
        gaps[branches[branch]][number] = gap
    return gaps


# The change points of all series and the bounds of each path's commit ids once, then those between the bounds: a series
# may run along several branches, of which a short part is shown.
CHANGES = """
      WITH points AS MATERIALIZED (
        SELECT cp.*, s.metric, alert.status AS alert_state
          FROM alerts_changepoint cp JOIN runs_series s ON s.id = cp.series_id
     LEFT JOIN alerts_alert alert ON alert.id = cp.alert_id
         WHERE cp.series_id = ANY (%(series)s)),
           paths AS MATERIALIZED (
        SELECT asked.*, least, most
          FROM unnest(%(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
               WITH ORDINALITY AS asked (branch_id, first, last, place)
    CROSS JOIN LATERAL (
            SELECT min(commit_id) AS least, max(commit_id) AS most FROM projects_position
             WHERE branch_id = asked.branch_id AND number BETWEEN asked.first AND asked.last) bounds)
    SELECT path.place - 1, p.number, cp.series_id, cp.metric, cp.status, cp.ratio, cp.low, cp.high,
           cp.from_zero, cp.alert_id, cp.alert_state,
           (SELECT f.number FROM projects_position f
             WHERE f.branch_id = path.branch_id AND f.commit_id = cp.before_id)
      FROM paths path
      JOIN unnest(%(series)s::bigint[], %(places)s::bigint[]) AS along (series_id, place) ON along.place = path.place
      JOIN points cp ON cp.series_id = along.series_id AND cp.commit_id BETWEEN path.least AND path.most
CROSS JOIN LATERAL (
        SELECT number FROM projects_position
         WHERE branch_id = path.branch_id AND commit_id = cp.commit_id OFFSET 0) p
     WHERE p.number BETWEEN path.first AND path.last
  ORDER BY path.place, p.number, cp.id
"""


class ShownChange(NamedTuple):
    """What the chart shows of a change point: the positions of its commit and of the one before its range."""

    path: int
    place: int
    series: int
    metric: str
    status: str
    ratio: float
    low: float
    high: float
    from_zero: float | None
    alert_id: int | None
    alert_state: str | None
    before_place: int | None

    @property
    def width(self) -> int:
        """How many commits may be the cause; 1 where the branch has lost them."""
        return 1 if self.before_place is None else self.place - self.before_place

    @property
    def is_slowdown(self) -> bool:
        return METRICS[self.metric].is_worse(self.ratio)

    @property
    def change_in_words(self) -> str:
        return numbers.change_from(METRICS[self.metric], self.ratio, self.from_zero)

    @property
    def is_visible(self) -> bool:
        return self.status in changes.VISIBLE


def changes_on(overlay: Overlay) -> list[ShownChange]:
    """The change points of the lines of all paths, each path by itself, in commit order.

    As columns: a long timeline has thousands of them.
    """
    each = [(number, pk) for number, along in enumerate(overlay.along) for pk in along]
    rows = overlay.fetch(CHANGES, series=[pk for _, pk in each], places=[number + 1 for number, _ in each])
    return list(map(ShownChange._make, rows))


def changes_of_series(branch: int, first: int, last: int, series: list[int]) -> QuerySet[ChangePoint]:
    points: QuerySet[Any] = changes.on_branch(branch, first, last).filter(among("series_id", series))
    return points.order_by("-place", "-pk")[:NEWEST_CHANGES]


CHANGES_OF_SERIES = PreparedQuery(changes_of_series)


def newest_changes(view: View) -> list[ChangePoint]:
    """The newest change points of the page's own lines, newest first."""
    series = [line.pk for line in view.series]
    return CHANGES_OF_SERIES.rows(branch=view.branch.pk, first=view.first, last=view.last, series=series)


#: By path: its tags in the order of their commits.
Tags = list[list[dict[str, Any]]]


def notes_on(overlay: Overlay) -> tuple[Tags, list[dict[str, Any]]]:
    """The tags of all paths, and the annotations along the first one; their places count from the first of the path."""
    page = overlay.paths[0]
    parameters = {"project": page.branch.project_id, "branch": page.branch.pk, "first": page.first, "last": page.last}
    ((tagged, annotated),) = overlay.fetch(NOTES, **parameters, most=MOST_NOTES)
    tags: Tags = [[] for _ in overlay.paths]
    for path, number, name in tagged:
        tags[path].append({"at": number - overlay.paths[path].first, "name": name})
    annotations = [
        {"at": number - page.first, "text": shortened(plain_of(text)), "id": pk, "author": author}
        for number, text, pk, author in annotated
    ]
    return tags, annotations


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST_NOTE else f"{text[: LONGEST_NOTE - 1]}…"


#: By path and series: the releases in the order of their commits' times.
Releases = dict[tuple[int, int], list[dict[str, Any]]]


def releases_of(overlay: Overlay) -> Releases:
    """By path and series: its measured releases. If a commit has several measurements or tags, the last one counts."""
    each = [(series, number) for number, along in enumerate(overlay.along, 1) for series in along]
    series, numbers = [series_id for series_id, _ in each], [number for _, number in each]
    rows = overlay.fetch(RELEASES, series=series, places=numbers, release=f"^{RELEASE.pattern}$")
    releases: Releases = defaultdict(list)
    for path, pk, name, time, *estimate in rows:
        if all(map(math.isfinite, estimate)):
            value, low, high = estimate
            releases[path, pk].append({"name": name, "time": time, "value": value, "low": low, "high": high})
    return releases


@dataclass
class PointTrials:
    """``run``: the newest run of the point. ``values`` and ``void``: its trials that count, and those that do not.

    Both are empty where the samples have been deleted.
    """

    run: int
    values: list[float] = field(default_factory=list)
    void: list[float] = field(default_factory=list)


#: By path, series and position.
Trials = dict[tuple[int, int, int], PointTrials]


def trials_of(overlay: Overlay, points: int) -> tuple[Trials, list[str]]:
    """The trials of all points, and sentences why there are none. ``points``: the number of points."""
    if points > MOST_POINTS:
        return {}, [f"Single trials are shown for at most {MOST_POINTS} points, and these are {points}: zoom in."]
    each = [(number, pk, path) for number, path in enumerate(overlay.paths) for pk in overlay.along[number]]
    rows = rows_of(
        TRIALS,
        paths=[number for number, _, _ in each],
        series=[pk for _, pk, _ in each],
        branches=[path.branch.pk for _, _, path in each],
        firsts=[path.first for _, _, path in each],
        lasts=[path.last for _, _, path in each],
    )
    trials: Trials = {}
    for path, series, number, run, values, flagged in rows:
        point = trials.setdefault((path, series, number), PointTrials(run))
        point.run = run
        for trial, value in enumerate(values or ()):
            if value is not None:
                (point.void if trial in (flagged or ()) else point.values).append(value)
    return trials, []
