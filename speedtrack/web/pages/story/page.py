"""One page per release against the one before it, or any two commits: a headline, the largest losses and gains."""

from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
from django.db.models import QuerySet
from django.http import QueryDict

from speedtrack.accounts.access import Access
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.judging.sides import Between, ComparedRow, ComparedRows
from speedtrack.judging.totals import Total
from speedtrack.judging.verdicts import ORDER, Ruling, words_of
from speedtrack.projects.models import Branch, Commit, Position, Project
from speedtrack.reports.readings.choices import named_or_default
from speedtrack.reports.readings.comparisons import between_sides
from speedtrack.reports.readings.sides import AskedSides, BothSides, measured_by, sides_of
from speedtrack.runs.models import Machine
from speedtrack.web.addresses import metric_given
from speedtrack.web.drawing.small.plots import Forest, Whisker
from speedtrack.web.pages import changes
from speedtrack.web.pages.releases.versions import tagged_commits
from speedtrack.web.scope import project_or_404, usual_metric

LARGEST = 5  # losses, and gains
DRAWN = 40  # benchmarks of the chart
#: The words of a headline where no direction is certain.
PLAIN_WORDS = {Ruling.SAME: "no change", Ruling.UNCERTAIN: "no certain change"}


@dataclass(frozen=True)
class ToldChange:
    """A benchmark that certainly differs. ``cause``: the largest confirmed change between both sides, if one is known.

    ``width``: of how many commits one is the cause.
    """

    row: ComparedRow
    cause: ChangePoint | None = None

    @property
    def width(self) -> int:
        return changes.width_of(self.cause) if self.cause else 0

    @property
    def size(self) -> str:
        """The change with its interval: ``+5.2% (+4.7% to +5.7%)``."""
        return sized(self.row.ratio, self.row.judgement.interval)


@dataclass(frozen=True)
class StoryPage:
    """``metric``: None if both sides share none; ``total``: the counted benchmarks of the metric."""

    project: Project
    sides: BothSides | None = None
    metrics: list[Metric] = field(default_factory=list)
    metric: Metric | None = None
    total: Total | None = None
    losses: list[ToldChange] = field(default_factory=list)
    gains: list[ToldChange] = field(default_factory=list)
    drawn: list[ComparedRow] = field(default_factory=list)
    forest: Forest | None = None

    @property
    def title(self) -> str:
        assert self.sides
        base, head = self.sides.labels
        return f"{head} against {base}"

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        if self.total is None or self.metric is None:
            return "No benchmark was measured of both, so they cannot be compared."
        if self.total.mean is None:
            return f"{self.metric.title}: {self.total.words}; {self.total.of} measured, none counts."
        size = sized(self.total.mean.ratio, self.total.interval)
        return f"{self.words.capitalize()}: {self.metric.title} {size}, {self.rests_on}."

    @property
    def words(self) -> str:
        assert self.total
        return PLAIN_WORDS.get(self.total.verdict, self.total.words)

    @property
    def rests_on(self) -> str:
        assert self.total
        return f"the mean of {self.total.rests_on}" if self.total.of > 1 else "of one benchmark"

    @property
    def counts(self) -> str:
        """How many benchmarks have which verdict: ``3 slower, 5 faster, 4 same``."""
        assert self.total and self.metric
        counts = self.total.counts
        return ", ".join(f"{counts[ruling]} {words_of(ruling, self.metric)}" for ruling in ORDER if counts[ruling])

    @property
    def rows(self) -> list[tuple[ComparedRow, Whisker]]:
        """The benchmarks of the chart, each with its place."""
        return [*zip(self.drawn, self.forest.rows, strict=True)] if self.forest else []


def sized(ratio: float, interval: tuple[float, float] | None) -> str:
    return numbers.change(ratio) + (f" ({numbers.change_interval(ratio, *interval)})" if interval else "")


def load(slug: str, query: QueryDict, access: Access) -> StoryPage:
    """The story of the two sides that an address names. Raises Http404 for a name that does not exist."""
    project = project_or_404(slug)
    names = {name: query.get(name, "").strip() for name in ("base", "head", "machine")}
    base, head = sides_named(project, names["base"], names["head"])
    sides = sides_of(AskedSides(slug, base=base, head=head, machine=names["machine"]), access) if head else None
    if sides is None:
        return StoryPage(project)
    between = between_sides(sides) if sides.are_measured else Between()
    metrics = [total.metric for total in between.totals]
    machine = Machine.objects.get(pk=sides.head.machine.pk) if sides.head.machine else None
    metric = named_or_default("metric", metric_given(query), metrics, usual_metric(machine))
    if metric is None:
        return StoryPage(project, sides)
    return told(project, sides, between, metrics, metric)


def sides_named(project: Project, base: str, head: str) -> tuple[str, str]:
    """Both names; instead of a missing head the newest measured release, of a missing base the one before the head."""
    if base and head:
        return base, head
    tags = tagged_commits(project)
    measured_commits = measured_by([commit.pk for *_, commit in tags])
    names = [name for _, name, commit in tags if commit.pk in measured_commits or name == head]
    head = head or (names[-1] if names else "")
    earlier = names[: names.index(head)] if head in names else []
    return base or (earlier[-1] if earlier else ""), head


def told(project: Project, sides: BothSides, between: Between, metrics: list[Metric], metric: Metric) -> StoryPage:
    counted_rows = between.rows.of_metric(metric.name).counted
    causes = causes_of(project, sides, metric)
    forest_rows = list(counted_rows[:DRAWN])
    return StoryPage(
        project,
        sides,
        metrics,
        metric,
        between.total_of(metric),
        losses=largest(counted_rows, Ruling.WORSE, causes),
        gains=largest(counted_rows, Ruling.BETTER, causes),
        drawn=forest_rows,
        forest=Forest.of([(row.ratio, row.low, row.high) for row in forest_rows], clipped=True),
    )


Causes = dict[tuple[str, bool], ChangePoint]  # by benchmark, and whether it got worse


def largest(rows: ComparedRows, ruling: Ruling, causes: Causes) -> list[ToldChange]:
    """The largest changes of this direction; the rows are sorted by size."""
    same_way = np.flatnonzero(rows.judgements.is_among([ruling]))[:LARGEST]
    return [ToldChange(row, causes.get((row.benchmark, ruling == Ruling.WORSE))) for row in rows.chosen(same_way)]


def confirmed_steps(branch: int, first: int, last: int, metric: str, machine: int) -> QuerySet[ChangePoint]:
    """The confirmed steps on a stretch of a branch that nobody found to be false."""
    steps = changes.on_branch(branch, first, last).filter(
        status=ChangePoint.Status.CONFIRMED,
        kind=ChangePoint.Kind.STEP,
        series__metric=metric,
        series__machine=machine,
    )
    return steps.exclude(alert__status=Alert.Status.INVALID)


STEPS = PreparedQuery(confirmed_steps)


def causes_of(project: Project, sides: BothSides, metric: Metric) -> Causes:
    """The largest confirmed steps between both sides, on a branch that has both."""
    span = span_of(project, sides.base.commit, sides.head.commit)
    if span is None or sides.head.machine is None:
        return {}
    branch, first, last = span
    machine = sides.head.machine.pk
    steps = STEPS.rows(branch=branch.pk, first=first + 1, last=last, metric=metric.name, machine=machine)
    by_size = sorted(steps, key=lambda step: abs(step.ratio - 1))
    return {(step.benchmark_name, step.is_slowdown): step for step in by_size}


def span_of(project: Project, base: Commit, head: Commit) -> tuple[Branch, int, int] | None:
    """A branch with both commits, the default one if possible, and their positions on it; None without any."""
    positions = Position.objects.filter(branch__project=project, commit__in=[base, head]).select_related("branch")
    ordered = sorted(positions, key=lambda row: (row.branch.name != project.default_branch, row.branch_id))
    for _, rows in groupby(ordered, key=lambda row: row.branch_id):
        numbers_of = {row.commit_id: row for row in rows}
        if base.pk in numbers_of and head.pk in numbers_of:
            return numbers_of[head.pk].branch, numbers_of[base.pk].number, numbers_of[head.pk].number
    return None
