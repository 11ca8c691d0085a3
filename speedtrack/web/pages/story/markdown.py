"""The story of a release as Markdown, for release notes and chats."""

import re
from collections.abc import Iterator

from django.conf import settings
from django.urls import reverse

from speedtrack.ground.texts.text import plain
from speedtrack.web.pages.story.page import StoryPage, ToldChange

SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&])")


def markdown_of(page: StoryPage, address: str) -> str:
    """The story as text that ends in a newline. ``address``: the path of its page."""
    return "\n".join(lines_of(page, address)) + "\n"


def lines_of(page: StoryPage, address: str) -> Iterator[str]:
    if page.sides is None:
        yield f"No release of {literal(page.project.name)} was measured yet."
        return
    yield f"# {literal(page.project.name)} {literal(page.title)}"
    yield ""
    yield f"**{literal(page.headline)}**"
    if page.total:
        yield f"Benchmarks: {literal(page.counts)}."
    for title, changes in (("Largest losses", page.losses), ("Largest gains", page.gains)):
        if changes:
            yield from ("", f"## {title}", "")
            yield from (f"- {line_of(page, change)}" for change in changes)
    yield ""
    yield f"[Chart and numbers]({settings.URL}{address})"


def line_of(page: StoryPage, change: ToldChange) -> str:
    text = f"{literal(change.row.benchmark)}: {literal(change.size)}"
    if change.cause is None:
        return text
    commit = change.cause.commit
    link = f"[{commit.short}]({settings.URL}{reverse('commit', args=[page.project.slug, commit.sha])})"
    if change.width > 1:
        return f"{text}, by one of {change.width} commits up to {link}"
    return f"{text}, since {link} {literal(commit.subject)} by {literal(commit.author_name)}"


def literal(text: str) -> str:
    """The text of others on one line, without meaning for Markdown."""
    return SPECIAL.sub(r"\\\1", " ".join(plain(text).split()))
