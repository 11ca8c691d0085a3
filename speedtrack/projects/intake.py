"""Webhook deliveries: check the signature, store the raw call once. What it says is only a hint to look."""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import IntegrityError, transaction

from speedtrack.projects.models import Delivery, Project


class BadSignature(Exception):
    """The call is not signed with the project's secret."""


@dataclass(frozen=True)
class Provider:
    """How one forge signs and names its calls: header names, prefix of the signature, events of interest."""

    name: str
    signature_header: str
    signature_prefix: str
    event_header: str
    delivery_header: str
    interesting: frozenset[str]


PROVIDERS = [
    Provider(
        name="github",
        signature_header="X-Hub-Signature-256",
        signature_prefix="sha256=",
        event_header="X-GitHub-Event",
        delivery_header="X-GitHub-Delivery",
        interesting=frozenset({"push", "create", "delete"}),
    ),
]


def receive(project: Project, headers: Mapping[str, str], body: bytes) -> Delivery | None:
    """Store one call. None if the same call is already stored. Raises BadSignature; nothing is stored then.

    The id header is not signed, so the body's digest is a second key: a replayed body under a new id is one delivery.
    """
    provider = signed_by(project, headers, body)
    event = headers.get(provider.event_header, "")[:50]
    digest = hashlib.sha256(body).hexdigest()
    delivery = Delivery(
        project=project,
        provider=provider.name,
        delivery_id=headers.get(provider.delivery_header, "")[:100] or digest,
        event=event,
        headers={k: v for k, v in headers.items() if k.lower().startswith(("x-", "user-agent", "content-type"))},
        body=body,
        body_digest=digest,
        status=Delivery.Status.RECEIVED if event in provider.interesting else Delivery.Status.IGNORED,
        outcome="" if event in provider.interesting else f"event {event!r} is of no interest",
    )
    try:
        with transaction.atomic():
            delivery.save(force_insert=True)
    except IntegrityError:
        return None
    return delivery


def signed_by(project: Project, headers: Mapping[str, str], body: bytes) -> Provider:
    """The provider whose signature over the raw body is right. Raises BadSignature."""
    for provider in PROVIDERS:
        given = headers.get(provider.signature_header)
        if given is None:
            continue
        wanted = hmac.new(project.hook_secret.encode(), body, hashlib.sha256).hexdigest()
        if hmac.compare_digest(given.encode(), f"{provider.signature_prefix}{wanted}".encode()):
            return provider
        raise BadSignature(f"{provider.signature_header} does not match: set the project's secret at the forge")
    names = ", ".join(p.signature_header for p in PROVIDERS)
    raise BadSignature(f"the call is not signed: expected the header {names}")
