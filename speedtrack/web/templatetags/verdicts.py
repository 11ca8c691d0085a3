"""Judgements and totals as pages show them."""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from speedtrack.benchmarks import numbers
from speedtrack.judging.totals import Total

register = template.Library()


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
