"""Decide from a channel's URL which addresses the server may call."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from django.conf import settings

from speedtrack.ground.secrets.addresses import Address, NotPublic, Unresolved, is_host, is_public, look_up
from speedtrack.notices.errors import PermanentFailure, ReceiverAway

LONGEST_URL = 2000
PORTS = {"http": 80, "https": 443}


class AddressRefused(PermanentFailure):
    """The server must not call this address; the message names cause and remedy."""


@dataclass(frozen=True)
class Destination:
    """The parts of a URL. ``host`` is ASCII, an IPv6 address without brackets; ``target`` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> str:
        """The URL without path and query, which may contain secrets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + (f":{self.port}" if self.port != PORTS[self.scheme] else "")


def destination(url: str) -> Destination:
    """The parts of a URL, parsed with a stricter grammar than any HTTP library has. Raises AddressRefused."""
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or set(url) & set(' \\"<>^`{|}'):
        raise AddressRefused("the URL holds blanks or characters that belong percent-encoded, or is too long")
    try:
        split_url = urlsplit(url)
        port = split_url.port
        host = (split_url.hostname or "").lower()
    except ValueError as e:
        raise AddressRefused(f"this is not a URL: {e}") from e
    if split_url.scheme not in PORTS:
        raise AddressRefused("the URL must begin with https:// (http:// is for networks of CHANNEL_NETWORKS)")
    if "@" in split_url.netloc:
        raise AddressRefused("the URL holds a user name or a password: leave them out, a token has a field of its own")
    if split_url.fragment or not is_host(host):
        raise AddressRefused("the URL has no host that can be called, or a fragment (#)")
    target = (split_url.path or "/") + (f"?{split_url.query}" if split_url.query else "")
    return Destination(split_url.scheme, host, port or PORTS[split_url.scheme], target)


def allowed_addresses(where: Destination, within_s: float) -> list[Address]:
    """The addresses of the destination. Raises AddressRefused if one is not allowed, ReceiverAway if there is none."""
    if where.port not in settings.CHANNEL_PORTS:
        ports = ", ".join(map(str, sorted(settings.CHANNEL_PORTS)))
        raise AddressRefused(f"port {where.port} is not allowed: CHANNEL_PORTS allows {ports}")
    try:
        addresses = look_up(where.host, where.port, within_s)
    except Unresolved as e:
        raise ReceiverAway(str(e)) from e
    for address in addresses:
        refuse_private(where, address)
    return addresses


def refuse_private(where: Destination, address: Address) -> None:
    """Raise AddressRefused for an address that may not be called at all, or not without encryption."""
    try:
        encrypted = is_public(where.host, address, settings.CHANNEL_NETWORKS, "CHANNEL_NETWORKS")
    except NotPublic as e:
        raise AddressRefused(str(e)) from e
    if encrypted and where.scheme != "https":
        raise AddressRefused(f"{where.host} is called by https:// only: http:// is for networks of CHANNEL_NETWORKS")
