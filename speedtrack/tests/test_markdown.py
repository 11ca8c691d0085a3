"""Markdown of people: what is hostile becomes text, and a few tags are left."""

import re

import pytest

from speedtrack.ground.texts.markdown import ATTRIBUTES, TAGS, html_of, plain_of

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    '<a href="javascript:alert(1)">x</a>',
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt&#58;alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:msgbox(1))",
    "![x](https://evil.example/pixel.png)",
    '[x](https://e.org "a\\" onmouseover=alert(1)")',
    "<iframe src=//evil.example></iframe>",
    "```\n</code></pre><script>alert(1)</script>\n```",
    "`<style>body{display:none}</style>`",
    "<<script>script>alert(1)<</script>/script>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "> <form action=//evil.example><input name=password>",
    "[x]: javascript:alert(1)\n\n[x]",
    "<!--><script>alert(1)</script>-->",
    "\u202e<b>nosbmor</b>\x1b[2J\x00",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_hostile_becomes_text(text: str) -> None:
    made = html_of(text)
    tags = re.findall(r"<(/?)([a-zA-Z0-9!]+)([^>]*)>", made)
    assert {name for _, name, _ in tags} <= TAGS
    for _, name, rest in tags:
        attributes = dict(re.findall(r'([\w-]+)="([^"]*)"', rest))
        assert attributes.keys() <= ATTRIBUTES.get(name, set()) | {"rel"}, made
        assert attributes.get("href", "https:").startswith(("https:", "http:", "mailto:")), made
    assert "\u202e" not in made and "\x1b" not in made and "\x00" not in made


def test_what_people_write_is_formatted() -> None:
    made = html_of("gcc **14**, see [the log](https://example.org/?a=1&b=2)\n\n- `-O2`\n- ~~`-O3`~~\n\n# no heading")
    assert '<a href="https://example.org/?a=1&amp;b=2" rel="nofollow noopener">the log</a>' in made
    assert "<strong>14</strong>" in made and "<li><code>-O2</code></li>" in made and "<s><code>-O3</code></s>" in made
    assert "# no heading" in made


def test_plain_text_has_no_markup_and_is_one_line() -> None:
    assert plain_of("**a** <b> &amp;\n\n- c\n- `d<e>`") == "a <b> & c d<e>"
