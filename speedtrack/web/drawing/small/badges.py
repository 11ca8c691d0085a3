"""Badges as SVG: a label, and a message on the colour of its meaning."""

from html import escape

#: Grounds on which white text has a contrast of 4.5 or more.
GROUNDS = {"good": "#13743f", "bad": "#bf2b23", "doubtful": "#8a5a00", "neutral": "#59616b"}
LABEL_GROUND = "#39414b"
HEIGHT, PADDING = 20, 7
NARROW, WIDE = frozenset("fijlrt.,:;!|' ()-"), frozenset("mwMW%✓−+")
LONGEST = 40


def badge_svg(label: str, message: str, look: str) -> str:
    label, message = cut(label), cut(message)
    label_width, message_width = (text_width(text) + 2 * PADDING for text in (label, message))
    width = label_width + message_width
    title = escape(f"{label}: {message}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{HEIGHT}" role="img" '
        f'aria-label="{title}"><title>{title}</title><clipPath id="r"><rect width="{width}" height="{HEIGHT}" rx="3"/>'
        f'</clipPath><g clip-path="url(#r)"><rect width="{label_width}" height="{HEIGHT}" fill="{LABEL_GROUND}"/>'
        f'<rect x="{label_width}" width="{message_width}" height="{HEIGHT}" fill="{GROUNDS[look]}"/></g>'
        '<g fill="#fff" font-family="Verdana,DejaVu Sans,Geneva,sans-serif" font-size="11">'
        f"{text_at(PADDING, label)}{text_at(label_width + PADDING, message)}</g></svg>"
    )


def cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def text_width(text: str) -> int:
    """About the width in pixels; ``textLength`` makes it exact."""
    return round(sum(4.2 if c in NARROW else 9.6 if c in WIDE else 7.0 for c in text))


def text_at(x: int, text: str) -> str:
    return f'<text x="{x}" y="14" textLength="{text_width(text)}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
