"""The home page: is each project measured up to its head, and did it get slower?"""

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import Count, F

from speedtrack.alerts.lines import Array, array_of, sql
from speedtrack.alerts.models import Alert
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import Machine
from speedtrack.web.pages import changes
from speedtrack.web.pages.changes import ChangeGroup

WINDOW = 60  # commits of the default branch that the trend shows
MOST_RUNS = 200  # of a project on a machine that are counted: however many wait, they are read from an index
PATHS = """
    SELECT b.project_id, ARRAY(SELECT p.commit_id FROM projects_position p WHERE p.branch_id = b.id
                             ORDER BY p.number DESC LIMIT %(window)s)
      FROM projects_branch b
     WHERE b.id = ANY(%(branches)s)
"""
HEADLINES = sql("""
    SELECT s.project_id, found.*
      FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[]) AS b(project_id, id)
CROSS JOIN LATERAL (
        SELECT ARRAY(SELECT p.commit_id FROM projects_position p WHERE p.branch_id = b.id
                   ORDER BY p.number DESC LIMIT %(window)s) AS commits OFFSET 0) path
      JOIN runs_series s ON s.project_id = b.project_id AND s.metric = %(metric)s
CROSS JOIN LATERAL (
        SELECT array_send(array_agg(m.commit_id ORDER BY m.attempt_id)),
               array_send(array_agg(m.value ORDER BY m.attempt_id))
          FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = ANY(path.commits) AND IS_CLEAN_POINT
        HAVING count(*) > 0) found
""")
UNFINISHED = """
    SELECT p.id, sum(counted.runs)::int, bool_or(counted.runs = %(most)s)
      FROM projects_project p CROSS JOIN runs_machine m CROSS JOIN LATERAL (
        SELECT count(*) AS runs
          FROM (SELECT FROM runs_run r
                 WHERE r.machine_id = m.id AND r.project_id = p.id AND r.status IN ('queued', 'leased', 'running')
                 LIMIT %(most)s) few) counted
  GROUP BY p.id
"""


@dataclass
class Card:
    """One project. ``lag``: by how many commits the newest measured one is behind the head; None: none is measured.

    ``unfinished``: runs that wait or run; ``or_more``: there may be more of them.
    """

    project: Project
    branch: Branch | None
    open_alerts: int
    unfinished: int
    or_more: bool
    metric: Metric
    line: list[float | None] = field(default_factory=list)
    lag: int | None = None
    benchmarks: int = 0

    @property
    def fresh(self) -> bool:
        return self.lag == 0


@dataclass(frozen=True)
class HomePage:
    cards: list[Card]
    changes: list[ChangeGroup]
    quarantined: list[Machine]


def load() -> HomePage:
    return HomePage(project_cards(), latest_changes(), quarantined_machines())


def project_cards() -> list[Card]:
    """One card per project; the number of queries does not depend on how many there are."""
    alerts = dict(Alert.objects.work().values_list("project").annotate(count=Count("pk")))
    followed = Branch.objects.filter(name=F("project__default_branch")).select_related("head")
    branches = {branch.project_id: branch for branch in followed}
    waiting = unfinished_runs()
    values = headline_values(branches)
    made = []
    for project in Project.objects.order_by("name"):
        branch = branches.get(project.pk)
        card = Card(project, branch, alerts.get(project.pk, 0), *waiting[project.pk], METRICS[HEADLINE])
        if branch:
            fill_card(card, values.get(project.pk, np.empty((0, 0))))
        made.append(card)
    return made


def unfinished_runs() -> dict[int, tuple[int, bool]]:
    """By project: how many runs wait or run, and whether there may be more."""
    with connection.cursor() as cursor:
        cursor.execute(UNFINISHED, {"most": MOST_RUNS})
        return {project_id: (count, more) for project_id, count, more in cursor}


def headline_values(branches: dict[int, Branch]) -> dict[int, Array]:
    """By project: the clean values of its headline series for the newest commits of its branch, oldest first.

    One row per series; NaN where a commit was not measured.
    """
    asked: dict[str, Any] = {
        "metric": HEADLINE,
        "window": WINDOW,
        "projects": list(branches),
        "branches": [branch.pk for branch in branches.values()],
    }
    rows: dict[int, list[Array]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(PATHS, asked)
        paths = {project_id: np.array(commits[::-1], np.int64) for project_id, commits in cursor}
        orders = {project_id: np.argsort(path) for project_id, path in paths.items()}
        cursor.execute(HEADLINES, asked)
        for project_id, commits, values in cursor:
            path, order = paths[project_id], orders[project_id]
            row = np.full(len(path), np.nan)
            row[order[np.searchsorted(path, array_of(commits), sorter=order)]] = array_of(values)
            rows[project_id].append(row)
    return {project_id: np.array(rows.get(project_id, np.empty((0, len(path))))) for project_id, path in paths.items()}


def fill_card(card: Card, values: Array) -> None:
    """Set the line of a card, and how far its newest measured commit is behind the head."""
    card.line, card.benchmarks = joint_line(values), len(values)
    card.lag = next((lag for lag, value in enumerate(reversed(card.line)) if value is not None), None)


def joint_line(values: Array) -> list[float | None]:
    """The geometric mean of several lines, each divided by its own median, so that all weigh the same.

    None where no line has a value.
    """
    positive = np.where(values > 0, values, np.nan)
    positive = positive[np.isfinite(positive).any(axis=1)]
    if not len(positive):
        return [None] * values.shape[1]
    scaled = np.log(positive / np.nanmedian(positive, axis=1, keepdims=True))
    known = np.isfinite(scaled)
    sums, counts = np.where(known, scaled, 0).sum(axis=0), known.sum(axis=0)
    return [math.exp(total / count) if count else None for total, count in zip(sums, counts.tolist(), strict=True)]


def latest_changes() -> list[ChangeGroup]:
    """The newest changes on the default branches of all projects."""
    default = F("branch__project__default_branch")
    return changes.newest_groups(changes.change_points().filter(commit__positions__branch__name=default), 10)


def quarantined_machines() -> list[Machine]:
    """The machines in quarantine."""
    return list(Machine.objects.filter(quarantined_at__isnull=False).order_by("name"))
