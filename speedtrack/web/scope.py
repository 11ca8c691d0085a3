"""The branch, machine and metric that a page of a project is about: named by the address, or the defaults."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from django.db.models import Exists, F, OuterRef, Q, Subquery
from django.http import Http404, QueryDict

from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.projects.models import Branch, Position, Project
from speedtrack.runs.models import Machine, Series


class Named(Protocol):
    @property
    def name(self) -> str: ...


N = TypeVar("N", bound=Named)


@dataclass(frozen=True)
class Scope:
    project: Project
    branches: list[Branch]
    branch: Branch | None
    machines: list[Machine]
    machine: Machine | None
    metrics: list[Metric]
    metric: Metric

    @property
    def head(self) -> int:
        """The position of the branch's newest commit, -1 if there is none."""
        last: int | None = getattr(self.branch, "last", None)
        return -1 if last is None else last


def project_or_404(slug: str) -> Project:
    project: Project | None = Project.objects.filter(slug=slug).first()
    if project is None:
        raise Http404(f"There is no project {slug!r}.")
    return project


def scope_of(slug: str, query: QueryDict, metric: str | None = None) -> Scope:
    """The scope that an address names. Raises Http404 for a name that does not exist."""
    last = Position.objects.filter(branch=OuterRef("pk")).order_by("-number").values("number")[:1]
    ordered = Branch.objects.filter(project__slug=slug).order_by(F("deleted_at").asc(nulls_first=True), "name")
    branches: list[Branch] = list(ordered.select_related("project").annotate(last=Subquery(last)))
    project = branches[0].project if branches else project_or_404(slug)
    branch = named_or_default("branch", query.get("branch"), branches, project.default_branch)
    machines = machines_of(project)
    machine = named_or_default("machine", query.get("machine"), machines, "")
    metrics = list(METRICS.values())
    shown_metric = named_or_default("metric", metric or query.get("metric"), metrics, HEADLINE)
    assert shown_metric
    return Scope(project, branches, branch, machines, machine, metrics, shown_metric)


def named_or_default(kind: str, name: str | None, among: Iterable[N], default: str) -> N | None:
    """The one with this name; without a name the one named ``default``, else the first. Raises Http404."""
    by_name = {one.name: one for one in among}
    if name and name not in by_name:
        raise Http404(f"There is no {kind} {name!r} here: there are {', '.join(by_name) or 'none'}.")
    return by_name.get(name or default) or next(iter(by_name.values()), None)


def machines_of(project: Project) -> list[Machine]:
    """Machines that measure the project or have measured it; those with series first."""
    series = Series.objects.filter(project=project, machine=OuterRef("pk"))
    machines = Machine.objects.defer("facts").annotate(has_series=Exists(series))
    return list(machines.filter(Q(projects=project) | Q(has_series=True)).distinct().order_by("-has_series", "name"))
