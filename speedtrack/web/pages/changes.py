"""Recent changes: the change points of one cause as one entry, at its commit or at the range that contains it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db.models import F, OuterRef, QuerySet, Subquery

from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.models.change_points import ChangePointQuerySet
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.ground.postgres.pgvalues import all_rows, apart
from speedtrack.ground.postgres.plainrows import among, plain_rows
from speedtrack.judging.verdicts import SETTLED
from speedtrack.projects import positions as position_sql
from speedtrack.projects.models import Branch, Commit, Position

Status = ChangePoint.Status
MOST_POINTS = 120  # of a branch, read for one list
FEW = 4 * MOST_POINTS  # of a project, which are all looked at
REACH = 1000  # newest commits of a branch whose changes are its newest ones
VISIBLE = (
    Status.SUSPECTED,
    Status.SETTLING,
    Status.CONFIRMED,
    Status.UNSETTLED,
    Status.HISTORY,
    Status.MACHINE,
)


class GroupedPoint(NamedTuple):
    """The columns of a change point that grouping needs. ``width``: how many commits may be the cause."""

    pk: int
    status: str
    ratio: float
    metric: str
    alert_id: int | None
    before_id: int
    commit_id: int
    place: int | None
    reference: str
    width: int | None

    @property
    def positions(self) -> range:
        """Where on the branch the cause may be; empty where the branch has lost it."""
        return range(self.place - (self.width or 1) + 1, self.place + 1) if self.place is not None else range(0)

    @property
    def is_slowdown(self) -> bool:
        return METRICS[self.metric].is_worse(self.ratio)


# Of a project with few change points, these with their positions; else the newest commits of the branch and the change
# points of each until there are enough. So neither a thousand commits without a change are asked for theirs, nor all
# change points read.
NEWEST = f"""
    SELECT b.id, cp.id, cp.status, cp.ratio, s.metric, cp.alert_id, cp.before_id, cp.commit_id, found.number,
           cp.reference, cause.width, moment.seconds
      FROM unnest(%(branches)s::bigint[]) AS b (id)
CROSS JOIN LATERAL (SELECT {position_sql.head("b.id")} AS head OFFSET 0) branch
CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT c.id FROM projects_branch own JOIN projects_branch o ON o.project_id = own.project_id
                       JOIN alerts_changepoint c ON c.branch_id = o.id
                      WHERE own.id = b.id LIMIT %(few)s) AS ids OFFSET 0) few
CROSS JOIN LATERAL (
        (SELECT c.id, p.number
           FROM unnest(few.ids) AS each (id)
     CROSS JOIN LATERAL (
                SELECT id, commit_id FROM alerts_changepoint
                 WHERE id = each.id AND status = ANY (%(visible)s) OFFSET 0) c
     CROSS JOIN LATERAL (
                SELECT number FROM projects_position WHERE branch_id = b.id AND commit_id = c.commit_id OFFSET 0) p
          WHERE cardinality(few.ids) < %(few)s AND p.number > branch.head - %(reach)s
       ORDER BY p.number DESC, c.id DESC LIMIT %(most)s)
      UNION ALL
        (SELECT c.id, p.number
           FROM {position_sql.in_blocks("b.id", "branch.head - %(reach)s + 1", "branch.head", "DESC")} p
     CROSS JOIN LATERAL (
                SELECT id FROM alerts_changepoint
                 WHERE commit_id = p.commit_id AND status = ANY (%(visible)s) OFFSET 0) c
          WHERE cardinality(few.ids) = %(few)s
       ORDER BY p.block DESC, p.number DESC, c.id DESC LIMIT %(most)s)) found
CROSS JOIN LATERAL (SELECT * FROM alerts_changepoint WHERE id = found.id OFFSET 0) cp
CROSS JOIN LATERAL (SELECT metric FROM runs_series WHERE id = cp.series_id OFFSET 0) s
CROSS JOIN LATERAL (
        SELECT (SELECT l.number - f.number
                  FROM projects_position l JOIN projects_position f ON f.branch_id = l.branch_id
                 WHERE l.branch_id = cp.branch_id AND l.commit_id = cp.commit_id AND f.commit_id = cp.before_id
               ) AS width OFFSET 0) cause
CROSS JOIN LATERAL (SELECT extract(epoch FROM committed_at)::float8 AS seconds FROM projects_commit
                     WHERE id = cp.commit_id OFFSET 0) moment
  ORDER BY found.number DESC, cp.id DESC
"""  # noqa: S608 - constants


#: What lists show of a change point. Each further time that is loaded costs more than the rest of its row.
LISTED = (
    *("status", "ratio", "low", "high", "from_zero", "kind", "reference", "series__project", "series__metric"),
    *("alert__status", "alert__assignee__username"),
    *("series__benchmark__name", "series__machine__name", "branch__name", "branch__project__slug"),
    *("branch__project__name", "branch__project__default_branch", "before__sha", "commit__sha", "commit__subject"),
    *("commit__author_name", "commit__committed_at"),
)

LISTED_WITH = {column.partition("__")[0] for column in LISTED if "__" in column}

#: The columns of ``GroupedPoint``, of ``change_points``.
GROUPED = (
    *("pk", "status", "ratio", "series__metric", "alert_id", "before_id", "commit_id", "place", "reference", "width"),
)


@dataclass(frozen=True)
class ChangeGroup:
    """The change points of one cause in one direction, the largest first: ``worst``.

    The cause is ``commit``, or one of the ``width`` commits after ``before`` and up to ``commit``.
    """

    branch: Branch
    before: Commit
    commit: Commit
    width: int
    worst: ChangePoint
    points: list[GroupedPoint]

    @property
    def is_slowdown(self) -> bool:
        return self.worst.is_slowdown

    @property
    def alert_state(self) -> str:
        return self.worst.alert_state

    @property
    def confirmed(self) -> bool:
        return any(point.status == Status.CONFIRMED for point in self.points)

    @property
    def settling(self) -> bool:
        return not self.confirmed and any(point.status in (Status.SUSPECTED, Status.SETTLING) for point in self.points)

    @property
    def state(self) -> str:
        """The state of its alert once that is settled, else how certain the change is."""
        if self.alert_state in SETTLED:
            return self.alert_state
        if self.confirmed or self.settling:
            return "confirmed" if self.confirmed else "suspected"
        statuses = {point.status for point in self.points}
        return next(
            (str(status) for status in (Status.HISTORY, Status.UNSETTLED, Status.MACHINE) if status in statuses), ""
        )

    @property
    def drift(self) -> str:
        """The name of the reference of a drift; empty for a step."""
        return self.worst.reference

    @property
    def holder(self) -> str:
        """Who has its alert, or nobody; empty without one that somebody has to have."""
        alert = self.worst.alert
        if alert is None or alert.status in SETTLED or not self.is_slowdown:
            return ""
        return alert.assignee.username if alert.assignee else "nobody"

    @property
    def alert_id(self) -> int | None:
        return next((point.alert_id for point in self.points if point.alert_id), None)


def change_points() -> ChangePointQuerySet:
    """Change points with their related rows, ``place``: the position on their branch; and ``width``: how many commits
    of it may be the cause.
    """
    positions = Position.objects.filter(branch=OuterRef("branch"))
    first = Subquery(positions.filter(commit=OuterRef("before")).values("number"))
    last = Subquery(positions.filter(commit=OuterRef("commit")).values("number"))
    related = ("series__benchmark", "series__machine", "branch__project", "commit", "before", "alert__assignee")
    points: ChangePointQuerySet = ChangePoint.objects.select_related(*related)
    heavy = ("series__benchmark__definition", "series__machine__facts")
    return points.defer(*heavy).annotate(place=last, width=last - first)


def on_branch(branch: Branch | int | None, first: int = 0, last: int = 2**31 - 1) -> QuerySet[ChangePoint]:
    """The change points whose commit is on a branch between two positions, on whichever branch they were found.

    ``branch``: it, or its id. ``place``: the position of that commit.
    """
    points = change_points().filter(commit__positions__branch=branch, commit__positions__number__range=(first, last))
    return points.annotate(place=F("commit__positions__number"))


def newest_groups(branches: Iterable[int], count: int) -> dict[int, list[ChangeGroup]]:
    """By branch: the causes of the newest changes of its commits, on whichever branch they were found.

    Of each cause only two change points are loaded completely.
    """
    groups = {branch: causes[:count] for branch, causes in newest_causes(branches).by_branch.items()}
    by_pk = listed_points(group for causes in groups.values() for group in causes)
    return {branch: shown_groups(causes, by_pk) for branch, causes in groups.items()}


class NewestChanges(NamedTuple):
    """``of_branches``: by branch, the cause of its newest changes; ``listed``: the newest ones of all branches."""

    of_branches: dict[int, ChangeGroup]
    listed: list[ChangeGroup]


def newest_of_all(branches: Iterable[int], count: int) -> NewestChanges:
    """The newest change of each of these branches, and the newest ones of all by the time of their commits.

    Change points of other causes are not loaded.
    """
    causes = newest_causes(branches)
    every = [group for groups in causes.by_branch.values() for group in groups[:count]]
    every.sort(key=lambda group: causes.committed_at[narrowest_of(group).commit_id], reverse=True)
    firsts, listed = {branch: groups[0] for branch, groups in causes.by_branch.items()}, every[:count]
    by_pk = listed_points([*firsts.values(), *listed])
    return NewestChanges(
        dict(zip(firsts, shown_groups(firsts.values(), by_pk), strict=True)), shown_groups(listed, by_pk)
    )


class NewestCauses(NamedTuple):
    """``by_branch``: the change points of its newest changes by cause; ``committed_at``: by commit, in seconds."""

    by_branch: dict[int, list[list[GroupedPoint]]]
    committed_at: dict[int, float]


def newest_causes(branches: Iterable[int]) -> NewestCauses:
    parameters: dict[str, Any] = {
        "branches": list(branches),
        "reach": REACH,
        "most": MOST_POINTS,
        "few": FEW,
        "visible": list(map(str, VISIBLE)),
    }
    points: dict[int, list[GroupedPoint]] = defaultdict(list)
    committed_at: dict[int, float] = {}
    for branch, *columns, at in all_rows(NEWEST, parameters):
        point = GroupedPoint._make(columns)
        points[branch].append(point)
        committed_at[point.commit_id] = at
    return NewestCauses({branch: by_cause(own) for branch, own in points.items()}, committed_at)


def groups_of_rows(points: QuerySet[ChangePoint]) -> list[ChangeGroup]:
    """The causes of these ``change_points``, in order of first appearance.

    Of each cause only two change points are loaded completely.
    """
    groups = by_cause(map(GroupedPoint._make, points.values_list(*GROUPED)))
    return shown_groups(groups, listed_points(groups))


def listed_points(groups: Iterable[list[GroupedPoint]]) -> dict[int, ChangePoint]:
    """By id: the change points of these groups that lists show, with LISTED alone."""
    pks = {point.pk for group in groups for point in (group[0], narrowest_of(group))}
    with apart():
        rows = plain_rows(ChangePoint.objects.filter(among("pk", pks)), LISTED, LISTED_WITH) if pks else []
    return {row.pk: row for row in rows}


def groups_of(points: Iterable[ChangePoint]) -> list[ChangeGroup]:
    """The causes of these change points, which have their ``place``, in order of first appearance."""
    by_pk = {cp.pk: cp for cp in points}
    rows = [
        GroupedPoint(
            cp.pk,
            cp.status,
            cp.ratio,
            cp.series.metric,
            cp.alert_id,
            cp.before_id,
            cp.commit_id,
            getattr(cp, "place"),  # noqa: B009 (an annotation)
            cp.reference,
            width_of(cp),
        )
        for cp in by_pk.values()
    ]
    return shown_groups(by_cause(rows), by_pk)


def by_cause(points: Iterable[GroupedPoint]) -> list[list[GroupedPoint]]:
    """By cause (an alert, else a range of commits) and direction, in order of first appearance; the largest first.

    A step without an alert has the cause of the alert whose range overlaps its own: what is unsettled in one metric is
    no other event than what another metric has confirmed.
    """
    rows = list(points)
    raised = [
        (point.positions, point.is_slowdown, point.alert_id) for point in rows if point.alert_id and not point.reference
    ]
    groups: dict[tuple[object, ...], list[GroupedPoint]] = {}
    for point in rows:
        alert = point.alert_id or alert_around(point, raised)
        cause = (alert,) if alert else (point.before_id, point.commit_id)
        groups.setdefault((*cause, point.is_slowdown), []).append(point)
    return [
        sorted(group, key=lambda point: (point.status != Status.CONFIRMED, -abs(point.ratio - 1)))
        for group in groups.values()
    ]


def alert_around(step: GroupedPoint, raised: Iterable[tuple[range, bool, int]]) -> int | None:
    """The first alert in a step's direction whose range overlaps the step's. A drift belongs to none.

    ``raised``: the range, the direction and the alert of each change that has one.
    """
    if step.reference:
        return None
    own, is_slowdown = step.positions, step.is_slowdown
    for positions, other_is_slowdown, alert in raised:
        if own.start < positions.stop and positions.start < own.stop and is_slowdown == other_is_slowdown:
            return alert
    return None


def narrowest_of(group: list[GroupedPoint]) -> GroupedPoint:
    return min(group, key=lambda point: point.width or 1)


def shown_groups(groups: Iterable[list[GroupedPoint]], by_pk: Mapping[int, ChangePoint]) -> list[ChangeGroup]:
    """The groups, each at the narrowest range among its points."""
    change_groups = []
    for group in groups:
        narrowest = narrowest_of(group)
        at, worst = by_pk[narrowest.pk], by_pk[group[0].pk]
        change_groups.append(ChangeGroup(at.branch, at.before, at.commit, narrowest.width or 1, worst, group))
    return change_groups


def width_of(cp: ChangePoint) -> int:
    """How many commits may be the cause, as ``change_points`` annotates it; 1 where the branch has lost them."""
    return getattr(cp, "width", None) or 1
