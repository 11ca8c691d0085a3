"""Find lines that somebody may want to add to a timeline, by words of their names."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Case, Q, When

from speedtrack.accounts.access import Access
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Series
from speedtrack.web.pages.timeline.names import LineName

MOST = 12
MOST_READ = 300  # of which the nearest are shown
MOST_WORDS = 6


@dataclass(frozen=True)
class Suggestion:
    """``line``: as ``line=`` names it."""

    line: str
    title: str


def suggestions(near: LineName, text: str, access: Access) -> list[Suggestion]:
    """The lines that contain all words of ``text``, those that share most with the line ``near`` first."""
    terms = text.lower().split()[:MOST_WORDS]
    branches = list(access.among(Branch.objects.filter(deleted_at=None)).select_related("project").order_by("name"))
    series = access.among(Series.objects.all())
    for term in terms:
        series = series.filter(word_filter(term, branches))
    ranked = series.annotate(
        other_project=other(project__slug=near.project),
        other_benchmark=other(benchmark__name=near.benchmark),
        other_metric=other(metric=near.metric),
    ).order_by("other_project", "other_benchmark", "other_metric", "benchmark__name", "metric", "machine__name")
    names = ("project_id", "project__slug", "benchmark__name", "metric", "machine__name")
    ranks = ("other_project", "other_benchmark", "other_metric")
    line_names = []
    for project, slug, benchmark, metric, machine, *_ in ranked.values_list(*names, *ranks).distinct()[:MOST_READ]:
        own = wanted_branches([branch for branch in branches if branch.project_id == project], terms)
        line_names += [LineName(slug, benchmark, metric, machine, branch.name) for branch in own]
    return [Suggestion(str(name), title_of(name)) for name in line_names if name != near][:MOST]


def other(**same: Any) -> Case:
    return Case(When(**same, then=0), default=1)


def word_filter(term: str, branches: list[Branch]) -> Q:
    titled = [metric.name for metric in METRICS.values() if term in metric.title.lower()]
    branched = {branch.project_id for branch in branches if term in branch.name.lower()}
    return (
        Q(project__slug__icontains=term)
        | Q(benchmark__name__icontains=term)
        | Q(metric__icontains=term)
        | Q(metric__in=titled)
        | Q(machine__name__icontains=term)
        | Q(project__in=branched)
    )


def wanted_branches(branches: list[Branch], terms: list[str]) -> list[Branch]:
    """The branches that a word names; without one, the default branch and then the others."""
    matching = [branch for branch in branches if any(term in branch.name.lower() for term in terms)]
    return matching or sorted(branches, key=lambda branch: branch.name != branch.project.default_branch)


def title_of(name: LineName) -> str:
    return " · ".join((name.project, name.benchmark, METRICS[name.metric].title, name.machine, name.branch))
