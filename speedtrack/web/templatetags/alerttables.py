"""Lists of alerts, and the evidence of one, written in Python as the tables of ``tables.py`` are."""

from collections.abc import Iterable, Sequence
from html import escape
from urllib.parse import quote, urlencode

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from speedtrack.alerts.headlines import DirectionSummary
from speedtrack.alerts.models import Alert, Mute
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.ground.texts.text import plain
from speedtrack.judging.verdicts import SETTLED, look_of_change, sign_of_change, way_of
from speedtrack.projects.mirrors.hunks import Hunk, Kind
from speedtrack.projects.models import Project
from speedtrack.web.addresses import alert_path, commit_path, project_path, timeline_path
from speedtrack.web.drawing.small.excerpts import Excerpt
from speedtrack.web.drawing.small.plots import Forest, Whisker
from speedtrack.web.drawing.small.strips import ChangeStrip, SideStrips
from speedtrack.web.forges import forge_of
from speedtrack.web.pages.alerting.alert import AlertPage, ChangeEvidence
from speedtrack.web.pages.alerting.alerts import ListedAlert
from speedtrack.web.templatetags.show import ago, explained
from speedtrack.web.templatetags.tables import join
from speedtrack.web.templatetags.verdicts import badge

register = template.Library()

SIGNED = {"+": "ins", "-": "del"}  #: elements of a hunk's lines, by their sign


@register.simple_tag
def alert_rows(listed_alerts: Iterable[ListedAlert], project: Project | None, selectable: bool = False) -> SafeString:
    """Alerts as items of a list; of all projects, each with its own. ``selectable``: with a box to select it."""
    return join(alert_row(row, project, selectable) for row in listed_alerts)


def alert_row(row: ListedAlert, project: Project | None, selectable: bool) -> SafeString:
    alert = row.alert
    return format_html(
        '<li>{}<span class="sign {} {}" aria-hidden="true">{}</span><div><p class="finding"><a class="open" href="{}">'
        '{}</a></p><p class="byline">{}{}<a class="sha" href="{}">{}</a>{} <span class="soft">{}on {}</span></p>'
        '</div>{}<span class="badges"><span class="badge {}{}">{}</span>{}{}<br><span class="soft small">alert {}, '
        "{}</span></span></li>",
        selecting_box(alert) if selectable else "",
        "better" if alert.improvement else "worse",
        alert.status,
        sign_of_change(alert.is_slowdown),
        alert_path(alert.pk),
        summary_words(row),
        "" if project else format_html('<a href="{}">{}</a> · ', project_path(alert.project.slug), alert.project.name),
        range_words(alert),
        commit_path(alert.project.slug, alert.commit.sha),
        alert.commit.short,
        format_html(' <span class="subject">{}</span>', alert.commit.subject) if is_one_commit(alert) else "",
        f"{alert.commit.author_name}, " if alert.width == 1 else "",
        alert.branch.name,
        change_strip(row.strip) if row.strip else "",
        alert.status,
        " good" if alert.improvement else "",
        explained(f"alert {alert.status}", alert.status),
        format_html(' <span class="badge">{}</span>', explained("muted", "muted")) if alert.muted else "",
        format_html(' <span class="soft">{}</span>', alert.assignee.username) if alert.assignee else "",
        alert.pk,
        ago(alert.created),
    )


def selecting_box(alert: Alert) -> SafeString:
    return format_html(
        '<input type="checkbox" name="alert" value="{}:{}" form="decide" aria-label="Select alert {}">',
        alert.pk,
        alert.status,
        alert.pk,
    )


def summary_words(row: ListedAlert) -> SafeString:
    """The largest change in each direction, slowdowns first."""
    phrases = [direction_words(summary, row.alert.status) for summary in row.summaries]
    return format_html_join("; ", "{}", ((phrase,) for phrase in phrases)) or format_html("alert {}", row.alert.pk)


@register.simple_tag
def direction_words(summary: DirectionSummary, alert_state: str = "") -> SafeString:
    """What moved one way: the largest change, and how many benchmarks moved with it. It has no colour once settled."""
    return format_html(
        '<strong class="{}">{}</strong> {}, {}{}',
        "settled" if alert_state in SETTLED else way_of(summary.is_slowdown),
        summary.effect,
        summary.largest.benchmark_name,
        summary.largest.metric.title,
        format_html(' <span class="soft">{}</span>', summary.others) if summary.more else "",
    )


def change_strip(strip: ChangeStrip) -> SafeString:
    """The changes of an alert as dots, worse to the right; the line is the interval of the worst one."""
    dots = (
        format_html('<circle class="worse" cx="{}" cy="11" r="3.5"/>', dot.x)
        if dot.worse
        else format_html('<rect class="better" x="{}" y="8" width="6" height="6"/>', round(dot.x - 3, 1))
        for dot in strip.dots[::-1]
    )
    return format_html(
        '<svg class="changestrip" viewBox="0 0 {} {}" width="{}" height="{}" aria-hidden="true"><path class="one" '
        'd="M{} 0v22"/><path class="interval" d="M{} 11H{}"/>{}</svg>',
        *(strip.width, strip.height) * 2,
        strip.middle,
        strip.low,
        strip.high,
        join(dots),
    )


def is_one_commit(alert: Alert) -> bool:
    return alert.width == 1 and not alert.drift


def range_words(alert: Alert) -> str:
    if alert.drift:
        return f"little by little since {alert.drift} up to "
    return "" if alert.width == 1 else f"one of {alert.width} commits up to "


@register.simple_tag
def pair_rows(pairs: Sequence[tuple[float, float]], metric: Metric) -> SafeString:
    """Pairs of values, a row each."""
    return format_html_join(
        "",
        '<tr><td class="number">{}</td><td class="number">{}</td><td class="number">{}</td></tr>',
        (
            (number, numbers.quantity(metric, before), numbers.quantity(metric, after))
            for number, (before, after) in enumerate(pairs, start=1)
        ),
    )


@register.simple_tag
def patch_lines(lines: Sequence[tuple[str, str]]) -> SafeString:
    """The lines of a hunk, each with its sign, as git shows them: added and removed ones are marked up as such."""
    rows = ((SIGNED.get(sign, "span"), sign, plain(line)) for sign, line in lines)
    marked_lines = format_html_join("", "<{0}>{1}{2}\n</{0}>", rows)
    return format_html('<pre class="patch" tabindex="0"><code>{}</code></pre>', marked_lines)


@register.simple_tag
def hunk_place(alert: Alert, hunk: Hunk) -> SafeString:
    """The file and line of a hunk, linked to the forge where it is known: a deleted file as it was before."""
    is_gone = hunk.kind == Kind.DELETED
    line = hunk.line or hunk.before_line
    label = plain(f"{hunk.path}:{line}" if line else hunk.path)
    forge = forge_of(alert.project.url)
    if forge is None or hunk.kind == Kind.SUBMODULE:
        return format_html("{}", label)
    sha = alert.before.sha if is_gone else alert.commit.sha
    last = hunk.line + max(hunk.lines, 1) - 1
    address = forge.lines(sha, hunk.path, hunk.line, last) if hunk.line else forge.file(sha, hunk.path)
    return format_html('<a href="{}" rel="noopener">{}</a>', address, label)


@register.simple_tag
def evidence_rows(page: AlertPage) -> SafeString:
    """The changes of an alert, a row each: size, interval on the axis of all, line around the range, verdict."""
    alert = page.alert
    around = {"branch": alert.branch.name, "around": alert.commit.sha[:12]}
    return join(evidence_row(alert.project, around, page.forest, evidence) for evidence in page.evidence)


def evidence_row(project: Project, around: dict[str, str], forest: Forest, evidence: ChangeEvidence) -> SafeString:
    cp = evidence.change_point
    query = urlencode({**around, "machine": cp.series.machine.name}, quote_via=quote)
    return format_html(
        '<tr><th scope="row"><a href="{}?{}">{}</a></th><td class="metric">{}</td><td class="number {}"><strong>{}'
        '</strong><br><span class="soft small">{}</span></td><td class="plot">{}</td><td class="plot">{}</td>'
        "<td>{}</td>"
        '<td class="verdict"><span class="badge {}">{}</span> <span class="small">{}</span> '
        '<span class="soft small">{}</span>{}</td></tr>',
        timeline_path(project.slug, cp.series.benchmark.name, cp.series.metric),
        query,
        cp.series.benchmark.name,
        explained(f"metric {cp.series.metric}", cp.metric.title),
        look_of_change(cp),
        cp.change_in_words,
        cp.interval_in_words,
        whisker(forest, evidence.whisker, way_of(cp.is_slowdown), evidence.summary),
        excerpt(evidence.excerpt) if evidence.excerpt else "",
        cp.series.machine.name,
        badge(cp),
        explained(f"change {cp.status}", cp.status),
        evidence.work.words,
        cp.note,
        mute_badge(project, evidence.mute) if evidence.mute else "",
    )


def mute_badge(project: Project, mute: Mute) -> SafeString:
    address, title = f"{project_path(project.slug)}mutes/", f"until {mute.until:%Y-%m-%d}: {mute.reason}"
    return format_html(' <a class="badge" href="{}" title="{}">muted</a>', address, title)


def whisker(forest: Forest, row: Whisker, look: str, label: str) -> SafeString:
    """A ratio with its interval: a dot where it got worse, a square where it got better."""
    size = f'viewBox="0 0 {forest.width:.0f} 22" width="{forest.width:.0f}" height="22"'
    mark = f'<circle cx="{row.middle}" cy="11" r="4.5"/>'
    if look == "better":
        mark = f'<rect x="{row.middle - 4:.1f}" y="7" width="8" height="8"/>'
    return mark_safe(  # noqa: S308 - numbers are ours, the label is escaped
        f'<svg class="{look}" {size} role="img" aria-label="{escape(label)}"><path class="one" d="M{forest.one} 0v22"/>'
        f'<path class="whisker" d="M{row.low} 11H{row.high}M{row.low} 7v8M{row.high} 7v8"/>{mark}</svg>'
    )


def excerpt(drawing: Excerpt) -> SafeString:
    """The line of a series around the range, which is shaded; pale: flagged."""
    height = f"{drawing.height:.0f}"
    size = f'viewBox="0 0 {drawing.width:.0f} {height}" width="{drawing.width:.0f}" height="{height}"'
    return mark_safe(  # noqa: S308 - numbers of ours
        f'<svg class="excerpt" {size} aria-hidden="true"><rect x="{drawing.left}" y="0" width="{drawing.band}" '
        f'height="{height}"/><path d="{drawing.dots}"/><path class="flagged" d="{drawing.flagged}"/></svg>'
    )


@register.simple_tag
def side_strips(strips: SideStrips, label: str) -> SafeString:
    """The samples of both sides of pairs: circles before, squares after, a line at each median."""
    row, half, height = strips.row, strips.row / 2, strips.height
    before = "".join(
        f'<circle class="before" cx="{dot.x}" cy="{dot.y}" r="4"><title>{escape(dot.title)}</title></circle>'
        for dot in strips.before
    )
    after = "".join(
        f'<rect class="after" x="{dot.left}" y="{dot.top}" width="7" height="7"><title>{escape(dot.title)}</title>'
        "</rect>"
        for dot in strips.after
    )
    medians = f"M{strips.middle_before} 4v{row - 8}M{strips.middle_after} {row + 4}v{row - 8}"
    ticks = "".join(
        f'<text x="{x}" y="{height - 4}" text-anchor="{anchor}">{escape(text)}</text>'
        for (x, text), anchor in zip(strips.ticks, ("start", "end"), strict=False)
    )
    names = f'<text x="0" y="{half + 4}">before</text><text x="0" y="{row + half + 4}">after</text>'
    size = f'viewBox="0 0 {strips.width:.0f} {height:.0f}"'
    return mark_safe(  # noqa: S308 - numbers are ours, texts are escaped
        f'<svg class="sidestrips" {size} role="img" aria-label="{escape(label)}">{names}<path class="rule" '
        f'd="M50 {row}H{strips.width}"/><path class="median" d="{medians}"/>{before}{after}{ticks}</svg>'
    )
