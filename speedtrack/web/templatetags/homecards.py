"""The measured part of a project's card on the home page, as HTML made in Python: a template takes twice as long."""

from html import escape
from urllib.parse import quote

from django import template
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator

from speedtrack.alerts.templatetags.findings import effect
from speedtrack.benchmarks import numbers
from speedtrack.judging.verdicts import look_of_change, sign_of_change
from speedtrack.projects.models import Commit, Project
from speedtrack.web.addresses import commit_path, path_of
from speedtrack.web.pages.changes import ChangeGroup
from speedtrack.web.pages.home import Card
from speedtrack.web.pages.releasepoints import ReleaseChange
from speedtrack.web.pages.trends import NewestMeasured
from speedtrack.web.templatetags.show import ago, explained, sparkline
from speedtrack.web.templatetags.verdicts import ratio

register = template.Library()

TAG_LENGTH = 30
TREND = "Trend of the headline metric over the newest commits"


@register.simple_tag
def card_trend(card: Card, is_alone: bool) -> SafeString:
    """The newest value of the headline metric, what it is, and its line."""
    value = escape(numbers.quantity(card.metric, card.newest)) if card.newest else "–"
    count, mean = len(card.trends), explained("geometric mean", "geometric mean")
    of_many = f",\n{mean} of {count} benchmarks" if count > 1 else ""
    metric = explained(f"metric {card.metric.name}", card.metric.title)
    line = sparkline(card.line, TREND, "full" if is_alone else "wide")
    return mark_safe(  # noqa: S308 - escaped
        f'<div class="trend"><p class="headline"><strong>{value}</strong>\n'
        f'<span class="soft">{metric}{of_many} on {escape(card.machine)}</span></p>\n{line}</div>'
    )


@register.simple_tag
def card_facts(card: Card) -> SafeString:
    """The rows of a card: the newest measured commit, the head if it is another, the last change, the last release."""
    head = card.branch.head if card.branch else None
    rows = [
        ("Measured", ' class="commit"', newest_commit(card.project, card.measured) if card.measured else ""),
        ("Head", ' class="commit"', newest_commit(card.project, head) if head and not card.fresh else ""),
        ("Last change", "", last_change(card.project, card.change) if card.change else ""),
        ("Release", "", "\n<br>".join(filter(None, (last_release(card), since_release(card))))),
    ]
    facts = (f"<div><dt>{name}</dt>\n<dd{look}>{content}</dd></div>" for name, look, content in rows if content)
    return mark_safe("\n".join(facts))  # noqa: S308 - escaped


def newest_commit(project: Project, commit: NewestMeasured | Commit) -> str:
    return (
        f"{sha_link(project, commit)} "
        f'<span class="subject">{escape(commit.subject)}</span> <span class="soft">{ago(commit.committed_at)}</span>'
    )


def sha_link(project: Project, commit: NewestMeasured | Commit) -> str:
    return f'<a class="sha" href="{escape(commit_path(project.slug, commit.sha))}">{escape(commit.sha[:10])}</a>'


def last_change(project: Project, change: ChangeGroup) -> str:
    further = f'\n<span class="soft">and {len(change.points) - 1} more</span>' if len(change.points) > 1 else ""
    return (
        f'<span class="{look_of_change(change)}">{sign_of_change(change.is_slowdown)} {effect(change.worst)} '
        f"{escape(change.worst.change_in_words)}</span>\n"
        f"{escape(change.worst.series.benchmark.name)}{further},\n{sha_link(project, change.commit)}\n"
        f'<span class="soft">{ago(change.commit.committed_at)}, '
        f"{explained(f'change {change.state}', change.state)}</span>"
    )


def last_release(card: Card) -> str:
    """The last release against the one before it, with links to both."""
    release, slug = card.release, card.project.slug
    if release is None:
        return ""
    query = f"base={quote(release.before)}&amp;head={quote(release.tag)}&amp;machine={quote(card.machine)}"
    of_many = f", geometric mean of {escape(release.total.rests_on)}" if release.total.of > 1 else ""
    return (
        f'<a href="{escape(path_of("releases", slug))}">{shortened_tag(release.tag)}</a>\n{ratio(release.total)} '
        f'<span class="soft"><a href="{escape(path_of("compare", slug))}?{query}">against '
        f"{shortened_tag(release.before)}</a>{of_many}</span>"
    )


def since_release(card: Card) -> str:
    """The newest values against the last release."""
    since: ReleaseChange | None = card.since
    if since is None:
        return ""
    term = explained("since", "since")
    return f'{ratio(since.total)}\n<span class="soft">{term} {shortened_tag(since.before)}</span>'


def shortened_tag(tag: str) -> str:
    return escape(tag if len(tag) <= TAG_LENGTH else Truncator(tag).chars(TAG_LENGTH))
