"""The server and the token to use: from the environment, otherwise from ``speedtrack login``."""

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from speedtrack_client.failures import misused

HOST = re.compile(r"[\w.:-]+")
URL, TOKEN = "SPEEDTRACK_URL", "SPEEDTRACK_TOKEN"


@dataclass(frozen=True)
class Login:
    """A server, and the token for it. With an empty token only public data can be read."""

    url: str
    token: str


def login_for(url_given: str | None) -> Login:
    """The server to ask, and its token.

    A stored token is sent only to the server that it was stored for. Raises Failure.
    """
    logins = load()
    url = url_given or os.environ.get(URL) or logins["default"]
    if not url:
        raise misused(f"which server? Run `speedtrack login https://...` once, or set {URL}")
    address = normal(url)
    return Login(address, clean(os.environ.get(TOKEN, "")) or logins["tokens"].get(address, ""))


def normal(url: str) -> str:
    """A server's address in the form in which it is stored. Raises Failure."""
    text = url.strip()
    address = text if "://" in text else f"https://{text}"
    try:
        parsed = httpx.URL(address.rstrip("/").removesuffix("/api/v1") if address.rpartition("://")[2] else address)
    except httpx.InvalidURL as e:
        raise misused(f"{text[:200]!r} is no address of a server: {e}") from None
    if parsed.scheme not in ("http", "https") or not HOST.fullmatch(parsed.host):
        raise misused(f"{text[:200]!r} is no address of a server: give such as https://speedtrack.example.org")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise misused("the address of the server must have no user, `?` or `#`; a token is given by `speedtrack login`")
    return str(parsed).rstrip("/")


def is_open_to_listeners(url: str) -> bool:
    """Return whether a token would be sent unencrypted over a network."""
    parsed = httpx.URL(url)
    return parsed.scheme == "http" and parsed.host not in ("localhost", "127.0.0.1", "::1")


def clean(token: str) -> str:
    """The token without white space around it. Raises Failure if it cannot be sent in a header."""
    text = token.strip()
    if not all("!" <= sign <= "~" for sign in text):
        raise misused("the token has characters that no token has: copy it again, `stpt_...`")
    return text


def place() -> Path:
    home = os.environ.get("XDG_CONFIG_HOME") or ""
    return (Path(home) if home.startswith("/") else Path.home() / ".config") / "speedtrack" / "client.json"


def load() -> dict[str, Any]:
    """The stored logins. Raises Failure."""
    empty: dict[str, Any] = {"default": "", "tokens": {}}
    try:
        logins = json.loads(place().read_text())
        assert isinstance(logins["default"], str) and isinstance(logins["tokens"], dict)
    except FileNotFoundError:
        return empty
    except (OSError, ValueError, KeyError, TypeError, AssertionError, RecursionError) as e:
        why = e.strerror if isinstance(e, OSError) else "it is damaged"
        raise misused(f"cannot read {place()}: {why}. Remove it, and run `speedtrack login` again") from None
    return logins if isinstance(logins, dict) else empty


def store(url: str, token: str) -> None:
    """Store a token, readable by this user alone, and make its server the default one. Raises Failure."""
    logins = load()
    logins["default"], logins["tokens"][url] = url, token
    save(logins)


def forget(url: str) -> bool:
    """Delete a server's token. Return whether there was one."""
    logins = load()
    was_there = logins["tokens"].pop(url, None) is not None
    logins["default"] = "" if logins["default"] == url else logins["default"]
    save(logins)
    return was_there


def save(logins: dict[str, Any]) -> None:
    """Write the logins so that the file is never half written, and never readable by others."""
    path = place()
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(logins, file, indent=2)
        new.replace(path)
    except OSError as e:
        raise misused(f"cannot write {path}: {e.strerror}") from None
