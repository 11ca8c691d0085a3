"""Names of browsers as people know them, guessed from the User-Agent; only for lists."""

import re

#: Each with what its User-Agent contains; the first match counts, as most claim to be others, too.
BROWSERS = {
    "Edge": "Edg",
    "Opera": "OPR/",
    "Firefox": "Firefox/|FxiOS/",
    "Chrome": "Chrome/|CriOS/|Chromium/",
    "Safari": "Safari/",
    "curl": "^curl/",
}
SYSTEMS = {
    "Android": "Android",
    "iPhone": "iPhone",
    "iPad": "iPad",
    "Windows": "Windows",
    "macOS": "Macintosh",
    "Linux": "Linux",
}


def words(user_agent: str) -> str:
    browser = first_of(BROWSERS, user_agent) or user_agent[:40] or "An unknown browser"
    system = first_of(SYSTEMS, user_agent)
    return f"{browser} on {system}" if system else browser


def first_of(names: dict[str, str], text: str) -> str:
    return next((name for name, pattern in names.items() if re.search(pattern, text)), "")
