"""The address that a request came from, for limits and for what is shown of tokens."""

from ipaddress import IPv6Address, ip_address

from django.conf import settings
from django.http import HttpRequest


def client_address(request: HttpRequest) -> str | None:
    """The address of the connection, or the one that the TLS proxy names.

    Of an IPv6 address only the network (/64), since one user has all of it. Only the last address of X-Forwarded-For
    was written by the proxy; the client may have sent any before it.
    """
    connected: str = request.META.get("REMOTE_ADDR", "")
    named = request.headers.get("X-Forwarded-For", "") if settings.BEHIND_TLS_PROXY else ""
    for address in (named.rpartition(",")[2].strip(), connected):
        try:
            found = ip_address(address)
        except ValueError:
            continue
        if isinstance(found, IPv6Address) and not found.ipv4_mapped:
            return str(IPv6Address(int(found) >> 64 << 64))
        return str(getattr(found, "ipv4_mapped", None) or found)
    return None  # a unix socket, whose other end has no address
