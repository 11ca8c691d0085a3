"""Decide which network addresses the server may call: a stranger's address must not lead to internal services.

A name is resolved once, and all its addresses are checked. The caller connects to one of these addresses, so a name
that resolves differently a moment later gains nothing.
"""

import re
import socket
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooSlow
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

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


class Unresolved(Exception):
    """The name has no address now."""


class NotPublic(Exception):
    """The address may not be called; the message names it."""


def is_host(host: str) -> bool:
    """Return whether it is a name, or an address in its plain form; not an IPv6 address with a zone (%)."""
    if ":" in host:
        try:
            return not getattr(ip_address(host), "scope_id", None)
        except ValueError:
            return False
    fits = len(host) <= 253 and max(map(len, host.split("."))) <= 63
    return fits and NAME.fullmatch(host) is not None


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach this host; no host, or a path, is a socket of this machine."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host in ("", "localhost") or host.startswith("/")


def look_up(host: str, port: int, within_s: float) -> list[Address]:
    """The addresses of a host. Raises Unresolved."""
    pool = ThreadPoolExecutor(max_workers=1)  # getaddrinfo has no time limit of its own
    try:
        rows = pool.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM).result(within_s)
    except TooSlow as e:
        raise Unresolved(f"the name {host} was not resolved within {within_s:.0f} s: is the DNS server up?") from e
    except (OSError, UnicodeError) as e:
        raise Unresolved(f"the name {host} is not resolved ({e}): check its spelling and the DNS server") from e
    finally:
        pool.shutdown(wait=False)
    return list(dict.fromkeys(ip_address(row[4][0]) for row in rows))


def is_public(host: str, address: Address, networks: Iterable[Network], setting: str) -> bool:
    """Return whether the address of this host is a public one; False if it is one of ``networks``.

    ``setting`` lists these networks. Raises NotPublic for any other address.
    """
    inner = embedded(address)
    if any(is_in(candidate, NEVER) for candidate in (address, inner)):
        raise NotPublic(f"{host} is {address}, an address of cloud metadata, link-local or of many hosts: never")
    if is_in(inner, networks):
        return False
    if not inner.is_global or (isinstance(inner, IPv6Address) and inner not in UNICAST):
        raise NotPublic(f"{host} is {address}, no public address: {setting} may allow its network")
    return True


def embedded(address: Address) -> Address:
    """The IPv4 address inside an IPv6 one (mapped, compatible, 6to4, Teredo, NAT64), otherwise the address itself."""
    if isinstance(address, IPv4Address):
        return address
    if address in NAT64 or (address in COMPATIBLE and int(address) > 1):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1]) or address


def is_in(address: Address, networks: Iterable[Network]) -> bool:
    return any(address.version == network.version and address in network for network in networks)
