"""The grid of a project, written in Python as the tables of tables.py are."""

from html import escape
from urllib.parse import quote

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.judging.verdicts import Judgement
from speedtrack.web.addresses import commit_path, timeline_path
from speedtrack.web.drawing.small.sparkline import WIDE, Sparkline
from speedtrack.web.pages.home import Card
from speedtrack.web.pages.project.board import SmallPlot
from speedtrack.web.pages.project.cells import Cell
from speedtrack.web.pages.project.columns import GridColumn
from speedtrack.web.pages.project.grid import BenchmarkRow, Grid
from speedtrack.web.pages.releasepoints import MeasuredRelease
from speedtrack.web.pages.trends import Trend
from speedtrack.web.scope import PageScope

register = template.Library()


@register.simple_tag
def grid_columns(grid: Grid, scope: PageScope) -> SafeString:
    """The heads of the columns: those of releases, then of commits: sha, tags, and whether the environment changed."""
    heads = [release_column(scope, release) for release in grid.releases]
    heads += [commit_column(grid, scope, column) for column in grid.commits]
    return mark_safe("".join(heads))  # noqa: S308 - escaped


def release_column(scope: PageScope, release: MeasuredRelease) -> SafeString:
    return format_html(
        '<th scope="col" class="commit release"><a href="{}" title="Release {}"><b>{}</b></a></th>',
        commit_path(scope.project.slug, release.sha),
        release.tag,
        release.tag,
    )


def commit_column(grid: Grid, scope: PageScope, column: GridColumn) -> SafeString:
    commit, tags = column.commit, ", ".join(column.tags)
    title = f"{commit.subject} ({commit.author_name})"
    is_break = commit.pk in grid.breaks
    if commit.unreachable_since:
        title = f"Unreachable: no branch and no tag leads to it. {title}"
    if tags:
        title = f"{tags}: {title}"
    if is_break:
        title = f"From here on {scope.machine} measured in another environment. {title}"
    return format_html(
        '<th scope="col" class="commit{}{}"><a href="{}" title="{}">{}{}</a>{}</th>',
        " tagged" if tags else "",
        " break" if is_break else "",
        commit_path(scope.project.slug, commit.sha),
        title,
        format_html("<b>{}</b>", tags) if tags else "",
        commit.sha[:7],
        format_html('<span class="hidden">{}</span>', "new environment") if is_break else "",
    )


@register.simple_tag
def grid_rows(grid: Grid, scope: PageScope, query: str, is_part: bool = False) -> SafeString:
    """The rows of a grid under the headings of their groups. ``query``: that of the timelines.

    ``is_part``: they follow the rows of the page before, whose last group may go on.
    """
    marks = {number: " break" for number, column in enumerate(grid.commits) if column.commit.pk in grid.breaks}
    continued = grid.rows.continued if is_part else ""
    bodies = []
    for group, rows in grid.groups:
        head = f'<tr class="group"><th scope="rowgroup" colspan="{grid.columns}"><span>{escape(group)}</span></th></tr>'
        lines = "".join(grid_row(grid, scope.metric, row, query, marks) for row in rows)
        bodies.append(f"<tbody>{head if grid.rows.are_headed and group != continued else ''}{lines}</tbody>")
    return mark_safe("".join(bodies))  # noqa: S308 - names are escaped


def grid_row(grid: Grid, metric: Metric, row: BenchmarkRow, query: str, marks: dict[int, str]) -> str:
    name, address = escape(row.benchmark), escape(row.url + query)
    spark = Sparkline.of(row.spark).svg(row.benchmark)
    return (
        f'<tr data-name="{name}"><th scope="row"><a href="{address}" title="{escape(row.why)}">{name}</a></th>'
        f'<td class="number">{newest_value(metric, row)}</td>'
        f"{since_cell(row.since) if grid.release else ''}"
        f'<td class="trend"><a href="{address}" aria-label="Timeline of {name}">{spark}</a></td>'
        f"{cells_of(row.release_cells, dict.fromkeys(range(len(grid.releases)), ' release'))}"
        f"{cells_of(row.cells, marks)}</tr>"
    )


@register.simple_tag
def small_plot(plot: SmallPlot) -> SafeString:
    """The line of a plot, with its changes."""
    marks = [(change.at, f"mark {change.look}") for change in plot.changes]
    return Sparkline.of(plot.values, WIDE, marks).svg(f"{plot.benchmark}: newest commits", stretched=True)


@register.simple_tag
def newest_of_plot(metric: Metric, plot: SmallPlot) -> SafeString:
    return mark_safe(newest_value(metric, plot))  # noqa: S308 - escaped


def newest_value(metric: Metric, row: BenchmarkRow | SmallPlot) -> str:
    text = escape(numbers.quantity(metric, row.newest))
    return (
        f'<span class="soft" title="unreliable: {escape(", ".join(row.flags))}">({text})</span>' if row.flags else text
    )


def since_cell(since: Judgement | None) -> str:
    if since is None:
        return '<td class="number soft" title="There is no reliable value of the release in this environment">–</td>'
    interval = numbers.change_interval(since.ratio, *since.interval) if since.interval else ""
    return (
        f'<td class="number since" title="{since.words}; 95% interval: {interval or "–"}"><span class="change '
        f'{since.look}">{since.sign}{numbers.change(since.ratio)}</span><span class="interval">{interval}</span></td>'
    )


def cells_of(cells: list[Cell], marks: dict[int, str]) -> str:
    """The cells of a row. Marks and colours are for eyes; without text, a cell is called by its title."""
    return "".join(
        f'<td class="cell {cell.look}{marks.get(number, "")}" title="{escape(cell.title)}">'
        f'<span aria-hidden="true">{cell.mark}</span></td>'
        for number, cell in enumerate(cells)
    )


@register.simple_tag
def tag_options(grid: Grid) -> SafeString:
    """The options of the filter by tag: groups, then words of names."""
    choices = (("Groups", grid.choices.groups), ("Words of names", grid.choices.words))
    return format_html_join(
        "",
        '<optgroup label="{}">{}</optgroup>',
        ((title, options_of(names, grid.filters.tag)) for title, names in choices if names),
    )


def options_of(names: list[str], selection: str) -> SafeString:
    return format_html_join(
        "",
        '<option value="{}"{}>{}</option>',
        ((name, " selected" if name == selection else "", name) for name in names),
    )


@register.simple_tag
def timeline_query(scope: PageScope) -> str:
    """The query of the timelines of a grid: the branch and the machine, unless they are the usual ones."""
    parameters = {}
    if scope.branch and scope.branch.name != scope.project.default_branch:
        parameters["branch"] = scope.branch.name
    if scope.machine and len(scope.machines) > 1:
        parameters["machine"] = scope.machine.name
    return "?" + "&".join(f"{key}={quote(value)}" for key, value in parameters.items()) if parameters else ""


@register.simple_tag
def trend_rows(card: Card) -> SafeString:
    """The benchmarks of a card, a row each, with what was measured of its newest commits."""
    return mark_safe("".join(trend_row(card, trend) for trend in card.listed))  # noqa: S308 - names are escaped


def trend_row(card: Card, trend: Trend) -> str:
    address = escape(timeline_path(card.project.slug, trend.benchmark, card.metric.name))
    value = escape(numbers.quantity(card.metric, trend.newest))
    return (
        f'<tr><th scope="row"><a href="{address}?machine={quote(card.machine)}">{escape(trend.benchmark)}</a></th>'
        f'<td class="number">{value}</td>'
        f'<td class="trend">{trend.drawing.svg(trend.benchmark, stretched=True)}</td></tr>'
    )
