"""Judgements and totals as pages show them."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from speedtrack.alerts.headlines import DirectionSummary
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.benchmarks import numbers
from speedtrack.judging.totals import Total
from speedtrack.judging.verdicts import JudgedChange, look_of_change, sign_of_change, way_of
from speedtrack.web.pages.timeline.points import ShownChange

register = template.Library()
register.filter("look", look_of_change)
register.filter("way", way_of)


@register.filter
def sign(change: JudgedChange | DirectionSummary | Alert) -> str:
    return sign_of_change(change.is_slowdown)


@register.filter
def badge(change: ChangePoint | ShownChange) -> str:
    """The CSS classes of a change point's badge: those of its alert once that is settled."""
    look = look_of_change(change)
    status = change.alert_state if look == "settled" else change.status
    return f"{status} good" if look == "better" else str(status)


@register.simple_tag
def total_ratio(total: Total) -> SafeString:
    """The mean of a total in the colour of its verdict, with its interval, and what it rests on if that is not all."""
    if total.mean is None:
        return format_html('<span class="soft">{}</span>', "–" if total.words == "uncertain" else total.words)
    rests_on = f"({total.rests_on})" if total.benchmarks < total.of else ""
    return format_html(
        '<span class="change {}" title="{}">{}{}</span> <span class="soft">{}</span>',
        total.look,
        f"{total.words}, of {total.rests_on}",
        total.sign,
        numbers.change(total.mean.ratio),
        f"{total.interval_in_words} {rests_on}".strip(),
    )


@register.simple_tag
def ratio(total: Total) -> SafeString:
    """The mean of a total with its direction, and its interval on hover."""
    if total.mean is None:
        return format_html('<span class="soft">{}</span>', "–")
    interval = f"; 95% interval: {total.interval_in_words}" if total.interval else ""
    return format_html(
        '<span class="change {}" title="{}{}">{}{}</span>',
        total.look,
        total.words,
        interval,
        total.sign,
        numbers.change(total.mean.ratio),
    )
