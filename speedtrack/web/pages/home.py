"""The home page: is each project measured up to its head, and did it get slower?"""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import Count, F, Q

from speedtrack.alerts.lines import sql
from speedtrack.alerts.models import Alert
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.projects.models import Branch, Commit, Position, Project
from speedtrack.runs.models import Machine, Run
from speedtrack.web.pages import changes
from speedtrack.web.pages.changes import ChangeGroup

WINDOW = 60  # commits of the default branch that the trend shows
# Commits are numbered as they arrive, so the newest of a project are neighbours in the index of a series' points.
HEADLINES = sql("""
    SELECT s.project_id, s.id, array_agg(m.commit_id ORDER BY m.attempt_id), array_agg(m.value ORDER BY m.attempt_id)
      FROM unnest(%(projects)s::bigint[], %(firsts)s::bigint[], %(lasts)s::bigint[]) AS asked(project_id, first, last)
      JOIN runs_series s ON s.project_id = asked.project_id AND s.metric = %(metric)s
      JOIN runs_measurement m ON m.series_id = s.id AND m.commit_id BETWEEN asked.first AND asked.last
       AND IS_CLEAN_POINT
  GROUP BY s.project_id, s.id
""")

Values = dict[int, dict[int, float]]  # series -> commit -> value


@dataclass
class Card:
    """One project. ``lag``: by how many commits the newest measured one is behind the head; None: none is measured."""

    project: Project
    branch: Branch | None
    open_alerts: int
    unfinished: int
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
    waiting = dict(Run.objects.unfinished().values_list("project").annotate(count=Count("pk")))
    paths = newest_commits(branches.values())
    values = headline_values(paths)
    made = []
    for project in Project.objects.order_by("name"):
        branch = branches.get(project.pk)
        card = Card(project, branch, alerts.get(project.pk, 0), waiting.get(project.pk, 0), METRICS[HEADLINE])
        if branch:
            fill_card(card, paths.get(branch.pk, []), values.get(project.pk, {}))
        made.append(card)
    return made


def newest_commits(branches: Iterable[Branch]) -> dict[int, list[Commit]]:
    """By branch: its newest commits, oldest first."""
    heads = Position.objects.filter(branch__in=list(branches), commit=F("branch__head"))
    windows = Q(pk=None)
    for branch_id, number in heads.values_list("branch_id", "number"):
        windows |= Q(branch=branch_id, number__gt=number - WINDOW)
    paths: dict[int, list[Commit]] = defaultdict(list)
    for position in Position.objects.filter(windows).select_related("commit").order_by("branch_id", "number"):
        paths[position.branch_id].append(position.commit)
    return paths


def headline_values(paths: dict[int, list[Commit]]) -> dict[int, Values]:
    """By project: the clean values of its headline series, for the given commits and some between them."""
    ids = {path[0].project_id: [commit.pk for commit in path] for path in paths.values() if path}
    asked: dict[str, Any] = {
        "metric": HEADLINE,
        "projects": list(ids),
        "firsts": [min(found) for found in ids.values()],
        "lasts": [max(found) for found in ids.values()],
    }
    values: dict[int, Values] = defaultdict(dict)
    with connection.cursor() as cursor:
        cursor.execute(HEADLINES, asked)
        for project_id, series_id, commits, found in cursor:
            values[project_id][series_id] = dict(zip(commits, found, strict=True))
    return values


def fill_card(card: Card, path: list[Commit], values: Values) -> None:
    """Set the line of a card, and how far its newest measured commit is behind the head."""
    card.line = joint_line([[line.get(c.pk) for c in path] for line in values.values()]) or [None] * len(path)
    card.benchmarks = len(values)
    card.lag = next((lag for lag, value in enumerate(reversed(card.line)) if value is not None), None)


def joint_line(lines: list[list[float | None]]) -> list[float | None]:
    """The geometric mean of several lines, each divided by its own median, so that all weigh the same.

    None where no line has a value; empty if no line has any.
    """
    values = np.array([[value or np.nan for value in line] for line in lines if any(line)], float)
    if not len(values):
        return []
    scaled = np.log(values / np.nanmedian(values, axis=1, keepdims=True))
    known = ~np.isnan(scaled)
    sums, counts = np.where(known, scaled, 0).sum(axis=0), known.sum(axis=0)
    return [math.exp(total / count) if count else None for total, count in zip(sums, counts.tolist(), strict=True)]


def latest_changes() -> list[ChangeGroup]:
    """The newest changes on the default branches of all projects."""
    default = F("branch__project__default_branch")
    return changes.newest_groups(changes.change_points().filter(commit__positions__branch__name=default), 10)


def quarantined_machines() -> list[Machine]:
    """The machines in quarantine."""
    return list(Machine.objects.filter(quarantined_at__isnull=False).order_by("name"))
