"""Git's way to a repository: the checked addresses, and the credential.

git gets a token or key in a file in memory that ends with the call: it is on no disk, on no command line and in no
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
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import remotes
from speedtrack.projects.mirrors.remotes import Endpoint, Remote
from speedtrack.projects.models import Credential

# This uses nothing of the user's own configuration, agent or keys; the host key must be among the entered ones.
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
class Transport:
    """``config``: public settings of git; ``secrets``: texts that no message may repeat."""

    protocol: str
    config: dict[str, str] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, DOTS)
        return text


@contextmanager
def transport_to(remote: Remote) -> Iterator[Transport]:
    """The present transport of git to this remote.

    Raises RepositoryError if the remote may not be reached, or has no valid credential.
    """
    if remote.is_local:
        yield Transport("file")
        return
    endpoint = remotes.endpoint_of(remote.url)
    with ExitStack() as files:
        yield MAKERS[endpoint.scheme](endpoint, remote.credential, lambda text: files.enter_context(memory_file(text)))


def https_transport(endpoint: Endpoint, credential: Credential | None, keep: Callable[[str], str]) -> Transport:
    addresses = remotes.checked_addresses(endpoint)
    config = {"http.sslVerify": "true"}
    if ":" not in endpoint.host:  # an address in the URL needs no look-up
        address_list = ",".join(
            f"[{address}]" if isinstance(address, IPv6Address) else str(address) for address in addresses
        )
        config["http.curloptResolve"] = f"{endpoint.host}:{endpoint.port}:{address_list}"
    if authorities := os.environ.get("SSL_CERT_FILE"):
        config["http.sslCAInfo"] = authorities
    if not credential:
        return Transport("https", config)
    secret = revealed(credential)
    basic = b64encode(f"{credential.user}:{secret}".encode()).decode()
    file = keep(f'[http "{endpoint.origin}/"]\n\textraHeader = Authorization: Basic {basic}\n')
    return Transport("https", config, {"GIT_CONFIG_GLOBAL": file}, (secret, basic))


def ssh_transport(endpoint: Endpoint, credential: Credential | None, keep: Callable[[str], str]) -> Transport:
    if not credential:
        raise RepositoryError(
            f"{endpoint.origin} needs a deploy key and the host's own key: enter both with the address"
        )
    address = remotes.checked_addresses(endpoint)[0]
    options = SSH | {
        "HostName": str(address),
        # The name in known_hosts, whatever the address is.
        "HostKeyAlias": endpoint.host
        if endpoint.port == remotes.PORTS["ssh"]
        else f"[{endpoint.host}]:{endpoint.port}",
        "IdentityFile": keep(revealed(credential)),
        "UserKnownHostsFile": keep(credential.known_hosts),
    }
    command = [
        "ssh",
        "-F",
        "/dev/null",
        *(argument for key, value in options.items() for argument in ("-o", f"{key}={value}")),
    ]
    return Transport("ssh", {}, {"GIT_SSH_COMMAND": shlex.join(command), "GIT_SSH_VARIANT": "ssh"})


def revealed(credential: Credential) -> str:
    try:
        return credential.secret.reveal()
    except KeyLost as e:
        raise RepositoryError(f"the credential of {credential.origin}: {e}") from e


@contextmanager
def memory_file(text: str) -> Iterator[str]:
    """The path of a file in memory that only processes of this user can open; it is deleted after the block."""
    handle = os.memfd_create("speedtrack", os.MFD_CLOEXEC)
    try:
        os.fchmod(handle, 0o600)
        with os.fdopen(os.dup(handle), "w") as file:
            file.write(text)
        yield f"/proc/{os.getpid()}/fd/{handle}"
    finally:
        os.close(handle)


MAKERS: dict[str, Callable[[Endpoint, Credential | None, Callable[[str], str]], Transport]] = {
    "https": https_transport,
    "ssh": ssh_transport,
}
