"""Lines of logs as HTML: their texts are by others, their styles are ours."""

from collections.abc import Iterable

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from speedtrack.ground.texts.ansi import Span, spans
from speedtrack.runs.results.logs import Match, StoredLine
from speedtrack.web.addresses import path_of

register = template.Library()

CUT = '<i class="cut">the rest is in the raw log</i>'
BEFORE = 5  # lines that are shown before one that was searched for


@register.simple_tag
def log_lines(run: int, lines: Iterable[StoredLine]) -> SafeString:
    """Each line with its number, which links to it."""
    path = path_of("run-log", run)
    return mark_safe("".join(log_line(path, line) for line in lines))  # noqa: S308 - numbers are ours, texts are escaped


def log_line(path: str, line: StoredLine) -> str:
    number = f'<a href="{path}?from={line.number}#L{line.number}" tabindex="-1">{line.number}</a>'
    return f'<li id="L{line.number}">{number}<span>{text_of(spans(line.text))}{CUT if line.cut else ""}</span></li>'


def text_of(text_spans: Iterable[Span]) -> str:
    return "".join(f'<b class="{styles}">{escape(text)}</b>' if styles else escape(text) for text, styles in text_spans)


@register.simple_tag
def log_matches(run: int, matches: Iterable[Match]) -> SafeString:
    """Each line that was found, with a link to where it stands."""
    path = path_of("run-log", run)
    return mark_safe("".join(log_match(path, match) for match in matches))  # noqa: S308 - texts are escaped


def log_match(path: str, match: Match) -> str:
    address = f"{path}?from={max(1, match.number - BEFORE)}#L{match.number}"
    text = f"{escape(match.before)}<mark>{escape(match.found)}</mark>{escape(match.after)}"
    return f'<li><a href="{address}">{match.number}</a><span>{text}</span></li>'
