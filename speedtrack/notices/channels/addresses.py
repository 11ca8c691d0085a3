"""Which addresses the server may call for a channel: a URL must not give its author access to internal services.

A name is resolved once, and all its addresses are checked. The caller connects to one of these addresses (calls.py), so
a name that resolves differently a moment later gains nothing.
"""

import re
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from django.conf import settings

from speedtrack.notices.errors import Away, PermanentFailure

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

LONGEST_URL = 2000
PORTS = {"http": 80, "https": 443}
#: Always refused, whatever the settings allow: link-local addresses, where clouds serve credentials, similar services
#: at other addresses, and addresses that are not a single host.
NEVER: tuple[Network, ...] = tuple(
    ip_network(network)
    for network in (
        "169.254.0.0/16",
        "fe80::/10",
        "fd00:ec2::254/128",
        "100.100.100.200/32",
        "168.63.129.16/32",
        "192.0.0.192/32",
        "fd20:ce::254/128",
        "0.0.0.0/8",
        "::/128",
        "224.0.0.0/4",
        "ff00::/8",
        "255.255.255.255/32",
    )
)
NAT64 = IPv6Network("64:ff9b::/96")
COMPATIBLE = IPv6Network("::/96")
UNICAST = IPv6Network("2000::/3")  # all public addresses of IPv6
NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*\.?")


class Refused(PermanentFailure):
    """The server does not call this address; the message names cause and remedy."""


@dataclass(frozen=True)
class Destination:
    """A URL taken apart. ``host`` is ASCII, an IPv6 address without brackets; ``target`` is path and query."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> str:
        """The URL without path and query, which may be secret."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}" + (f":{self.port}" if self.port != PORTS[self.scheme] else "")


def destination(url: str) -> Destination:
    """Parse a URL with a stricter grammar than any HTTP library. Raises Refused."""
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or set(url) & set(' \\"<>^`{|}'):
        raise Refused("the URL holds blanks or characters that belong percent-encoded, or is too long")
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").lower()
    except ValueError as e:
        raise Refused(f"this is not a URL: {e}") from e
    if parts.scheme not in PORTS:
        raise Refused("the URL must begin with https:// (http:// is for networks of CHANNEL_NETWORKS)")
    if "@" in parts.netloc:
        raise Refused("the URL holds a user name or a password: leave them out, a token has a field of its own")
    if parts.fragment or not is_host(host):
        raise Refused("the URL has no host that can be called, or a fragment (#)")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Destination(parts.scheme, host, port or PORTS[parts.scheme], target)


def is_host(host: str) -> bool:
    """Is it a name, or an address in its plain spelling? Not an IPv6 address with a zone (%)."""
    if ":" in host:
        try:
            return not getattr(ip_address(host), "scope_id", None)
        except ValueError:
            return False
    return len(host) <= 253 and NAME.fullmatch(host) is not None


def allowed_addresses(where: Destination, within_s: float) -> list[Address]:
    """The addresses of the destination. Raises Refused if one of them is not allowed, Away if there is none."""
    if where.port not in settings.CHANNEL_PORTS:
        ports = ", ".join(map(str, sorted(settings.CHANNEL_PORTS)))
        raise Refused(f"port {where.port} is not allowed: CHANNEL_PORTS allows {ports}")
    found = look_up(where, within_s)
    for address in found:
        refuse_private(where, address)
    return found


def look_up(where: Destination, within_s: float) -> list[Address]:
    pool = ThreadPoolExecutor(max_workers=1)  # getaddrinfo has no time limit of its own
    try:
        rows = pool.submit(socket.getaddrinfo, where.host, where.port, type=socket.SOCK_STREAM).result(within_s)
    except TooSlow as e:
        raise Away(f"the name {where.host} was not resolved within {within_s:.0f} s: is the DNS server up?") from e
    except (OSError, UnicodeError) as e:
        raise Away(f"the name {where.host} is not resolved ({e}): check its spelling and the DNS server") from e
    finally:
        pool.shutdown(wait=False)
    return list(dict.fromkeys(ip_address(row[4][0]) for row in rows))


def refuse_private(where: Destination, address: Address) -> None:
    """Raises Refused for an address that may not be called, or not without encryption."""
    inner = embedded(address)
    if any(is_in(one, NEVER) for one in (address, inner)):
        raise Refused(f"{where.host} is {address}, an address of cloud metadata, link-local or of many hosts: never")
    if is_in(inner, settings.CHANNEL_NETWORKS):
        return
    if not inner.is_global or (isinstance(inner, IPv6Address) and inner not in UNICAST):
        raise Refused(f"{where.host} is {address}, no public address: CHANNEL_NETWORKS may allow its network")
    if where.scheme != "https":
        raise Refused(f"{where.host} is called by https:// only: http:// is for networks of CHANNEL_NETWORKS")


def embedded(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one (mapped, compatible, 6to4, Teredo, NAT64), else the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64 or (address in COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1]) or address


def is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
