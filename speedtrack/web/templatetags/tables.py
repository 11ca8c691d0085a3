"""Tables with hundreds of rows, written in Python: the template engine takes ten times as long for each cell."""

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote, urlencode

from django import template
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.projects.models import Project
from speedtrack.reports.readings.commits import SeriesResult
from speedtrack.runs.models import Run
from speedtrack.runs.queue.estimates import DurationEstimate
from speedtrack.web.addresses import commit_path, project_path, run_path, timeline_path
from speedtrack.web.pages.alerting.sensitivity import ShownSensitivity
from speedtrack.web.pages.commit.page import CommitPage
from speedtrack.web.pages.running.phases import MeasurementRow, TrialRow
from speedtrack.web.pages.running.queue import ExpectedRun, MachineWork, WaitingRun
from speedtrack.web.pages.running.run import RunPage
from speedtrack.web.pages.timeline.points import ShownChange
from speedtrack.web.pages.timeline.table import RowPoint, TableRow, TimelineTable
from speedtrack.web.templatetags.show import ago, explained, percent
from speedtrack.web.templatetags.verdicts import badge

register = template.Library()

NOTHING = format_html('<td class="number soft">{}</td>', "–")


@register.simple_tag
def result_cells(page: CommitPage, results: Sequence[SeriesResult | None]) -> SafeString:
    """A benchmark's results at a commit, one cell for each metric."""
    query = escape(timeline_query(page))
    cells = (NOTHING if result is None else result_cell(page, query, result) for result in results)
    return mark_safe("".join(cells))  # noqa: S308 (escaped there)


def result_cell(page: CommitPage, query: str, result: SeriesResult) -> str:
    comparison, look = result.comparison, result.look
    change = numbers.change(comparison.judgement.ratio) if comparison else "first" if result.is_first else ""
    address = escape(timeline_path(page.project.slug, result.benchmark, result.metric.name))
    return (
        f'<td class="number"><a href="{address}{query}">'
        f"{escape(numbers.quantity(result.metric, result.point.value))}</a> "
        f'<span class="delta {look}">{result.sign}{change}</span></td>'
    )


@register.simple_tag
def result_rows(page: CommitPage, results: Iterable[SeriesResult], named: bool = False) -> SafeString:
    """The results of several series at a commit, a row each. ``named``: with the name of the metric."""
    query = timeline_query(page)
    return join(result_row(page, query, result, named) for result in results)


def result_row(page: CommitPage, query: str, result: SeriesResult, with_metric: bool) -> SafeString:
    metric, point = result.metric, result.point
    return format_html(
        '<tr><th scope="row"><a href="{}{}">{}{}</a></th><td class="number">{} <span class="soft">{}</span></td>{}'
        '<td><span class="answer {}">{}{}</span>{}{}</td></tr>',
        timeline_path(page.project.slug, result.benchmark, metric.name),
        query,
        result.benchmark,
        f", {metric.title}" if with_metric else "",
        numbers.quantity(metric, point.value),
        numbers.margin(metric, point.value, point.low, point.high),
        comparison_cells(page, result),
        result.look,
        result.sign,
        result.answer,
        flags_badge(point.flags),
        change_badge(result.change) if result.change else "",
    )


def comparison_cells(page: CommitPage, result: SeriesResult) -> SafeString:
    comparison = result.comparison
    if comparison is None:
        return format_html("<td></td><td></td><td></td>{}", "")
    value = numbers.quantity(result.metric, comparison.old)
    if before := page.named.get(comparison.distance):
        address = commit_path(page.project.slug, before.sha)
        title = f"{before.short} {before.subject}"
        value_html = format_html('<a href="{}" title="{}">{}</a>', address, title, value)
    else:
        value_html = conditional_escape(value)
    return format_html(
        '<td class="number">{}</td><td class="number change {}">{}</td><td class="number soft">{}</td>',
        value_html,
        result.look,
        numbers.change(comparison.judgement.ratio),
        numbers.change_interval(comparison.judgement.ratio, comparison.judgement.low, comparison.judgement.high),
    )


def change_badge(change: ChangePoint | ShownChange, ratio: str = "") -> SafeString:
    classes = badge(change)
    return format_html(' <span class="badge {}">{}</span>', classes, f"{classes.split()[0]} {ratio}".rstrip())


def timeline_query(page: CommitPage) -> str:
    """The query of the timelines around a commit."""
    assert page.results
    parameters = {"branch": page.branch.name if page.branch else "", "machine": page.results.machine}
    return f"?{urlencode({**parameters, 'around': page.commit.sha[:12]}, quote_via=quote)}"


@register.simple_tag
def sensitivity_rows(project: Project, sensitivities: Iterable[ShownSensitivity]) -> SafeString:
    """How small a change each series shows, a row each."""
    return format_html_join(
        "",
        '<tr><th scope="row"><a href="{}?machine={}">{}</a></th><td>{}</td><td>{}</td><td class="number"><a '
        'href="{}/takes/?machine={}" title="What would it take to see less?">{}</a></td>'
        '<td class="number">{}</td><td class="number">{}</td><td class="number">{}</td></tr>',
        (sensitivity_cells(project, sensitivity) for sensitivity in sensitivities),
    )


def sensitivity_cells(project: Project, sensitivity: ShownSensitivity) -> tuple[str, ...]:
    row = sensitivity.found
    within = row.visible_within
    line = timeline_path(project.slug, sensitivity.benchmark, sensitivity.metric.name)
    return (
        line,
        sensitivity.machine,
        sensitivity.benchmark,
        explained(f"metric {sensitivity.metric.name}", sensitivity.metric.title),
        sensitivity.machine,
        line,
        sensitivity.machine,
        numbers.change_seen(row.smallest) if row.smallest else "–",
        f"{within} commit{'' if within == 1 else 's'}" if within else "–",
        "–" if row.between is None else percent(row.between),
        f"{row.aa_different} of {row.aa_runs}" if row.aa_runs else "–",
    )


def phases(expected: DurationEstimate) -> SafeString:
    """How long a run takes; the title has its phases."""
    return format_html('<span title="{}">{}</span>', phases_in_words(expected), numbers.duration(expected.seconds))


@register.filter
def phases_in_words(expected: DurationEstimate) -> str:
    durations = {"builds": expected.build_s, expected.trials_name: expected.trials_s, "around them": expected.around_s}
    return ", ".join(f"{name} {numbers.duration(seconds)}" for name, seconds in durations.items() if seconds >= 0.05)


PRIVATE_RUN = mark_safe('<tr><th scope="row">–</th><td class="soft" colspan="4">a private project</td>')


@register.simple_tag
def waiting_rows(work: MachineWork) -> SafeString:
    """The runs that wait for a machine, a row each."""
    return join(waiting_row(run, expected) for run, expected in work.waiting)


def waiting_row(run: WaitingRun | None, expected: ExpectedRun | None) -> SafeString:
    times = format_html(
        "<td>{}</td><td>{}</td><td>{}</td></tr>",
        ago(expected.starts_at) if expected else "–",
        ago(expected.ends_at) if expected else "–",
        phases(expected.phases) if expected else "–",
    )
    if run is None:
        return PRIVATE_RUN + times
    return (
        format_html(
            '<tr><th scope="row"><a href="{}">{}</a></th><td><a href="{}">{}</a></td><td>{}</td>'
            '<td class="subjectcell"><a class="sha" href="{}">{}</a> {}</td><td>{}</td>',
            run_path(run.pk),
            run.pk,
            project_path(run.slug),
            run.project,
            explained(f"reason {run.reason}", run.reason),
            commit_path(run.slug, run.sha),
            run.sha[:10],
            run.subject,
            ago(run.created),
        )
        + times
    )


@register.simple_tag
def measurement_rows(page: RunPage) -> SafeString:
    """The measurements of a run, a row each; of a paired run with their side."""
    return mark_safe("".join(measurement_row(page.run, row) for row in page.results.measurements))  # noqa: S308 (escaped there)


def measurement_row(run: Run, row: MeasurementRow) -> str:
    waits = "" if row.accepted or run.canary_id else ' <span class="soft">not accepted yet</span>'
    address = escape(timeline_path(run.project.slug, row.benchmark, row.metric.name))
    return (
        f'<tr><th scope="row"><a href="{address}?machine={escape(run.machine.name)}">{escape(row.benchmark)}</a></th>'
        f"<td>{explained(f'metric {row.metric.name}', row.metric.title)}</td>{side_cell(run, row.side)}"
        f'<td class="number">{escape(numbers.quantity(row.metric, row.value))}</td>'
        f'<td class="number soft">{escape(numbers.interval(row.metric, row.low, row.high))}</td>'
        f'<td class="number">{row.n}</td><td>{flags_badge(row.flags)}{waits}</td></tr>'
    )


@register.simple_tag
def trial_rows(page: RunPage) -> SafeString:
    """The trials of a run, a row each."""
    return mark_safe("".join(trial_row(page.run, row) for row in page.trials))  # noqa: S308 (escaped there)


def trial_row(run: Run, row: TrialRow) -> str:
    return (
        f'<tr><td class="number">{row.order}</td><td>{escape(row.benchmark)}</td>{side_cell(run, row.side)}'
        f'<td class="number">{row.number}</td><td class="number">{numbers.duration(row.seconds)}</td>'
        f"<td>{flags_badge(row.flags)}</td><td>{ago(row.started_at)}</td></tr>"
    )


@register.simple_tag
def timeline_rows(table: TimelineTable) -> SafeString:
    """The commits of a timeline, a row for each point or gap."""
    return join(timeline_row(row) for row in table.rows)


def timeline_row(row: TableRow) -> SafeString:
    commit, point, line = row.commit, row.point, row.line
    return format_html(
        '<tr><th scope="row"><a class="sha" href="{}">{}</a></th>{}<td class="subjectcell">{}</td><td>{}</td>'
        "<td>{}</td></tr>",
        commit_path(row.path.slug, commit.sha),
        commit.sha[:10],
        point_cells(line.metric, point, row) if line and point else gap_cells(row),
        commit.subject,
        commit.author,
        row.title,
    )


def point_cells(metric: Metric, point: RowPoint, row: TableRow) -> SafeString:
    environment, change = row.new_environment, row.change
    return format_html(
        '<td class="number">{}</td><td class="number">{}</td><td class="number">{}</td><td>{} {} {}</td>',
        numbers.quantity(metric, point.value),
        numbers.interval(metric, point.low, point.high),
        point.n,
        flags_badge(point.flags),
        format_html('<span class="badge" title="{}">new environment</span>', environment) if environment else "",
        change_badge(change, change.change_in_words) if change else "",
    )


def gap_cells(row: TableRow) -> SafeString:
    return format_html('{}<td></td><td></td><td class="soft">{}</td>', NOTHING, row.gap.reason)


def side_cell(run: Run, side: str) -> SafeString | str:
    return format_html("<td>{}</td>", side) if run.paired else ""


def flags_badge(flags: Sequence[str]) -> SafeString | str:
    if not flags:
        return ""
    flag_names = format_html_join(", ", "{}", ((explained(f"flag {flag}", flag),) for flag in flags))
    return format_html('<span class="badge flagged">{}</span>', flag_names)


def join(pieces: Iterable[SafeString]) -> SafeString:
    return mark_safe("".join(pieces))  # noqa: S308 (its pieces are safe)
