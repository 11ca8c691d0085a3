"""The tables of comparisons, written in Python as they are long."""

from collections.abc import Iterable
from html import escape
from urllib.parse import urlencode

from django import template
from django.http import QueryDict
from django.utils.safestring import SafeString, mark_safe

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.judging.sides import ComparedRow
from speedtrack.reports.readings.sides import NearCommit
from speedtrack.web.addresses import commit_path, timeline_path
from speedtrack.web.drawing.charts.linecharts import DrawnLine
from speedtrack.web.drawing.small.plots import FOREST_WIDTH, Whisker
from speedtrack.web.pages.compare.page import ComparePage
from speedtrack.web.pages.releases.page import ReleasesPage
from speedtrack.web.pages.releases.tables import BenchmarkTable, ReleaseCell
from speedtrack.web.pages.running.duels import Duel
from speedtrack.web.pages.story.page import StoryPage
from speedtrack.web.templatetags.show import explained
from speedtrack.web.templatetags.tables import flags_badge

register = template.Library()

DOUBTS = {
    "machine": "two machines",
    "environment": "two environments",
    "definition": "two definitions",
}
HEIGHT = 22


@register.simple_tag
def compare_rows(page: ComparePage) -> SafeString:
    """The rows that are shown, each with its place in the forest."""
    assert page.sides and page.sides.head.machine and page.forest
    head = page.sides.head
    around = urlencode({"machine": page.sides.head.machine.name, "around": head.commit.sha[:12]})
    html_rows = [
        compare_row(row, f"{timeline_path(head.project.slug, row.benchmark, row.metric.name)}?{around}", page, whisker)
        for row, whisker in zip(page.shown, page.forest.rows, strict=True)
    ]
    return mark_safe("".join(html_rows))  # noqa: S308 - names are escaped, all else is ours


def compare_row(row: ComparedRow, address: str, page: ComparePage, whisker: Whisker) -> str:
    metric, look = row.metric, row.look
    assert page.forest
    return (
        f'<tr><th scope="row"><a href="{escape(address)}">{escape(row.benchmark)}</a> '
        f'<span class="soft">{explained(f"metric {metric.name}", metric.title)}</span></th>'
        f'<td class="number change {look}">{numbers.change(row.ratio)}</td>'
        f'<td class="plot">{whisker_svg(row, whisker, page.forest.one)}</td>'
        f'<td><span class="answer {look}">{row.sign}{row.words}</span>{badges(row)}</td>'
        f'<td class="number" data-label="base">{escape(numbers.quantity(metric, row.base.value))}</td>'
        f'<td class="number" data-label="head">{escape(numbers.quantity(metric, row.head.value))}</td>'
        f'<td class="number soft">{numbers.change_interval(row.ratio, row.low, row.high)}</td></tr>'
    )


def whisker_svg(row: ComparedRow, at: Whisker, unchanged_x: float) -> str:
    """The interval and the estimate: filled for a difference, hollow for none, dashed where the row is doubtful."""
    label = f"{row.words} {numbers.change(row.ratio)}, {numbers.change_interval(row.ratio, row.low, row.high)}"
    return drawn_whisker(f"{row.look}{' doubtful' if row.doubts else ''}", label, at, unchanged_x)


def drawn_whisker(look: str, label: str, at: Whisker, unchanged_x: float) -> str:
    kind = f"{look} hollow" if look.startswith("same") else look
    if at.beyond:
        tip = at.middle + 5 * at.beyond
        mark = f'<path class="mark" d="M{tip} 11l{-9 * at.beyond} -5v10z"/>'
    else:
        mark = f'<circle class="mark" cx="{at.middle}" cy="11" r="4"/>'
    return (
        f'<svg class="{kind}" viewBox="0 0 {FOREST_WIDTH:.0f} {HEIGHT}" width="{FOREST_WIDTH:.0f}" height="{HEIGHT}" '
        f'role="img" aria-label="{label}"><path class="one" d="M{unchanged_x} 0v{HEIGHT}"/>'
        f'<path class="whisker" d="M{at.low} 11H{at.high}"/>{mark}</svg>'
    )


@register.simple_tag
def story_plot(page: StoryPage, row: ComparedRow, whisker: Whisker) -> SafeString:
    """The place of a benchmark in the chart of a story."""
    assert page.forest
    return mark_safe(whisker_svg(row, whisker, page.forest.one))  # noqa: S308 - numbers and our words


def badges(row: ComparedRow) -> str:
    spans = [f'<span class="badge confirmed good">{row.pairs} pairs</span>'] if row.pairs else []
    spans += [f'<span class="badge doubt">{explained("doubtful", DOUBTS[doubt])}</span>' for doubt in row.doubts]
    return "".join(f" {span}" for span in [*spans, flags_badge(row.flags)] if span)


@register.simple_tag
def standing_rows(duel: Duel) -> SafeString:
    """What the pairs of an unfinished run show so far, a row for each benchmark and metric."""
    whiskers = iter(duel.forest.rows)
    html_rows = [
        f'<tr><th scope="row">{escape(row.benchmark)} '
        f'<span class="soft">{explained(f"metric {row.metric.name}", row.metric.title)}</span></th><td class="plot">'
        f"{drawn_whisker(row.look, row.sentence, next(whiskers), duel.forest.one) if row.ratio else ''}</td>"
        f'<td class="standing">after {row.pairs} of {row.total} pairs <strong class="change {row.look}">{row.change}'
        f'</strong> <span class="soft">{row.interval and f"({row.interval})"}</span> so far: '
        f'<span class="answer {row.look}">{row.sign}{row.words}</span></td></tr>'
        for row in duel.standings
    ]
    return mark_safe("".join(html_rows))  # noqa: S308 - names are escaped, all else is ours


@register.simple_tag
def listed_keys(page: ComparePage, keys: Iterable[tuple[str, str]]) -> str:
    """Benchmarks as text; those that have rows with the metrics that they lack."""
    benchmarks = set(page.benchmarks)
    texts = (f"{name} ({METRICS[metric].title})" if name in benchmarks else name for name, metric in keys)
    return ", ".join(dict.fromkeys(texts))


@register.simple_tag(takes_context=True)
def near_query(context: template.Context, side: str, near: NearCommit) -> str:
    """The page's address with another commit on one side."""
    query: QueryDict = context["request"].GET.copy()
    query[side] = near.commit.sha[:12]
    return f"?{query.urlencode()}"


@register.simple_tag
def line_dots(line: DrawnLine) -> SafeString:
    """The points of a line in a chart, of which there may be hundreds."""
    dots = "".join(
        f'<circle class="{line.look}{" doubtful" if dot.doubtful else ""}" cx="{dot.x}" cy="{dot.y}" r="3.5">'
        f"<title>{escape(dot.title)}</title></circle>"
        for dot in line.dots
    )
    return mark_safe(dots)  # noqa: S308 - titles are escaped


@register.simple_tag
def release_rows(page: ReleasesPage, table: BenchmarkTable) -> SafeString:
    """The releases under one benchmark, newest first, a row each."""
    html_rows = [release_row(page, cell) for cell in table.newest_first]
    return mark_safe("".join(html_rows))  # noqa: S308 - names are escaped, all else is ours


def release_row(page: ReleasesPage, cell: ReleaseCell) -> str:
    address = commit_path(page.project.slug, cell.release.commit.sha)
    head = f'<tr><th scope="row"><a href="{address}">{escape(cell.release.tag)}</a></th>'
    point, metric = cell.point, page.metric
    if point is None:
        return f'{head}<td colspan="5" class="soft">{"× failed" if cell.release.failure else "not measured"}</td></tr>'
    margin = numbers.margin(metric, point.value, point.low, point.high)
    value = escape(numbers.quantity(metric, point.value))
    return (
        f'{head}<td class="number">{value} <span class="soft">{escape(margin)}</span> {flags_badge(point.flags)}</td>'
        f"{against_cells(cell.since_before, cell.before, 'the one before')}"
        f"{against_cells(cell.since_first, cell.first, 'the first')}</tr>"
    )


def against_cells(row: ComparedRow | None, tag: str, label: str) -> str:
    if row is None:
        return f'<td class="number soft" data-label="against {label}">–</td><td></td>'
    return (
        f'<td class="number" data-label="against {label}" title="against {escape(tag)}">'
        f'<span class="change {row.look}">{numbers.change(row.ratio)}</span> '
        f'<span class="soft">{numbers.change_interval(row.ratio, row.low, row.high)}</span></td>'
        f'<td><span class="answer {row.look}">{row.sign}{row.words}</span>{badges(row)}</td>'
    )
