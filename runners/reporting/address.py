"""The address of the server, as settings and `enroll` name it; the server reads its own by the same rules."""

import re
from urllib.parse import urlsplit

import httpx

from runners.errors import SettingsError

EXAMPLE = "https://speed.example.org"


def read_address(name: str, text: str) -> str:
    """The address of a server: scheme, host and port. A slash at its end does not count. Raises SettingsError."""
    if "@" in text:
        raise SettingsError(
            f"{name} names a user or has a password, which every log would show: give such as {EXAMPLE}"
        )
    if re.search(r"[\s\\]", text):
        raise SettingsError(
            f"{name} is {text!r}, with a blank, a line break or a backslash in it: give such as {EXAMPLE}"
        )
    try:
        url = httpx.URL(text)
        urlsplit(text).port  # noqa: B018 - httpx takes any number; this raises ValueError
    except (httpx.InvalidURL, ValueError) as error:
        raise SettingsError(f"{name} is {text!r}, which is no address ({error}): give such as {EXAMPLE}") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise SettingsError(
            f"{name} is {text!r}, which does not begin with https:// or http://: give such as {EXAMPLE}"
        )
    if url.path != "/" or url.query or "?" in text or "#" in text:
        raise SettingsError(f"{name} is {text!r}: give the server's address without path, ? and #, such as {EXAMPLE}")
    return str(url).rstrip("/")
