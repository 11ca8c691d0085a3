"""How findings are worded, in mails and on pages."""

from django import template

from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks import numbers

register = template.Library()

register.filter("change", numbers.change)
register.simple_tag(numbers.change_interval)
register.filter("signed", numbers.signed)


@register.filter
def effect(change_point: ChangePoint) -> str:
    """``slower``, ``faster``, ``more memory``, ``smaller binary``: the table is in ``numbers``."""
    return numbers.effect(change_point.metric, change_point.is_slowdown)
