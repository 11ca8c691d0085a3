"""Filters and tags that format values on pages."""

from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from urllib.parse import quote, urlencode

from django import template
from django.http import QueryDict
from django.urls import reverse
from django.utils import timezone
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import Metric
from speedtrack.ground.texts.markdown import html_of
from speedtrack.ground.texts.text import plain
from speedtrack.projects import successors
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.models import Machine, Series
from speedtrack.web.addresses import metric_in_query, path_of, timeline_path
from speedtrack.web.drawing.charts.linecharts import axis_label
from speedtrack.web.drawing.small.sparkline import SIZES, Sparkline
from speedtrack.web.help import TERMS, Term

register = template.Library()

register.filter("duration", numbers.duration)
register.filter("change_seen", numbers.change_seen)
register.filter("in_query", metric_in_query)
register.filter("plain", plain)
register.filter("markdown", html_of)
register.filter("axis_number", axis_label)
register.filter("successor", successors.in_words)
register.simple_tag(path_of, name="path")  # of lists: ``url`` takes several times as long


@register.filter
def quantity(value: float, metric: Metric) -> str:
    return numbers.quantity(metric, value)


@register.filter
def percent(share: float) -> str:
    return f"{share:.1%}"


@register.simple_tag
def margin(metric: Metric, value: float, low: float, high: float) -> str:
    return numbers.margin(metric, value, low, high)


@register.simple_tag
def interval(metric: Metric, low: float, high: float) -> str:
    return numbers.interval(metric, low, high)


@register.simple_tag
def ago(at: datetime | None) -> SafeString | str:
    """How long ago a moment was, which a script keeps true; its title has the moment itself."""
    if at is None:
        return "never"
    exact, text = at.isoformat(timespec="seconds"), numbers.ago((timezone.now() - at).total_seconds())
    title = f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return mark_safe(f'<time class="ago" datetime="{exact}" title="{title}">{text}</time>')  # noqa: S308 (numbers and words)


@register.simple_tag
def moment(at: datetime) -> SafeString:
    """A moment in UTC, which a script replaces by the reader's own time; its title keeps UTC."""
    exact, text = at.isoformat(timespec="seconds"), f"{at:%Y-%m-%d %H:%M} UTC"
    return format_html('<time class="moment" datetime="{}" title="{}">{}</time>', exact, text, text)


@register.filter
def first_line(value: str) -> str:
    return plain(value).strip().partition("\n")[0]


@register.filter
def with_code(text: str) -> SafeString:
    """Show text between backticks as code."""
    pieces = plain(text).split("`")
    fragments = (format_html("<code>{}</code>", piece) if i % 2 else piece for i, piece in enumerate(pieces))
    return format_html_join("", "{}", ((piece,) for piece in fragments))


@register.simple_tag
def help_url(term: Term) -> str:
    """The address of the page that says more about a term."""
    name, _, anchor = term.page.partition("#")
    return reverse("help", args=[name]) + (f"#{anchor}" if anchor else "")


@register.simple_tag(name="term")
def term_tag(key: str, name: str = "", label: str = "") -> SafeString:
    """A word that explains itself: its meaning on hover and focus, and a link to the page with more.

    ``{% term "interval" %}``, ``{% term "run" run.status %}``. ``label``: other words to show. A word that the table of
    help does not know stays plain.
    """
    return explained(f"{key} {name}" if name else key, label or name)


@lru_cache(2000)
def explained(key: str, label: str) -> SafeString:
    term = TERMS.get(key)
    if term is None:
        return conditional_escape(label)
    address, sentence = help_url(term), term.sentence.replace("`", "")
    return format_html('<a class="term" href="{}" title="{}">{}</a>', address, sentence, label or term.title)


@register.simple_tag
def sparkline(values: Sequence[float | None], label: str, size: str = "small") -> SafeString:
    """A small line without axes; None is a gap."""
    return svg_of_line(tuple(values), label, size)


@lru_cache(1000)
def svg_of_line(values: tuple[float | None, ...], label: str, size: str) -> SafeString:
    return Sparkline.of(values, SIZES[size]).svg(label)


@register.simple_tag
def timeline_url(
    project: Project,
    series: Series,
    *,
    machine: Machine | None = None,
    branch: Branch | None = None,
    around: Commit | None = None,
    form: str = "",
) -> str:
    """The address of a series' timeline. Pass ``machine`` where the series is loaded without its own."""
    names = (project.slug, series.benchmark.name, series.metric)
    path = reverse("timeline-values", args=[*names, form]) if form else timeline_path(*names)
    selection = {"branch": branch.name} if branch else {}
    selection["machine"] = (machine or series.machine).name
    if around:
        selection["around"] = around.sha[:12]
    return f"{path}?{urlencode(selection, quote_via=quote)}"


@register.simple_tag
def mute_url(project: Project, series: Series) -> str:
    """The address of the form that mutes a series."""
    selection = {
        "benchmark": series.benchmark.name,
        "metric": metric_in_query(series.metric),
        "machine": series.machine.name,
    }
    return f"{reverse('mutes', args=[project.slug])}?{urlencode(selection, quote_via=quote)}"


@register.simple_tag(takes_context=True)
def choice(context: template.Context, key: str, value: str, label: str, selection: str) -> SafeString:
    """A button that sets one key of the query; the default has an empty value, and its label is its name."""
    is_chosen = selection == (value or label)
    current = SafeString(' aria-current="true"') if is_chosen else ""
    address = query(context, **{key: value})
    return format_html('<a class="button" href="{}" data-follows{}>{}</a>', address, current, label)


@register.simple_tag(takes_context=True)
def query(context: template.Context, **changes: object) -> str:
    """The page's query string with some keys set, or removed if None or empty."""
    parameters: QueryDict = context["request"].GET.copy()
    for key, value in changes.items():
        if value is None or value == "":
            parameters.pop(key, None)
        else:
            parameters[key] = metric_in_query(str(value)) if key == "metric" else str(value)
    return f"?{parameters.urlencode()}" if parameters else "?"
