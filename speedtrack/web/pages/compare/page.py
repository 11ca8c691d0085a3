"""Any two commits beside each other: what differs, by how much, how sure it is, and what makes it doubtful."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np
from django.http import Http404, QueryDict
from django.urls import reverse

from speedtrack.accounts.access import Access
from speedtrack.alerts.pairs.counts import FunctionTable
from speedtrack.alerts.triage.measuring import MOST_BENCHMARKS
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.judging.sides import Between, ComparedRow, ComparedRows, no_rows
from speedtrack.judging.totals import Total
from speedtrack.judging.verdicts import ORDER, Ruling
from speedtrack.projects.models import Project
from speedtrack.reports.readings.comparisons import ComparisonReading, read
from speedtrack.reports.readings.sides import AskedSides, BothSides, ComparedSide, sides_of
from speedtrack.runs.models import Machine, Run, Status
from speedtrack.web import forges
from speedtrack.web.addresses import metric_given
from speedtrack.web.drawing.small.plots import Forest
from speedtrack.web.pages.compare import details
from speedtrack.web.pages.latency import LatencyCurves
from speedtrack.web.pages.paging import PageSpan, page_of, span_of

SHOWN = 10  # rows, unless all are asked for or filters select some: these come by page
VERDICTS = tuple(map(str, ORDER))
USUAL = (Ruling.WORSE, Ruling.BETTER, Ruling.UNCERTAIN, Ruling.SAME)  # verdicts that are listed even if no row has them
LONGEST_SEARCH = 100
NO_ROWS = PageSpan(0, 0, SHOWN)


@dataclass(frozen=True)
class RowFilters:
    """Which rows are shown; empty fields show all."""

    text: str = ""
    metric: str = ""
    verdict: str = ""
    differs: bool = False
    all_rows: bool = False

    def among(self, rows: ComparedRows) -> ComparedRows:
        """The rows that fit."""
        if not self.active:
            return rows
        fits = np.ones(len(rows), bool)
        if self.differs:
            fits &= rows.judgements.differs
        if self.verdict:
            fits &= rows.judgements.is_among([Ruling(self.verdict)])
        if self.metric:
            fits &= rows.is_of_metric(self.metric)
        if terms := self.text.lower().split():
            fits &= rows.are_named(lambda name: all(term in name.lower() for term in terms))
        return rows.chosen(np.flatnonzero(fits))

    @property
    def active(self) -> bool:
        return bool(self.text or self.metric or self.verdict or self.differs)

    @property
    def by_page(self) -> bool:
        """Whether pages lead to all rows, instead of one with the first of them."""
        return self.all_rows or self.active


class PairedChoice(NamedTuple):
    name: str
    chosen: bool


@dataclass(frozen=True)
class ComparePage:
    """``rows``: those that fit the filters; ``span``: which of them are shown."""

    reading: ComparisonReading
    query: QueryDict
    filters: RowFilters
    rows: ComparedRows = field(default_factory=no_rows)
    span: PageSpan = NO_ROWS
    latency: LatencyCurves | None = None
    most_benchmarks: int = MOST_BENCHMARKS
    functions: list[FunctionTable] = field(default_factory=list)
    shared: Machine | None = None  #: of two projects, a machine that can measure both in one environment
    ladders: list[str] = field(default_factory=list)  #: those that both sides were measured on, by name

    @property
    def project(self) -> Project:
        return self.reading.project

    @property
    def sides(self) -> BothSides | None:
        return self.reading.sides

    @property
    def between(self) -> Between:
        return self.reading.between

    @cached_property
    def shown(self) -> Sequence[ComparedRow]:
        return list(self.span.among(self.rows))

    @cached_property
    def forest(self) -> Forest:
        """The places of the shown rows, on one axis for all pages."""
        judgements = self.rows.judgements
        scale = np.column_stack([judgements.ratio, judgements.low, judgements.high]) if self.filters.by_page else None
        return Forest.of([(row.ratio, row.low, row.high) for row in self.shown], clipped=True, scale=scale)

    @cached_property
    def metrics(self) -> list[Metric]:
        return self.between.rows.metrics

    @cached_property
    def verdicts(self) -> list[tuple[str, int]]:
        """(verdict, number of rows) of each usual verdict, and of each other one that there is."""
        counts = self.between.rows.counts
        return [(str(name), counts.get(name, 0)) for name in ORDER if name in counts or name in USUAL]

    @cached_property
    def totals_by_verdict(self) -> list[tuple[Total, list[tuple[str, int]]]]:
        """The totals, each with its (verdict, number of rows)."""
        return [(total, [(name, total.counts[name]) for name, _ in self.verdicts]) for total in self.between.totals]

    @cached_property
    def main_totals(self) -> list[tuple[Total, list[tuple[str, int]]]]:
        """Those of the metrics that may raise alerts; of all if none of them was measured."""
        return [entry for entry in self.totals_by_verdict if entry[0].metric.watched] or self.totals_by_verdict

    @property
    def other_totals(self) -> list[tuple[Total, list[tuple[str, int]]]]:
        return [entry for entry in self.totals_by_verdict if entry not in self.main_totals]

    @property
    def benchmarks(self) -> list[str]:
        return self.between.rows.benchmarks

    @property
    def named_sides(self) -> list[tuple[str, ComparedSide]]:
        return [("base", self.sides.base), ("head", self.sides.head)] if self.sides else []

    @property
    def counted(self) -> dict[str, list[FunctionTable]]:
        return {"function_tables": self.functions}

    @property
    def diff_url(self) -> str:
        """The forge's page of the changed code; empty if it is not known."""
        sides = self.sides
        if sides is None or self.same_commit or sides.base.project != sides.head.project:
            return ""
        forge = forges.forge_of(sides.head.project.url)
        return forge.diff(sides.base.commit.sha, sides.head.commit.sha) if forge else ""

    @property
    def swapped(self) -> str:
        """The address of this page with base and head swapped.

        Machines are swapped with them; filters that fit both ways are kept.
        """
        if self.sides is None:
            return "?"
        base, head = self.sides.head, self.sides.base
        parameters = {"base": base.name, "head": head.name}
        if head.machine and len(head.machines) > 1:
            parameters["machine"] = head.machine.name
        if base.machine and base.machine != head.machine:
            parameters["base_machine"] = base.machine.name
        if base.project != head.project:
            parameters["base_project"] = base.project.slug
        remaining = self.without("base", "head", "machine", "base_machine", "base_project", "verdict", "page")
        return f"{reverse('compare', args=[head.project.slug])}?{urlencode([*parameters.items(), *remaining])}"

    @property
    def kept_for_filters(self) -> list[tuple[str, str]]:
        return self.without("q", "metric", "verdict", "differs", "rows", "page")

    @property
    def kept_for_latency(self) -> list[tuple[str, str]]:
        return self.without("benchmark")

    def without(self, *names: str) -> list[tuple[str, str]]:
        """The other parameters of the address as (name, value), which a form has to send along."""
        return [(name, str(value)) for name, value in self.query.items() if name not in names]

    @property
    def chosen_count(self) -> int:
        return sum(choice.chosen for choice in self.choices)

    @property
    def doubtful(self) -> int:
        return len(self.between.rows.judgements.doubtful)

    @property
    def paired(self) -> int:
        return self.between.rows.paired

    @property
    def unfinished(self) -> Run | None:
        """The paired run of both commits that waits or is being measured; None without one."""
        return next((run for run in self.between.runs if not run.done), None)

    @cached_property
    def choices(self) -> list[PairedChoice]:
        """The benchmarks that may be measured again, the most interesting first; the first few are selected."""
        rows = self.between.rows
        is_same = rows.judgements.is_among([Ruling.SAME])
        names = rows.head.name[np.lexsort((is_same, ~rows.judgements.differs))]
        first = np.unique(names, return_index=True)[1]
        differing = set(rows.head.name[~is_same].tolist())
        return [
            PairedChoice(
                rows.head.names.benchmarks[name], rank < MOST_BENCHMARKS and (name in differing or not differing)
            )
            for rank, name in enumerate(names[np.sort(first)].tolist())
        ]

    @property
    def measured_runs(self) -> list[Run]:
        return [run for run in self.between.runs if run.status == Status.SUCCEEDED]

    @property
    def same_commit(self) -> bool:
        return self.sides is not None and self.sides.base.commit == self.sides.head.commit

    @property
    def can_pair(self) -> bool:
        """Return whether one machine can measure both: two different commits of one project."""
        sides = self.sides
        if sides is None or sides.head.machine is None or self.same_commit:
            return False
        return sides.base.project == sides.head.project


def load(slug: str, query: QueryDict, access: Access) -> ComparePage:
    """The page that an address names. Raises Http404 for a name that does not exist."""
    page = load_rows(slug, query, access)
    sides, comparison = page.sides, page.between
    if sides is None or not sides.are_measured:
        return page
    benchmark = details.chosen_benchmark(comparison.rows, query.get("benchmark", ""))
    documents = details.documents_of(benchmark, comparison)
    return replace(
        page,
        latency=details.latency_of(benchmark, documents, sides),
        functions=details.functions_of(benchmark, documents, sides),
        shared=shared_machine(sides),
        ladders=comparison.rows.ladders,
    )


def load_rows(slug: str, query: QueryDict, access: Access, first: int = 0) -> ComparePage:
    """The page without what it shows besides its rows. ``first``: show so many rows at most, and no other page."""
    sides = sides_asked(slug, query, access)
    filters = filters_of(query)
    if sides is None:
        return ComparePage(ComparisonReading(Project.objects.get(slug=slug)), query, filters)
    reading = read(sides)
    rows = filters.among(reading.between.rows)
    by_page = filters.by_page and not first
    span = span_of(page_of(query), len(rows)) if by_page else PageSpan(0, len(rows), first or SHOWN)
    return ComparePage(reading, query, filters, rows, span)


def without_former_base(query: QueryDict) -> QueryDict:
    """The parameters that the form of the sides has sent, without ``base_of``.

    ``base_of`` is the project in which base and base machine were named: if another project was selected since, these
    names are dropped, since they mean nothing there.
    """
    parameters = query.copy()
    (former_slug,) = parameters.pop("base_of")[-1:]
    if query.get("base_project") not in (None, former_slug):
        for name in ("base", "base_machine"):
            parameters.pop(name, None)
    return parameters


def sides_asked(slug: str, query: QueryDict, access: Access) -> BothSides | None:
    names = ("base_project", "base", "head", "machine", "base_machine")
    return sides_of(AskedSides(slug, *(query.get(name, "").strip() for name in names)), access)


def shared_machine(sides: BothSides) -> Machine | None:
    """A machine that measures both of two projects: the head's if it can, otherwise the first by name."""
    if sides.base.project == sides.head.project:
        return None
    both = Machine.objects.filter(outside=False, projects=sides.base.project).filter(projects=sides.head.project)
    machines = list(both.defer("facts").order_by("name"))
    preferred = sides.head.machine
    return next(
        (machine for machine in machines if preferred and machine.pk == preferred.pk), next(iter(machines), None)
    )


def filters_of(query: QueryDict) -> RowFilters:
    metric, verdict = metric_given(query), query.get("verdict", "")
    require("metric", metric, METRICS)
    require("verdict", verdict, VERDICTS)
    text = query.get("q", "").strip()[:LONGEST_SEARCH]
    return RowFilters(text, metric, verdict, bool(query.get("differs")), query.get("rows") == "all")


def require(kind: str, name: str, names: Iterable[str]) -> None:
    if name and name not in names:
        raise Http404(f"There is no {kind} {name[:80]!r}: there are {', '.join(names)}.")
