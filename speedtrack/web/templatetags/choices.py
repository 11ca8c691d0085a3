"""Benchmarks to choose from, written in Python: a suite may have thousands, and each page with a form lists them."""

from collections.abc import Collection, Iterable
from html import escape
from urllib.parse import quote

from django import template
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from speedtrack.web.pages.compare.page import PairedChoice
from speedtrack.web.pages.releases.page import BenchmarkChoice

register = template.Library()

UNNAMED = "\0"  # stands for the benchmark in an address, as no name has it
SAFE = "!$&'()*+,;=/~:@"  # as ``reverse`` quotes


@register.simple_tag
def name_options(names: Iterable[str], chosen: str | Collection[str]) -> SafeString:
    """Options whose values are these names. ``chosen``: a name, or several."""
    selected = {chosen} if isinstance(chosen, str) else set(chosen)
    return joined(option(name, name, name in selected) for name in names)


@register.simple_tag
def timeline_options(slug: str, metric: str, names: Iterable[str], chosen: str) -> SafeString:
    """Options whose values are the addresses of these benchmarks' timelines."""
    return address_options(reverse("timeline", args=[slug, UNNAMED, metric]), names, chosen)


@register.simple_tag
def latency_options(slug: str, names: Iterable[str], chosen: str) -> SafeString:
    """Options whose values are the addresses of these benchmarks' latencies."""
    return address_options(reverse("latency", args=[slug, UNNAMED]), names, chosen)


def address_options(pattern: str, names: Iterable[str], chosen: str) -> SafeString:
    before, after = pattern.split(quote(UNNAMED))
    return joined(option(f"{before}{quote(name, safe=SAFE)}{after}", name, name == chosen) for name in names)


def option(value: str, name: str, is_chosen: bool) -> str:
    return f'<option value="{escape(value)}"{" selected" if is_chosen else ""}>{escape(name)}</option>'


@register.simple_tag
def benchmark_ticks(choices: Iterable[PairedChoice | BenchmarkChoice]) -> SafeString:
    """Items of a list, each with a box to tick for a benchmark."""
    return joined(
        f'<li><label><input type="checkbox" name="benchmark" value="{escape(choice.name)}"'
        f"{' checked' if choice.chosen else ''}> {escape(choice.name)}</label></li>"
        for choice in choices
    )


def joined(options: Iterable[str]) -> SafeString:
    return mark_safe("".join(options))  # noqa: S308 (escaped there)
