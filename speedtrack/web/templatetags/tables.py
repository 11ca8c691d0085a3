"""Tables with hundreds of rows, written in Python: the template engine takes ten times as long for each cell."""

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote, urlencode

from django import template
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from speedtrack.alerts.lines import LinePoint
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.projects.models import Project
from speedtrack.runs.models import Run
from speedtrack.web.addresses import alert_path, commit_path, project_path, run_path, timeline_path
from speedtrack.web.drawing.plots import Pairs
from speedtrack.web.pages.alerts import ListedAlert
from speedtrack.web.pages.commit import CommitPage, SeriesResult
from speedtrack.web.pages.project import Cell
from speedtrack.web.pages.queue import MachineWork
from speedtrack.web.pages.run import MeasurementRow, RunPage
from speedtrack.web.pages.sensitivity import ShownSensitivity
from speedtrack.web.pages.timeline.table import TableRow, TimelineTable
from speedtrack.web.scope import Scope
from speedtrack.web.templatetags.show import ago, change_seen, percent

register = template.Library()

SIGNS = {"worse": "▼ ", "better": "▲ ", "same": ""}
NOTHING = format_html('<td class="number soft">{}</td>', "–")


@register.simple_tag
def result_cells(page: CommitPage, results: Sequence[SeriesResult | None]) -> SafeString:
    """A benchmark's results at a commit, one cell for each metric."""
    asked = timeline_query(page)
    return join(NOTHING if one is None else result_cell(page, asked, one) for one in results)


def result_cell(page: CommitPage, asked: str, one: SeriesResult) -> SafeString:
    found = one.comparison
    return format_html(
        '<td class="number"><a href="{}{}">{}</a> <span class="delta {}">{}{}</span></td>',
        timeline_path(page.project.slug, one.benchmark, one.metric.name),
        asked,
        numbers.quantity(one.metric, one.point.value),
        one.look,
        SIGNS[one.look],
        numbers.change(found.ratio) if found else "first" if one.is_first else "",
    )


@register.simple_tag
def result_rows(page: CommitPage, results: Iterable[SeriesResult], named: bool = False) -> SafeString:
    """The results of several series at a commit, a row each. ``named``: with the name of the metric."""
    asked = timeline_query(page)
    return join(result_row(page, asked, one, named) for one in results)


def result_row(page: CommitPage, asked: str, one: SeriesResult, named: bool) -> SafeString:
    metric, point = one.metric, one.point
    return format_html(
        '<tr><th scope="row"><a href="{}{}">{}{}</a></th><td class="number">{} <span class="soft">{}</span></td>{}'
        '<td><span class="answer {}">{}{}</span>{}{}</td></tr>',
        timeline_path(page.project.slug, one.benchmark, metric.name),
        asked,
        one.benchmark,
        f", {metric.title}" if named else "",
        numbers.quantity(metric, point.value),
        numbers.margin(metric, point.value, point.low, point.high),
        comparison_cells(page, one),
        one.look,
        SIGNS[one.look],
        one.answer,
        flags_badge(point.flags),
        change_badge(one.change) if one.change else "",
    )


def comparison_cells(page: CommitPage, one: SeriesResult) -> SafeString:
    found = one.comparison
    if found is None:
        return format_html("<td></td><td></td><td></td>{}", "")
    value = numbers.quantity(one.metric, found.old)
    if before := page.named.get(found.distance):
        address = commit_path(page.project.slug, before.sha)
        title = f"{before.short} {before.subject}"
        shown = format_html('<a href="{}" title="{}">{}</a>', address, title, value)
    else:
        shown = conditional_escape(value)
    return format_html(
        '<td class="number">{}</td><td class="number change {}">{}</td><td class="number soft">{}</td>',
        shown,
        one.look,
        numbers.change(found.ratio),
        numbers.change_interval(found.low, found.high),
    )


def change_badge(change: ChangePoint, ratio: str = "") -> SafeString:
    good = "" if change.is_slowdown else " good"
    text = f"{change.status} {ratio}".rstrip()
    return format_html(' <span class="badge {}{}">{}</span>', change.status, good, text)


def timeline_query(page: CommitPage) -> str:
    """The query of the timelines around a commit."""
    assert page.results
    asked = {"branch": page.branch.name if page.branch else "", "machine": page.results.machine}
    return f"?{urlencode({**asked, 'around': page.commit.sha[:12]}, quote_via=quote)}"


@register.simple_tag
def grid_cells(cells: Iterable[Cell]) -> SafeString:
    """A benchmark's row of the grid. Marks and colours are for eyes; without text, a cell is called by its title."""
    written = [
        f'<td class="cell {cell.look}" title="{escape(cell.title)}"><span aria-hidden="true">{cell.mark}</span></td>'
        for cell in cells
    ]
    return mark_safe("".join(written))  # noqa: S308 - looks and marks are ours, titles are escaped


@register.simple_tag
def sensitivity_rows(project: Project, found: Iterable[ShownSensitivity]) -> SafeString:
    """How small a change each series shows, a row each."""
    return format_html_join(
        "",
        '<tr><th scope="row"><a href="{}?machine={}">{}</a></th><td>{}</td><td>{}</td><td class="number">{}</td>'
        '<td class="number">{}</td><td class="number">{}</td><td class="number">{}</td></tr>',
        (sensitivity_cells(project, one) for one in found),
    )


def sensitivity_cells(project: Project, one: ShownSensitivity) -> tuple[str, ...]:
    row = one.found
    within = row.visible_within
    return (
        timeline_path(project.slug, one.benchmark, one.metric.name),
        one.machine,
        one.benchmark,
        one.metric.title,
        one.machine,
        change_seen(row.smallest) if row.smallest else "–",
        f"{within} commit{'' if within == 1 else 's'}" if within else "–",
        "–" if row.between is None else percent(row.between),
        f"{row.aa_different} of {row.aa_runs}" if row.aa_runs else "–",
    )


@register.simple_tag
def alert_rows(found: Iterable[ListedAlert], project: Project | None) -> SafeString:
    """Alerts as items of a list; of all projects, each with its own."""
    return join(alert_row(row, project) for row in found)


def alert_row(row: ListedAlert, project: Project | None) -> SafeString:
    alert = row.alert
    return format_html(
        '<li><span class="sign {} {}" aria-hidden="true">{}</span><div><p class="finding"><a href="{}"><strong>Alert {}'
        '</strong></a>{}</p><p class="byline">{}{}<a class="sha" href="{}">{}</a>{} <span class="soft">{}on {}, {}'
        '</span></p></div><span class="badges"><span class="badge {}{}">{}</span>{}{}</span></li>',
        "better" if alert.improvement else "worse",
        alert.status,
        "▲" if alert.improvement else "▼",
        alert_path(alert.pk),
        alert.pk,
        worst_change(row),
        "" if project else format_html('<a href="{}">{}</a> · ', project_path(alert.project.slug), alert.project.name),
        range_words(alert),
        commit_path(alert.project.slug, alert.commit.sha),
        alert.commit.short,
        format_html(' <span class="subject">{}</span>', alert.commit.subject) if is_one_commit(alert) else "",
        f"{alert.commit.author_name}, " if alert.width == 1 else "",
        alert.branch.name,
        ago(alert.created),
        alert.status,
        " good" if alert.improvement else "",
        alert.status,
        format_html(' <span class="badge">{}</span>', "muted") if alert.muted else "",
        format_html(' <span class="soft">{}</span>', alert.assignee.username) if alert.assignee else "",
    )


def worst_change(row: ListedAlert) -> SafeString | str:
    worst = row.worst
    if worst is None:
        return ""
    return format_html(
        ' <strong class="{}">{} {}</strong> {}, {}{}',
        "worse" if worst.is_slowdown else "better",
        worst.effect,
        numbers.change(worst.ratio),
        worst.benchmark,
        worst.metric.title,
        format_html(' <span class="soft">and {} more</span>', row.series - 1) if row.series > 1 else "",
    )


def is_one_commit(alert: Alert) -> bool:
    return alert.width == 1 and not alert.drift


def range_words(alert: Alert) -> str:
    if alert.drift:
        return f"little by little since {alert.drift} up to "
    return "" if alert.width == 1 else f"one of {alert.width} commits up to "


@register.simple_tag
def pair_shapes(plot: Pairs) -> SafeString:
    """The marks of pairs, as SVG."""
    return format_html_join(
        "",
        '<g><title>{}</title><line x1="{}" x2="{}" y1="{}" y2="{}"/><circle class="before" cx="{}" cy="{}" r="4"/>'
        '<rect class="after" x="{}" y="{}" width="7" height="7"/></g>',
        ((one.title, one.x, one.x, one.before, one.after, one.x, one.before, one.left, one.top) for one in plot.shapes),
    )


@register.simple_tag
def pair_rows(pairs: Sequence[tuple[float, float]], metric: Metric) -> SafeString:
    """Pairs of values, a row each."""
    return format_html_join(
        "",
        '<tr><td class="number">{}</td><td class="number">{}</td><td class="number">{}</td></tr>',
        (
            (place, numbers.quantity(metric, before), numbers.quantity(metric, after))
            for place, (before, after) in enumerate(pairs, start=1)
        ),
    )


@register.simple_tag
def waiting_rows(work: MachineWork) -> SafeString:
    """The runs that wait for a machine, a row each."""
    return format_html_join(
        "",
        '<tr><th scope="row"><a href="{}">{}</a></th><td><a href="{}">{}</a></td><td>{}</td><td class="subjectcell">'
        '<a class="sha" href="{}">{}</a> {}</td><td>{}</td><td>{}</td></tr>',
        (
            (
                run_path(run.pk),
                run.pk,
                project_path(run.slug),
                run.project,
                run.reason,
                commit_path(run.slug, run.sha),
                run.sha[:10],
                run.subject,
                ago(run.created),
                ago(at) if at else "–",
            )
            for run, at in work.waiting
        ),
    )


@register.simple_tag
def measurement_rows(page: RunPage) -> SafeString:
    """The measurements of a run, a row each; of a paired run with their side."""
    return join(measurement_row(page.run, one) for one in page.measured)


def measurement_row(run: Run, one: MeasurementRow) -> SafeString:
    waits = not one.accepted and not run.canary_id
    return format_html(
        '<tr><th scope="row"><a href="{}?machine={}">{}</a></th><td>{}</td>{}<td class="number">{}</td>'
        '<td class="number soft">{}</td><td class="number">{}</td><td>{}{}</td></tr>',
        timeline_path(run.project.slug, one.benchmark, one.metric.name),
        run.machine.name,
        one.benchmark,
        one.metric.title,
        side_cell(run, one.side),
        numbers.quantity(one.metric, one.value),
        numbers.interval(one.metric, one.low, one.high),
        one.n,
        flags_badge(one.flags),
        format_html(' <span class="soft">{}</span>', "not accepted yet") if waits else "",
    )


@register.simple_tag
def trial_rows(page: RunPage) -> SafeString:
    """The trials of a run, a row each."""
    return format_html_join(
        "",
        '<tr><td class="number">{}</td><td>{}</td>{}<td class="number">{}</td><td class="number">{}</td><td>{}</td>'
        "<td>{}</td></tr>",
        (
            (
                one.order,
                one.benchmark,
                side_cell(page.run, one.side),
                one.number,
                numbers.duration(one.seconds),
                flags_badge(one.flags),
                ago(one.started_at),
            )
            for one in page.trials
        ),
    )


@register.simple_tag
def timeline_rows(table: TimelineTable) -> SafeString:
    """The commits of a timeline, a row for each point or gap."""
    return join(timeline_row(table.view.scope, row) for row in table.rows)


def timeline_row(scope: Scope, row: TableRow) -> SafeString:
    commit, point = row.commit, row.point
    return format_html(
        '<tr><th scope="row"><a class="sha" href="{}">{}</a></th>{}<td class="subjectcell">{}</td><td>{}</td>'
        "<td>{}</td></tr>",
        commit_path(scope.project.slug, commit.sha),
        commit.sha[:10],
        point_cells(scope.metric, point, row) if point else gap_cells(row),
        commit.subject,
        commit.author,
        row.series.machine.name if row.series else "",
    )


def point_cells(metric: Metric, point: LinePoint, row: TableRow) -> SafeString:
    what, change = row.new_environment, row.change
    return format_html(
        '<td class="number">{}</td><td class="number">{}</td><td class="number">{}</td><td>{} {} {}</td>',
        numbers.quantity(metric, point.value),
        numbers.interval(metric, point.low, point.high),
        point.n,
        flags_badge(point.flags),
        format_html('<span class="badge" title="{}">new environment</span>', what) if what else "",
        change_badge(change, numbers.change(change.ratio)) if change else "",
    )


def gap_cells(row: TableRow) -> SafeString:
    return format_html('{}<td></td><td></td><td class="soft">{}</td>', NOTHING, row.gap.reason)


def side_cell(run: Run, side: str) -> SafeString | str:
    return format_html("<td>{}</td>", side) if run.paired else ""


def flags_badge(flags: Sequence[str]) -> SafeString | str:
    return format_html('<span class="badge flagged">{}</span>', ", ".join(flags)) if flags else ""


def join(pieces: Iterable[SafeString]) -> SafeString:
    return format_html_join("", "{}", ((piece,) for piece in pieces))
