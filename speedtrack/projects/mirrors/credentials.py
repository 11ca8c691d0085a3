"""Credentials of private repositories: check, store and remove them. They are never shown again."""

import hmac
import re
from base64 import b64decode
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)
from django.db import transaction

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.projects.mirrors import remotes
from speedtrack.projects.mirrors.remotes import Endpoint
from speedtrack.projects.models import Credential, Project

USUAL_USER = "git"  # GitHub, GitLab, Gitea and Forgejo accept any name with a token
HOST_KEY = re.compile(
    r"(?P<hosts>[^\s@]\S*) +(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)|sk-\S+) +[A-Za-z0-9+/]+=*( .*)?"
)


class UnfitCredential(Exception):
    """The input is no credential; the message has the reason. ``field`` names the input."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class CredentialEntry:
    """The input of a person: a token with its user, or a key with the keys of the host."""

    token: str = ""
    user: str = ""
    key: str = ""
    known_hosts: str = ""

    def __bool__(self) -> bool:
        return bool(self.token or self.key or self.known_hosts)

    def __repr__(self) -> str:
        return "<CredentialEntry>"


def credential_for(url: str, entry: CredentialEntry) -> Credential | None:
    """The credential for the server of this address, not yet stored; None if nothing was entered.

    Raises UnfitCredential, or RepositoryError for the address.
    """
    if not entry:
        return None
    if remotes.is_path(url):
        raise UnfitCredential("token" if entry.token else "key", "a local repository needs none")
    endpoint = remotes.endpoint_of(url)
    return token_for(endpoint, entry) if endpoint.scheme == "https" else key_for(endpoint, entry)


def token_for(endpoint: Endpoint, entry: CredentialEntry) -> Credential:
    if not entry.token:
        raise UnfitCredential(
            "key", "a deploy key is for an address that begins with ssh://: enter a token for https://"
        )
    if not (entry.token + entry.user).isprintable() or " " in entry.token or ":" in entry.user:
        raise UnfitCredential("token", "the token or its user has blanks or control characters: copy it again")
    user = entry.user or USUAL_USER
    return Credential(kind=Credential.Kind.TOKEN, origin=endpoint.origin, user=user, secret=Secret.of(entry.token))


def key_for(endpoint: Endpoint, entry: CredentialEntry) -> Credential:
    if not entry.key:
        raise UnfitCredential(
            "token", "a token is for an address that begins with https://: enter a deploy key for ssh://"
        )
    private = "\n".join(entry.key.strip().splitlines()) + "\n"
    return Credential(
        kind=Credential.Kind.KEY,
        origin=endpoint.origin,
        secret=Secret.of(private),
        known_hosts=valid_known_hosts(endpoint, entry.known_hosts),
        public_key=public_part(private),
    )


def public_part(private: str) -> str:
    """The public key of a private key, in OpenSSH's format, which forges accept. Raises UnfitCredential."""
    for load in (load_ssh_private_key, load_pem_private_key):
        try:
            key = load(private.encode(), password=None)
            return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
        except TypeError as e:
            raise UnfitCredential(
                "key", "the key has a passphrase: make one without, `ssh-keygen -t ed25519 -N ''`"
            ) from e
        except (ValueError, UnsupportedAlgorithm):
            continue
    raise UnfitCredential(
        "key", "this is no private key: paste the whole file that `ssh-keygen -t ed25519 -N ''` makes"
    )


def valid_known_hosts(endpoint: Endpoint, text: str) -> str:
    """The lines of ``text`` with keys of this host. Raises UnfitCredential if there is none."""
    name = endpoint.host if endpoint.port == remotes.PORTS["ssh"] else f"[{endpoint.host}]:{endpoint.port}"
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    matches = [match for line in lines if (match := HOST_KEY.fullmatch(line))]
    if len(matches) != len(lines) or not any(names_host(match["hosts"], name) for match in matches):
        port = f" -p {endpoint.port}" if endpoint.port != remotes.PORTS["ssh"] else ""
        raise UnfitCredential(
            "known_hosts",
            f"these are no keys of {name}: paste what `ssh-keyscan{port} {endpoint.host}` prints, once you have "
            "compared it with what the forge publishes",
        )
    return "".join(f"{line}\n" for line in lines)


def names_host(column: str, name: str) -> bool:
    """Return whether the first column of a known_hosts line names this host. It may be hashed (``|1|salt|digest``)."""
    if not column.startswith("|1|"):
        return name in column.split(",")
    try:
        _, _, salt, digest = column.split("|")
        return hmac.digest(b64decode(salt), name.encode(), "sha1") == b64decode(digest)
    except ValueError:
        return False


@transaction.atomic
def store_credential(project: Project, credential: Credential | None) -> None:
    """Replace the credential of the project's repository. None keeps the present one."""
    if credential is None:
        return
    Credential.objects.filter(project=project).delete()
    credential.project = project
    credential.save(force_insert=True)
    Project.objects.filter(pk=project.pk).update(polled_at=None, failures=0)


def remove_credential(project: Project) -> None:
    """Delete the project's credential: the repository must then be public."""
    Credential.objects.filter(project=project).delete()
    Project.objects.filter(pk=project.pk).update(polled_at=None, failures=0)
