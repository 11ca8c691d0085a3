"""The pages of ``docs`` as HTML, so that an explanation is a click away from what it explains."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count, pairwise
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.http import Http404
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from speedtrack.web.help import KINDS, TERMS, Term, kind_of

#: By group: the pages in the order of reading, and what each is about.
GROUPS = {
    "What the pages show": {
        "methodology": "how a number is made, and when a change is called one",
        "alerts": "what an alert is, its states, what people change",
        "pages": "home, the grid of a project, search, badges, feeds and charts for other pages",
        "timeline": "the page of a metric: lines, change points, what its address says",
        "glossary": "the words of all pages",
        "detection": "how well changes are found, with figures",
    },
    "Use": {
        "suites": "what is measured: benchmarks, builds, ladders",
        "results-from-outside": "send what was measured elsewhere",
        "webhooks": "how a forge says that something was pushed",
        "notifications": "who is mailed of what",
        "channels": "what is told to chats, forges and programs",
        "importing": "files of other benchmark tools",
        "client": "the command speedtrack, and how it gates pull requests",
        "api": "how programs read everything, and write: tokens, pages, refusals",
    },
    "Operate": {
        "accounts": "roles, private projects, invitations, the audit log",
        "logins": "the first account, passwords, other logins, the second step, tokens",
        "installing": "a server on a new machine, one that measures, backup, upgrade",
        "machines": "how machines are let in, pools, versions, alarms",
        "repositories": "which repositories may be tracked, private ones, submodules",
        "planning": "which commits are measured, when and where",
        "operating": "backup, retention, checks",
        "faults": "what goes on when a process, a database or a disk fails",
        "security": "what may reach what, the sandbox, limits, attacks",
        "archive": "a whole project in a file, and back",
        "sql": "Grafana, Otava and other programs that read",
        "scale": "large databases, replicas, growth",
    },
    "Look inside": {
        "driver": "the load driver",
        "result-format": "documents and calls between the parts",
        "design": "the design language of these pages",
        "releasing": "how versions are numbered and released",
    },
}
FRAME = '<div class="scroll" tabindex="0" role="region" aria-label="Table {}"><table>'
EMPTY_HEADER = re.compile(r"<th(?: [^>]*)?></th>")
NAMES = [name for pages in GROUPS.values() for name in pages]


@dataclass(frozen=True)
class DocumentHeading:
    anchor: str
    title: str


@dataclass(frozen=True)
class DocumentPage:
    name: str
    title: str
    html: SafeString
    headings: list[DocumentHeading]


@dataclass(frozen=True)
class HelpIndex:
    groups: dict[str, dict[str, str]]
    terms: list[tuple[str, dict[str, Term]]]


def index() -> HelpIndex:
    terms = [
        (title, {key: term for key, term in TERMS.items() if kind_of(key) == kind}) for kind, title in KINDS.items()
    ]
    return HelpIndex(GROUPS, terms)


def load(name: str) -> DocumentPage:
    """A page of the documentation. Raises Http404 if it does not exist."""
    if name not in NAMES:
        raise Http404(f"There is no help page {name!r}: there are {', '.join(NAMES)}.")
    path: Path = settings.BASE_DIR / "docs" / f"{name}.md"
    return rendered(name, path, path.stat().st_mtime_ns)


@lru_cache(2 * len(NAMES))
def rendered(name: str, path: Path, changed_at: int) -> DocumentPage:
    """The rendered page, cached. ``changed_at``: part of the key, so that a changed file is rendered again."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = markdown.parse(path.read_text())
    headings = list(name_headings(tokens))
    for token in tokens:
        for inner in token.children or []:
            lead_to_pages(name, inner)
        align(token)
    html = str(markdown.renderer.render(tokens, markdown.options, {}))
    numbers = count(1)
    html = re.sub("<table>", lambda _: FRAME.format(next(numbers)), html).replace("</table>", "</table></div>")
    html = EMPTY_HEADER.sub("<td></td>", html).replace("<pre>", '<pre class="log" tabindex="0">')
    title = headings[0].title if headings else name
    return DocumentPage(name, title, mark_safe(html), headings[1:])  # noqa: S308 - our own files, rendered without HTML


def name_headings(tokens: list[Token]) -> Iterator[DocumentHeading]:
    """Give each heading the anchor that forges give it; yield those of the first two levels."""
    for token, inline in pairwise(tokens):
        if token.type == "heading_open":
            title = "".join(child.content for child in inline.children or [])
            token.attrSet("id", anchor_of(title))
            if token.tag in ("h1", "h2"):
                yield DocumentHeading(anchor_of(title), title)


def anchor_of(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def lead_to_pages(name: str, token: Token) -> None:
    """Let a link to another page of ``docs`` lead to its help page; remove links to other files of the repository."""
    if token.type != "link_open":
        return
    target = urlsplit(str(token.attrGet("href")))
    if target.scheme or not target.path:
        return
    page = target.path.removesuffix(".md")
    if page in NAMES:
        token.attrSet("href", reverse("help", args=[page]) + (f"#{target.fragment}" if target.fragment else ""))
    else:
        token.attrs = {"title": f"{escape(target.path)} in SpeedTrack's repository"}


def align(token: Token) -> None:
    """Set a class instead of a style, which the content security policy forbids."""
    if token.attrs.pop("style", "") == "text-align:right":
        token.attrSet("class", "number")
