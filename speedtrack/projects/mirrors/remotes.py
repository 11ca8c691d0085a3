"""The addresses of repositories: decides which may be tracked, and to which network addresses git may connect.

The host is looked up once; all its addresses are checked, and git connects only to these (transports.py). Messages do
not reveal which addresses answer inside the network; the log has that.
"""

import logging
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from django.conf import settings

from speedtrack.ground.secrets.addresses import Address, NotPublic, Unresolved, is_host, is_public, look_up
from speedtrack.projects.errors import RepositoryError, RepositoryUnreachable
from speedtrack.projects.models import Credential, Project

log = logging.getLogger(__name__)

LONGEST_URL = 500  # as Project.url
PORTS = {"https": 443, "ssh": 22}
RESOLVE_S = 5
FORBIDDEN = set(' \\"<>^`{|}#?')  # of a URL: blanks, characters to percent-encode, and parts that no repository has


@dataclass(frozen=True)
class Remote:
    """The address of a repository, and its credential if it is private."""

    url: str
    credential: Credential | None = None

    @property
    def is_local(self) -> bool:
        return is_path(self.url)


@dataclass(frozen=True)
class Endpoint:
    """The parts of a URL. ``host`` is ASCII in lower case, an IPv6 address without brackets; ``user`` is for ssh."""

    scheme: str
    user: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host + (f":{self.port}" if self.port != PORTS[self.scheme] else "")

    @property
    def origin(self) -> str:
        """The server as an origin, to which a credential belongs."""
        return f"{self.scheme}://{self.authority}"


def remote_of(project: Project, url: str = "") -> Remote:
    """The project's repository, or another address for it, with its credential if that is for the same server."""
    address = url or project.url
    credential = Credential.objects.filter(project=project).first()
    return Remote(address, credential if credential and credential.origin == origin_of(address) else None)


def origin_of(url: str) -> str:
    """The origin of an address; empty for a local path. Raises RepositoryError."""
    return "" if is_path(url) else endpoint_of(url).origin


def is_path(url: str) -> bool:
    return url.startswith(("/", "./", "../", "~"))


def valid_url(url: str) -> str:
    """The address, if it may be tracked. Raises RepositoryError that lists the allowed addresses."""
    if any(ord(c) < 33 or ord(c) == 127 for c in url) or url.startswith("-"):
        raise RepositoryError(f"{url!r} is not a repository address: it has white space or control characters")
    if is_path(url):
        return local_path(url)
    require_allowed(endpoint_of(url))
    return url


def local_path(path: str) -> str:
    if not settings.ALLOW_LOCAL_REPOSITORIES:
        raise RepositoryError(f"{path} is a local path: set ALLOW_LOCAL_REPOSITORIES=true to track such repositories")
    full = Path(path).expanduser().resolve()
    if not full.is_dir():
        raise RepositoryError(f"there is no directory {full}: give the path of a git repository")
    return str(full)


def endpoint_of(url: str) -> Endpoint:
    """Parse an address with a stricter grammar than git and its libraries. Raises RepositoryError."""
    try:
        split_url = urlsplit(url)
        host, port = (split_url.hostname or "").lower(), split_url.port
    except ValueError as e:
        raise RepositoryError(f"{url} is not a repository address: {e}") from e
    if split_url.scheme not in PORTS or not host or not url.startswith(f"{split_url.scheme}://"):
        raise RepositoryError(
            f"{url} is not a repository address: give an https URL such as https://host/owner/name, or "
            "ssh://git@host/owner/name with a deploy key"
        )
    user = user_in(split_url, host)
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or set(url) & FORBIDDEN:
        raise RepositoryError(
            f"the address of {host[:100]} is too long, or has a query or characters that belong percent-encoded"
        )
    if not is_plain_host(host):
        raise RepositoryError(f"{host[:100]} is not a host: give its name, or its address in the usual spelling")
    return Endpoint(split_url.scheme, user, host, port or PORTS[split_url.scheme])


def user_in(split_url: SplitResult, host: str) -> str:
    """The user of an ssh address; none of an https one. Raises RepositoryError."""
    name, at, _ = split_url.netloc.rpartition("@")
    if split_url.scheme == "ssh":
        if not at or not name.isalnum():
            raise RepositoryError(f"the address of {host} needs a user and no password: ssh://git@{host}/owner/name")
        return name
    if at:
        raise RepositoryError(
            f"the address of {host} carries a user name or password: leave it out, a token has a field of its own"
        )
    return ""


def is_plain_host(host: str) -> bool:
    """Return whether all programs read the host alike: no trailing dot, no 0x7f.1, 2130706433 or 010.0.0.1."""
    if not is_host(host) or host.endswith("."):
        return False
    last = host.rpartition(".")[2]
    if ":" in host or not (last.isdigit() or last.startswith("0x")):
        return True
    try:
        return str(IPv4Address(host)) == host
    except ValueError:
        return False


def require_allowed(endpoint: Endpoint) -> None:
    """Raise RepositoryError unless GIT_HOSTS lists the host."""
    entries = [urlsplit(f"//{entry}") for entry in settings.GIT_HOSTS]
    usual = PORTS[endpoint.scheme]
    if any(
        entry_url.hostname in ("*", endpoint.host) and (entry_url.port or usual) == endpoint.port
        for entry_url in entries
    ):
        return
    hosts = ", ".join(settings.GIT_HOSTS) or "none"
    raise RepositoryError(f"{endpoint.authority} is not among the hosts of GIT_HOSTS ({hosts}): an operator may add it")


def checked_addresses(endpoint: Endpoint) -> list[Address]:
    """The addresses that git may connect to. Raises RepositoryError; the log has the refused address."""
    require_allowed(endpoint)
    try:
        addresses = look_up(endpoint.host, endpoint.port, RESOLVE_S)
        for address in addresses:
            is_public(endpoint.host, address, settings.GIT_NETWORKS, "GIT_NETWORKS")
    except (Unresolved, NotPublic) as e:
        log.warning("%s: %s", endpoint.origin, e)
        raise RepositoryUnreachable(
            f"the host {endpoint.host} has no address that may be called: check its spelling. It must be known and "
            "public; GIT_NETWORKS may allow other networks, and the server's log has the details"
        ) from e
    return addresses
