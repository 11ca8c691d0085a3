"""People's Markdown as clean HTML and as plain text."""

from functools import lru_cache
from html import unescape

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

from speedtrack.ground.texts.text import plain

TAGS = {"p", "br", "em", "strong", "s", "code", "pre", "blockquote", "ul", "ol", "li", "a", "hr"}
ATTRIBUTES = {"a": {"href", "title"}}
KEPT = 1000  # texts whose HTML is cached
SCHEMES = {"http", "https", "mailto"}
# Without `html`: tags stay text. Without images: a page shows nothing from other sites.
READER = MarkdownIt("commonmark", {"html": False}).enable("strikethrough").disable(["image", "heading", "lheading"])


@lru_cache(KEPT)
def html_of(text: str) -> SafeString:
    """A text in Markdown as HTML of a few tags, without scripts, styles and pictures."""
    html = READER.render(plain(text))
    clean = nh3.clean(html, tags=TAGS, attributes=ATTRIBUTES, url_schemes=SCHEMES, link_rel="nofollow noopener")
    return mark_safe(clean)  # noqa: S308 - nh3 has cleaned it


@lru_cache(KEPT)
def plain_of(text: str) -> str:
    """The same without any formatting, in one line."""
    return " ".join(unescape(nh3.clean(html_of(text), tags=set())).split())
