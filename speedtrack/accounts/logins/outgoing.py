"""Calls to the servers by which people log in: to checked addresses only, without redirects or a proxy."""

import ssl
from collections.abc import Collection
from functools import partial
from ipaddress import ip_network
from typing import Any
from urllib.parse import urlsplit

import requests
from django.conf import settings
from requests.adapters import HTTPAdapter

from speedtrack.ground.secrets import addresses

LOOK_UP_S = 5.0
ALL = (ip_network("0.0.0.0/0"), ip_network("::/0"))


class ProviderRefused(requests.RequestException):
    """The address may not be called, or is invalid; the message has the reason."""


class ProviderSession(requests.Session):
    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None: no redirect is followed."""


def session_to(servers: Collection[str]) -> requests.Session:
    """Return a session that calls these origins, which the operator has set, and public addresses.

    Only these origins may be inside the network, and may be called by http.
    """
    session = ProviderSession()
    session.trust_env = False
    for scheme in ("http://", "https://"):
        session.mount(scheme, PinnedAdapter({origin_of(server) for server in servers}))
    session.request = partial(session.request, timeout=settings.SOCIALACCOUNT_REQUESTS_TIMEOUT)  # type: ignore[method-assign]
    return session


def origin_of(url: str) -> tuple[str, str, int]:
    """The scheme, host and port of an address. Raises ProviderRefused."""
    try:
        split_url = urlsplit(url)
        scheme, host = split_url.scheme, split_url.hostname or ""
        port = split_url.port or (443 if scheme == "https" else 80)
    except ValueError as e:
        raise ProviderRefused("the server of a login gives an invalid address") from e
    if not addresses.is_host(host) or "@" in split_url.netloc:
        raise ProviderRefused(f"{host!r} is no address of a server, or goes with a password")
    return scheme, host, port


class PinnedAdapter(HTTPAdapter):
    """Connects to the checked address, even if the name resolves differently by then. TLS still verifies the name."""

    def __init__(self, origins: Collection[tuple[str, str, int]]) -> None:
        super().__init__()
        self.origins = origins

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Trust the authorities of this machine, or those of SSL_CERT_FILE, too."""
        super().init_poolmanager(*args, **kwargs | {"ssl_context": ssl.create_default_context()})

    def get_connection_with_tls_context(self, request: Any, verify: Any, proxies: Any = None, cert: Any = None) -> Any:
        scheme, host, port = origin_of(request.url)
        address = self.address_of(scheme, host, port)
        where, how = self.build_connection_pool_key_attributes(request, verify, cert)
        request.headers["Host"] = urlsplit(request.url).netloc
        if scheme == "https":
            how |= {"server_hostname": host, "assert_hostname": host}
        return self.poolmanager.connection_from_host(**where | {"host": str(address)}, pool_kwargs=how)

    def address_of(self, scheme: str, host: str, port: int) -> addresses.Address:
        """Return the checked address to connect to. Raises ProviderRefused."""
        is_set = (scheme, host, port) in self.origins
        if scheme != "https" and not is_set:
            raise ProviderRefused(f"{scheme}://{host}:{port} is not called: only https is")
        try:
            resolved = addresses.look_up(host, port, LOOK_UP_S)
            for address in resolved:
                addresses.is_public(host, address, ALL if is_set else (), "no setting")
        except (addresses.Unresolved, addresses.NotPublic) as e:
            raise ProviderRefused(str(e)) from e
        return resolved[0]
