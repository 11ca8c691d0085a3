"""The content of link pictures: of a timeline, the worst change of an alert, a project, or a comparison."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from django.http import Http404, QueryDict

from speedtrack.accounts.access import Access
from speedtrack.alerts.lines import linecolumns
from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.ground.texts.text import visible
from speedtrack.judging.verdicts import ORDER, look_of, look_of_change
from speedtrack.projects.models import Branch, Position
from speedtrack.runs.models import Series
from speedtrack.web.drawing.small.cards import LinkPicture
from speedtrack.web.pages import changes, home
from speedtrack.web.pages.alerting import alert as alert_page
from speedtrack.web.pages.compare import page as compare_page
from speedtrack.web.scope import project_or_404, scope_of

SITE = "SpeedTrack"
COMMITS = 200  # of a timeline
AROUND = (60, 30)  # positions before and after the change of an alert


@dataclass(frozen=True)
class CardLine:
    """A part of a branch: the values of series at its commits, and where they changed."""

    values: list[float | None]
    marks: list[tuple[int, str]]

    @property
    def newest(self) -> float | None:
        return next((value for value in reversed(self.values) if value is not None), None)


def stretch_of(
    series: Sequence[int], branch: Branch, first: int, last: int, points: Iterable[ChangePoint] = ()
) -> CardLine:
    """The clean values at each commit of a stretch; if several of these series have one, that of the newest series."""
    values: list[float | None] = [None] * (last - first + 1)
    for line in sorted(linecolumns.columns(series, branch, first, last), key=lambda line: line.series_id):
        for at, value in zip(line.at.tolist(), line.value.tolist(), strict=True):
            if at not in line.flags and math.isfinite(value):
                values[at] = value
    positions = ((getattr(cp, "place") - first, cp) for cp in points)  # noqa: B009 (an annotation)
    marks = {at: look_of_change(cp) for at, cp in positions}
    return CardLine(values, sorted(marks.items()))


def timeline_card(slug: str, benchmark: str, metric: str, query: QueryDict) -> LinkPicture:
    """The picture of a timeline. Raises Http404 for what does not exist."""
    scope = scope_of(slug, query, metric)
    all_series = Series.objects.filter(project=scope.project, benchmark__name=benchmark, metric=metric)
    series = list(all_series.filter(machine=scope.machine).values_list("pk", flat=True))
    if scope.branch is None or not series:
        raise Http404(f"{slug} has no measurement of {benchmark!r}.")
    first = max(0, scope.head - COMMITS + 1)
    points = changes.on_branch(scope.branch, first, scope.head).filter(
        series__in=series, status=ChangePoint.Status.CONFIRMED
    )
    line = stretch_of(series, scope.branch, first, scope.head, points)
    subtitle = f"{scope.metric.title} on {scope.machine}, {scope.branch}, newest {len(line.values)} commits"
    title = visible(f"{scope.project.name}: {benchmark}")
    return LinkPicture(
        SITE, title, subtitle, value_of(line, scope.metric), "same", line.values, line.marks, label_of(scope.metric)
    )


def value_of(line: CardLine, metric: Metric) -> str:
    return "" if line.newest is None else numbers.quantity(metric, line.newest)


def label_of(metric: Metric) -> Callable[[float], str]:
    return partial(numbers.quantity, metric)


def alert_card(pk: int) -> LinkPicture:
    """The line of the worst change of an alert, around its commit."""
    alert = alert_page.alert_or_404(pk)
    points = alert_page.ranked_changes(alert, alert_page.changes_near(alert))
    title = visible(f"Alert {alert.pk}: {alert.project.name}")
    subtitle = visible(f"{alert.commit.short} {alert.commit.subject}")
    commits = {alert.commit_id, *(cp.commit_id for cp in points[:1])}
    positions = Position.objects.filter(branch=alert.branch_id, commit__in=commits).values_list("commit", "number")
    number_of = dict(positions)
    if not points or alert.commit_id not in number_of:
        return LinkPicture(SITE, title, subtitle, alert.status, "same", [])
    worst, number = points[0], number_of[alert.commit_id]
    first, last = max(0, number - AROUND[0]), number + AROUND[1]
    line = stretch_of([worst.series_id], alert.branch, first, last)
    if first <= (at := number_of.get(worst.commit_id, -1)) <= last:
        line.marks.append((at - first, look_of_change(worst)))
    values = line.values[: 1 + max((at for at, value in enumerate(line.values) if value is not None), default=0)]
    metric = METRICS[worst.series.metric]
    fact = f"{numbers.effect(metric, worst.is_slowdown)} {worst.change_in_words} {worst.series.benchmark.name}"
    return LinkPicture(SITE, title, subtitle, fact, look_of_change(worst), values, line.marks, label_of(metric))


def project_card(slug: str) -> LinkPicture:
    card = home.card_of(project_or_404(slug))
    count = f"geometric mean of {len(card.trends)} benchmarks" if len(card.trends) > 1 else "newest commits"
    fact = numbers.quantity(card.metric, card.newest) if card.newest else "not measured yet"
    subtitle = f"{card.metric.title}, {count} on {card.machine}" if card.trends else card.metric.title
    return LinkPicture(SITE, visible(card.project.name), subtitle, fact, "same", card.line, label=label_of(card.metric))


def compare_card(slug: str, query: QueryDict, access: Access) -> LinkPicture:
    """The ratios of one metric, sorted by size; those that differ are marked."""
    page = compare_page.load_rows(slug, query, access)
    if page.sides is None or not page.between.totals:
        return LinkPicture(SITE, visible(page.project.name), "compared", "not measured yet", "same", [])
    total = next(
        (candidate for candidate in page.between.totals if candidate.metric.name == HEADLINE), page.between.totals[0]
    )
    rows = page.between.rows.of_metric(total.metric.name)
    judgements = rows.judgements.chosen(np.argsort(rows.judgements.ratio, kind="stable"))
    base, head = page.sides.labels
    mean = f"{numbers.change(total.mean.ratio)} in the mean, " if total.mean else ""
    return LinkPicture(
        SITE,
        visible(f"{page.project.name}: {head} against {base}"),
        f"{total.metric.title} of {len(rows)} benchmark{'' if len(rows) == 1 else 's'}, by size of the change",
        f"{mean}{total.counts['worse']} worse, {total.counts['better']} better",
        total.look,
        [ratio if math.isfinite(ratio) else None for ratio in judgements.ratio.tolist()],
        [(index, look_of(ORDER[judgements.ruling[index]])) for index in np.flatnonzero(judgements.differs).tolist()],
        numbers.change,
    )
