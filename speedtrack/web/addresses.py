"""Metrics and dates in addresses, and addresses that a page has hundreds of.

``reverse`` takes twenty microseconds for each.
"""

import re
from datetime import UTC, date, datetime, time
from functools import lru_cache

from django.http import Http404, QueryDict
from django.urls import reverse

from speedtrack.benchmarks.metrics import METRICS, Direction, outside_key, outside_metric, unescaped

KEPT = 20_000  # of each kind, in the mean

STANDS_FOR = str.maketrans(" /", "+:")
REPLACED = str.maketrans("+:", " /")
OTHERS = re.compile(r"[^\w /.()\[\]<>=*!@&$'-]")  # characters that are written ~ and their number
PER, MICROSECONDS = "-per-", "µs"
NOT_IN_QUERY = re.compile(r"[^\w .-]", re.ASCII)  # what forms would write as % and numbers


class MetricConverter:
    """A metric in an address: its name; of one from outside ``name,unit,direction`` in characters that people can read.

    The key under which it is stored is taken as well: former links have it.
    """

    regex = r"[^/,]+,[^/,]*,(?:higher|lower)|[-a-zA-Z0-9_]+"

    def to_python(self, text: str) -> str:
        name, *details = text.split(",")
        if not details:
            return text
        unit, better = details
        return outside_key(decoded(name), decoded(unit), Direction(better))

    def to_url(self, key: str) -> str:
        metric = outside_metric(key)
        return f"{encoded(metric.title)},{encoded(metric.unit)},{metric.better}" if metric else key


def metric_in_query(key: str) -> str:
    """A metric as ``?metric=`` has it, such as ``allocs-per-op`` or ``throughput--requests-per-s--higher``.

    Forms write only these characters as they are. It is the key where that is shorter, or nothing else is unique.
    """
    metric = outside_metric(key)
    if metric is None:
        return key
    names = [metric.title, *([metric.unit] if metric.unit != metric.title else [])]
    better = ["higher"] if metric.better == Direction.HIGHER else []
    text = "--".join([*map(in_query, names), *better])
    return text if metric_named(text) == key else key


def in_query(text: str) -> str:
    escaped = NOT_IN_QUERY.sub(lambda match: "".join(f"-{byte:02X}" for byte in match[0].encode()), text)
    return "us" if text == MICROSECONDS else escaped.replace("-2F", PER)


def metric_given(query: QueryDict) -> str:
    """The key of the metric in a query, in which links and forms have it readable and former links as it is."""
    return metric_named(query.get("metric", ""))


def metric_named(text: str) -> str:
    """The key of a metric in an address; the text itself if it is none."""
    if text in METRICS or not ("--" in text or PER in text):
        return text
    name, *details = text.split("--")
    better = Direction(details.pop()) if details[-1:] == ["higher"] else Direction.LOWER
    if len(details) > 1:
        return text
    unit = MICROSECONDS if details == ["us"] else (details or [name])[0]
    try:
        return outside_key(unescaped(name.replace(PER, "/")), unescaped(unit.replace(PER, "/")), better)
    except UnicodeDecodeError:
        return text


def encoded(text: str) -> str:
    return OTHERS.sub(lambda match: f"~{ord(match[0]):x}~", text).translate(STANDS_FOR)


def decoded(text: str) -> str:
    """The text behind its form in an address. Raises ValueError, by which no address matches."""
    return re.sub(r"~([0-9a-f]{1,6})~", lambda match: chr(int(match[1], 16)), text.translate(REPLACED))


@lru_cache(4 * KEPT)
def path_of(name: str, *arguments: str | int) -> str:
    """The path of the page of this name in ``urls.py``."""
    return reverse(name, args=arguments)


def timeline_path(slug: str, benchmark: str, metric: str) -> str:
    return path_of("timeline", slug, benchmark, metric)


def commit_path(slug: str, sha: str) -> str:
    return path_of("commit", slug, sha)


def project_path(slug: str) -> str:
    return path_of("project", slug)


def run_path(pk: int) -> str:
    return path_of("run", pk)


def alert_path(pk: int) -> str:
    return path_of("alert", pk)


def midnight(text: str) -> datetime:
    """The begin of a day in UTC. Raises Http404 for what is no date."""
    try:
        moment = datetime.combine(date.fromisoformat(text), time(), UTC)
        return moment if moment.year < 9000 else datetime(9000, 1, 1, tzinfo=UTC)
    except ValueError:
        raise Http404(f"There is no date {text[:20]!r}: give one such as 2026-05-01.") from None
