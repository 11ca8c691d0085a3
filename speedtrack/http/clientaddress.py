"""The client address of a request, for limits and for the use of tokens."""

from ipaddress import IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str | None:
    """The address of the connection, or the one from the TLS proxy."""
    connected: str = request.META.get("REMOTE_ADDR", "")
    forwarded = named_by_proxy(request.headers.get("X-Forwarded-For", "")) if settings.BEHIND_TLS_PROXY else None
    return forwarded or network_of(connected)


def named_by_proxy(forwarded: str) -> str | None:
    """The last address of X-Forwarded-For, which the proxy wrote: the client may have sent any before it."""
    return network_of(forwarded.rpartition(",")[2].strip())


def network_of(address: str) -> str | None:
    """The address that counts as one client: for IPv6 only the network (/64), since one user has all of it.

    None if it is no address, as for the other end of a unix socket.
    """
    try:
        parsed_address = ip_address(address)
    except ValueError:
        return None
    if isinstance(parsed_address, IPv6Address) and not parsed_address.ipv4_mapped:
        return str(IPv6Address(int(parsed_address) >> 64 << 64))
    return str(getattr(parsed_address, "ipv4_mapped", None) or parsed_address)
