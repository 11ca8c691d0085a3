"""The branch, machine and metric of a project's page: named by the address, otherwise the defaults."""

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Case, F, OuterRef, Q, QuerySet, Subquery, When
from django.db.models.expressions import Combinable
from django.http import Http404, QueryDict

from speedtrack.benchmarks.metrics import HEADLINE, METRICS, WATCHED, Metric
from speedtrack.benchmarks.models import OutsideMetric
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.projects import positions
from speedtrack.projects.models import Branch, Project
from speedtrack.reports.readings.choices import machines_of, named_or_default
from speedtrack.runs.models import Machine
from speedtrack.web.addresses import metric_given

MOST_CHOICES = 200  # branches that a page offers: of more, one is found by its name


@dataclass(frozen=True)
class PageScope:
    """``branches``: those that are offered, among them the one that is shown."""

    project: Project
    branches: list[Branch]
    branch: Branch | None
    machines: list[Machine]
    machine: Machine | None
    metrics: list[Metric]
    metric: Metric

    @property
    def is_cut(self) -> bool:
        """Whether the project may have branches that are not offered."""
        return len(self.branches) == MOST_CHOICES

    @property
    def head(self) -> int:
        """The position of the branch's newest commit, -1 if there is none."""
        return head_of(self.branch)


def head_of(branch: Branch | None) -> int:
    """The position of the newest commit of a scope's branch, -1 if there is none."""
    last: int | None = getattr(branch, "last", None)
    return -1 if last is None else last


def named_project(slug: str) -> QuerySet[Project]:
    return Project.objects.filter(slug=slug)


PROJECT = PreparedQuery(named_project)


def project_or_404(slug: str) -> Project:
    projects = PROJECT.rows(slug=slug)
    if not projects:
        raise Http404(f"There is no project {slug!r}.")
    return projects[0]


def offered_branches(slug: str, branch: str, **annotations: Combinable) -> QuerySet[Branch]:
    """The branches of a project that pages offer, and the one that an address names, with these annotations."""
    last = positions.heads().filter(branch=OuterRef("pk")).values("number")
    by_name = (F("deleted_at").asc(nulls_first=True), "name")
    is_named = Q(name=branch) | Q(name=F("project__default_branch"))
    named_first = Case(When(is_named, then=0), default=1)
    offered = Branch.objects.filter(project__slug=slug).order_by(named_first, *by_name).values("pk")[:MOST_CHOICES]
    ordered = Branch.objects.filter(pk__in=offered).order_by(*by_name)
    return ordered.select_related("project").annotate(last=Subquery(last), **annotations)


def branches_with(**annotations: Combinable) -> PreparedQuery[Branch]:
    """``offered_branches`` with these annotations, for ``scope_of``."""

    def build(slug: str, branch: str) -> QuerySet[Branch]:
        return offered_branches(slug, branch, **annotations)

    return PreparedQuery(build)


BRANCHES = branches_with()


def scope_of(
    slug: str, query: QueryDict, metric: str | None = None, prepared: PreparedQuery[Branch] = BRANCHES
) -> PageScope:
    """The scope that an address names. Raises Http404 for a name that does not exist.

    ``prepared``: the branches, with further annotations.
    """
    branches = prepared.rows(slug=slug, branch=query.get("branch", ""))
    project = branches[0].project if branches else project_or_404(slug)
    branch = named_or_default("branch", query.get("branch"), branches, project.default_branch)
    machines = machines_of(project)
    machine = named_or_default("machine", query.get("machine"), machines, "")
    metrics = metrics_of(machines)
    usual = usual_metric(machine)
    shown_metric = named_or_default("metric", metric or metric_given(query), metrics, usual)
    assert shown_metric
    return PageScope(project, branches, branch, machines, machine, metrics, shown_metric)


def outside_metrics(machine: Machine) -> list[str]:
    """The keys that ``machines_of`` has found for a machine."""
    return getattr(machine, "outside_metrics", [])


def metrics_of(machines: Iterable[Machine]) -> list[Metric]:
    """The metrics that series of these machines may have: those of runners, then those from outside."""
    all_machines = list(machines)
    outside = METRICS.among(name for machine in all_machines for name in outside_metrics(machine))
    return outside if outside and all(machine.outside for machine in all_machines) else [*METRICS.values(), *outside]


def watched_metrics(project: Project | None) -> list[Metric]:
    """The metrics whose changes may raise alerts; without a project, those that every project may have."""
    outside = OutsideMetric.objects.filter(project=project).values_list("key", flat=True) if project else ()
    return METRICS.among({*WATCHED, *outside})


def usual_metric(machine: Machine | None) -> str:
    """The metric that a page shows unless told otherwise."""
    candidates = outside_metrics(machine) if machine and machine.outside else []
    return candidates[0] if candidates else HEADLINE
