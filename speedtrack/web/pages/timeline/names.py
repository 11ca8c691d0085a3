"""The names of lines in addresses: ``PROJECT/BENCHMARK/METRIC@MACHINE:BRANCH``, each part of which may be omitted.

Also a search for lines that somebody may want to add, by words of their names.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from itertools import islice
from typing import Any, NamedTuple

from django.db.models import Case, F, Q, When

from speedtrack.accounts.access import Access
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.ground.texts.text import listed
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Series
from speedtrack.web.pages.timeline.view import View

FORM = "PROJECT/BENCHMARK/METRIC@MACHINE:BRANCH"
MOST_SUGGESTIONS = 12
MOST_READ = 300  # of which the nearest are shown
MOST_WORDS = 6
LINE = re.compile(r"([^/@:]*)(?:/([^/@:]*))?(?:/([^/@:]*))?(?:@([^:]*))?(?::(.*))?")


class LineName(NamedTuple):
    project: str
    benchmark: str
    metric: str
    machine: str
    branch: str

    def __str__(self) -> str:
        return f"{self.project}/{self.benchmark}/{self.metric}@{self.machine}:{self.branch}"


@dataclass(frozen=True)
class NamedLine:
    """A line that exists. For each environment in which its machine measured, it has a series."""

    name: LineName
    metric: Metric
    branch: Branch
    series: list[Series]


class NoSuchLine(Exception):
    """A line that cannot be shown; the message says why, and what there is instead."""


def lines_of_page(view: View) -> list[NamedLine]:
    """The lines of the page itself: one per machine."""
    scope = view.scope
    lines = []
    for machine in view.machine_names:
        name = LineName(scope.project.slug, view.benchmark, scope.metric.name, machine, view.branch.name)
        series = [candidate for candidate in view.series if candidate.machine.name == machine]
        lines.append(NamedLine(name, scope.metric, view.branch, series))
    return lines


def parse_line(view: View, text: str) -> LineName:
    """The line that ``line=`` names.

    Omitted parts are those of the page; for another project, the branch is its default branch.
    """
    match = LINE.fullmatch(text.strip())
    if match is None:
        raise NoSuchLine(f"{text!r} names no line: it has to look like {FORM}.")
    project, benchmark, metric, machine, branch = (piece or "" for piece in match.groups())
    scope = view.scope
    project = project or scope.project.slug
    own_branch = view.branch.name if project == scope.project.slug else ""
    own_machine = view.machine_names[0] if view.series else scope.machine.name if scope.machine else ""
    return LineName(
        project,
        benchmark or view.benchmark,
        metric or scope.metric.name,
        machine or own_machine,
        branch or own_branch,
    )


def find_lines(view: View, names: Iterable[LineName], access: Access) -> list[NamedLine | NoSuchLine]:
    """The lines with these names, by two queries; by none if the page has their benchmark and branch."""
    name_list = list(names)
    project = view.scope.project
    series = [(project.slug, row) for row in view.known]
    branches = {project.slug: sorted(view.scope.branches, key=lambda branch: branch.name)}
    offered = {(project.slug, branch.name) for branch in view.scope.branches}
    if foreign := [name for name in name_list if name[:2] != (project.slug, view.benchmark)]:
        condition = reduce(operator.or_, (series_filter(name) for name in foreign))
        related = access.among(Series.objects.filter(condition)).select_related(
            "machine", "environment", "benchmark", "project"
        )
        lacking = related.defer("machine__facts", "environment__facts", "benchmark__definition", "benchmark__why")
        series += [(row.project.slug, row) for row in lacking.order_by("pk")]
    if unlisted := {name.project for name in name_list if (name.project, name.branch) not in offered}:
        branches |= branches_of(unlisted, access)
    by_name: dict[tuple[str, ...], list[Series]] = defaultdict(list)
    for slug, row in series:
        by_name[slug, row.benchmark.name, row.metric, row.machine.name].append(row)
    return [found_line(name, by_name.get(name[:4], []), branches) for name in name_list]


def series_filter(name: LineName) -> Q:
    return Q(
        project__slug=name.project,
        benchmark__name=name.benchmark,
        metric=name.metric,
        machine__name=name.machine,
    )


def branches_of(slugs: set[str], access: Access) -> dict[str, list[Branch]]:
    rows = access.among(Branch.objects.filter(project__slug__in=slugs)).select_related("project")
    branches: dict[str, list[Branch]] = defaultdict(list)
    for branch in rows.order_by("name"):
        branches[branch.project.slug].append(branch)
    return branches


def found_line(name: LineName, series: list[Series], branches: dict[str, list[Branch]]) -> NamedLine | NoSuchLine:
    here = branches.get(name.project, [])
    if not here:
        return NoSuchLine(f"There is no project {name.project!r} with a branch; {name} is not shown.")
    branch_name = name.branch or here[0].project.default_branch
    branch = next((b for b in here if b.name == branch_name), None)
    if branch is None:
        branch_names = listed([b.name for b in here])
        return NoSuchLine(f"{name.project} has no branch {branch_name!r}: there are {branch_names}.")
    if name.metric not in METRICS:
        return NoSuchLine(f"There is no metric {name.metric!r}; {name} is not shown.")
    if not series:
        return NoSuchLine(unmeasured(name))
    full = name._replace(branch=branch.name)
    return NamedLine(full, METRICS[name.metric], branch, series)


def unmeasured(name: LineName) -> str:
    """Return the message about a line without values: its machine never measured this metric of this benchmark."""
    machines = Series.objects.filter(project__slug=name.project, benchmark__name=name.benchmark, metric=name.metric)
    machine_names = set(machines.values_list("machine__name", flat=True))
    title = METRICS[name.metric].title
    if machine_names:
        elsewhere = ", ".join(sorted(machine_names)[:8])
        return f"{name.project} measured {title} of {name.benchmark} not on {name.machine}, but on {elsewhere}."
    return f"{name.project} has no values of {title} for a benchmark {name.benchmark!r}."


@dataclass(frozen=True)
class Suggestion:
    """``line``: as ``line=`` names it."""

    line: str
    title: str


def suggestions(near: LineName, text: str, access: Access) -> list[Suggestion]:
    """The lines that contain all words of ``text``, those that share most with the line ``near`` first."""
    terms = text.lower().split()[:MOST_WORDS]
    branches = branch_names(access)
    series = access.among(Series.objects.all())
    for term in terms:
        series = series.filter(word_filter(term, branches))
    ranked = series.annotate(
        other_project=other(project__slug=near.project),
        other_benchmark=other(benchmark__name=near.benchmark),
        other_metric=other(metric=near.metric),
    ).order_by("other_project", "other_benchmark", "other_metric", "benchmark__name", "metric", "machine__name")
    columns = ("project_id", "project__slug", "benchmark__name", "metric", "machine__name")
    ranks = ("other_project", "other_benchmark", "other_metric")
    rows = ranked.values_list(*columns, *ranks).distinct()[:MOST_READ]
    own = {project: wanted_branches(names, terms) for project, names in branches.items()}
    line_names = (
        LineName(slug, benchmark, metric, machine, branch)
        for project, slug, benchmark, metric, machine, *_ in rows
        for branch in own.get(project, [])
    )
    nearest = islice((name for name in line_names if name != near), MOST_SUGGESTIONS)
    return [Suggestion(str(name), title_of(name)) for name in nearest]


def branch_names(access: Access) -> dict[int, list[str]]:
    """By project id: the names of its branches, the default branch first."""
    default_first = Case(When(name=F("project__default_branch"), then=0), default=1)
    branches = access.among(Branch.objects.filter(deleted_at=None)).order_by(default_first, "name")
    names: dict[int, list[str]] = defaultdict(list)
    for project, name in branches.values_list("project", "name"):
        names[project].append(name)
    return names


def other(**same: Any) -> Case:
    return Case(When(**same, then=0), default=1)


def word_filter(term: str, branches: Mapping[int, list[str]]) -> Q:
    titled = [metric.name for metric in METRICS.values() if term in metric.title.lower()]
    branched = [project for project, names in branches.items() if any(term in name.lower() for name in names)]
    return (
        Q(project__slug__icontains=term)
        | Q(benchmark__name__icontains=term)
        | Q(metric__icontains=term)
        | Q(metric__in=titled)
        | Q(machine__name__icontains=term)
        | Q(project__in=branched)
    )


def wanted_branches(names: list[str], terms: list[str]) -> list[str]:
    """The branches that a word names; without one, all."""
    return [name for name in names if any(term in name.lower() for term in terms)] or names


def title_of(name: LineName) -> str:
    return " · ".join((name.project, name.benchmark, METRICS[name.metric].title, name.machine, name.branch))
