"""What git needs to reach a repository: the addresses that were checked, and the credential.

A token or key is given to git in a file in memory that ends with the call: it is on no disk, no command line and in no
variable.
"""

import os
import shlex
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv6Address

from speedtrack.ground.secrets.sealed import DOTS, KeyLost
from speedtrack.projects import remotes
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.models import Credential
from speedtrack.projects.remotes import Place, Remote

# Nothing of the user's own configuration, agent or keys; the host key must be among those that were entered.
SSH = {
    "BatchMode": "yes",
    "CheckHostIP": "no",
    "ClearAllForwardings": "yes",
    "ConnectTimeout": "15",
    "ControlMaster": "no",
    "ControlPath": "none",
    "EscapeChar": "none",
    "ForwardAgent": "no",
    "GlobalKnownHostsFile": "/dev/null",
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",
    "LogLevel": "ERROR",
    "PermitLocalCommand": "no",
    "PreferredAuthentications": "publickey",
    "ProxyCommand": "none",
    "ServerAliveCountMax": "4",
    "ServerAliveInterval": "15",
    "StrictHostKeyChecking": "yes",
    "UpdateHostKeys": "no",
}


@dataclass(frozen=True)
class Way:
    """``config``: settings of git that may be seen; ``secrets``: texts that no message may repeat."""

    protocol: str
    config: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, DOTS)
        return text


@contextmanager
def way_to(remote: Remote) -> Iterator[Way]:
    """The way by which git reaches this remote now.

    Raises RepositoryError if the remote may not be reached, or has no valid credential.
    """
    if remote.is_local:
        yield Way("file")
        return
    place = remotes.place_of(remote.url)
    with ExitStack() as files:
        yield MAKERS[place.scheme](place, remote.credential, lambda text: files.enter_context(memory_file(text)))


def https_way(place: Place, credential: Credential | None, keep: Callable[[str], str]) -> Way:
    addresses = remotes.checked_addresses(place)
    config = {"http.sslVerify": "true"}
    if ":" not in place.host:  # an address in the URL needs no look-up
        listed = ",".join(f"[{one}]" if isinstance(one, IPv6Address) else str(one) for one in addresses)
        config["http.curloptResolve"] = f"{place.host}:{place.port}:{listed}"
    if authorities := os.environ.get("SSL_CERT_FILE"):
        config["http.sslCAInfo"] = authorities
    if not credential:
        return Way("https", config)
    secret = revealed(credential)
    basic = b64encode(f"{credential.user}:{secret}".encode()).decode()
    file = keep(f'[http "{place.origin}/"]\n\textraHeader = Authorization: Basic {basic}\n')
    return Way("https", config, {"GIT_CONFIG_GLOBAL": file}, (secret, basic))


def ssh_way(place: Place, credential: Credential | None, keep: Callable[[str], str]) -> Way:
    if not credential:
        raise RepositoryError(f"{place.origin} needs a deploy key and the host's own key: enter both with the address")
    address = remotes.checked_addresses(place)[0]
    options = SSH | {
        "HostName": str(address),
        # As known_hosts names it, whatever the address is.
        "HostKeyAlias": place.host if place.port == remotes.PORTS["ssh"] else f"[{place.host}]:{place.port}",
        "IdentityFile": keep(revealed(credential)),
        "UserKnownHostsFile": keep(credential.known_hosts),
    }
    words = ["ssh", "-F", "/dev/null", *(word for key, value in options.items() for word in ("-o", f"{key}={value}"))]
    return Way("ssh", {}, {"GIT_SSH_COMMAND": shlex.join(words), "GIT_SSH_VARIANT": "ssh"})


def revealed(credential: Credential) -> str:
    try:
        return credential.secret.reveal()
    except KeyLost as e:
        raise RepositoryError(f"the credential of {credential.origin}: {e}") from e


@contextmanager
def memory_file(text: str) -> Iterator[str]:
    """The path of a file in memory that only processes of this user can open; it is gone after the block."""
    handle = os.memfd_create("speedtrack", os.MFD_CLOEXEC)
    try:
        os.fchmod(handle, 0o600)
        with os.fdopen(os.dup(handle), "w") as file:
            file.write(text)
        yield f"/proc/{os.getpid()}/fd/{handle}"
    finally:
        os.close(handle)


MAKERS: dict[str, Callable[[Place, Credential | None, Callable[[str], str]], Way]] = {
    "https": https_way,
    "ssh": ssh_way,
}
