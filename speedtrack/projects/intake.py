"""Webhook deliveries: check the signature and store the raw call once. Its payload is only a hint to look."""

import hashlib
import hmac
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.projects.models import Delivery, Project

CONTENTS = ("provider", "event", "headers", "packed_body", "body_digest", "status", "outcome")
FASTEST = 1  # zlib's level: of JSON, a fifth is left


class BadSignature(Exception):
    """The call is not signed with the project's secret."""


@dataclass(frozen=True)
class Provider:
    """How a forge signs and labels its calls: header names, prefix of the signature, interesting events."""

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
    """Store one call. None if an equal call still waits. Raises BadSignature, and then stores nothing.

    The id header is not signed, so the digest of the body is a second key, but only while an equal body waits: the
    next look covers both. A call that comes later with its old id (a redelivery by hand) causes another look.
    """
    delivery = delivery_of_call(project, headers, body)
    del body  # it may be 25 MB, and saving the row takes memory, too
    for is_last in (False, False, True):
        try:
            with transaction.atomic():
                delivery.save(force_insert=True)
            return delivery
        except IntegrityError:
            if is_last:
                raise
        if is_repeated(delivery):
            return None
        if again := requeue_delivery(delivery):
            return again
        # The conflicting row has gone meanwhile.
    raise AssertionError("the last try returns or raises")


def is_repeated(delivery: Delivery) -> bool:
    """Does a waiting call cover this one? It then counts as just received: a look under way covers neither."""
    known = Delivery.objects.filter(project=delivery.project)
    if delivery.status == Delivery.Status.IGNORED:
        return known.filter(delivery_id=delivery.delivery_id).exists()
    equal = Q(delivery_id=delivery.delivery_id) | Q(body_digest=delivery.body_digest)
    return known.filter(equal, status=Delivery.Status.RECEIVED).update(received_at=Now()) > 0


def requeue_delivery(delivery: Delivery) -> Delivery | None:
    """Queue the earlier call with this id again, with the new contents. None if it is queued or does not exist."""
    same = Delivery.objects.filter(project=delivery.project, delivery_id=delivery.delivery_id)
    contents = {name: getattr(delivery, name) for name in CONTENTS}
    try:
        with transaction.atomic():
            updated = same.exclude(status=Delivery.Status.RECEIVED).update(received_at=Now(), **contents)
    except IntegrityError:  # an equal body has just come with another id
        return None
    return same.first() if updated else None


def delivery_of_call(project: Project, headers: Mapping[str, str], body: bytes) -> Delivery:
    """The unsaved row of a call. Raises BadSignature."""
    provider = signing_provider(project, headers, body)
    event = headers.get(provider.event_header, "")[:50]
    digest = hashlib.sha256(body).hexdigest()
    return Delivery(
        project=project,
        provider=provider.name,
        delivery_id=headers.get(provider.delivery_header, "")[:100] or digest,
        event=event,
        headers={k: v for k, v in headers.items() if k.lower().startswith(("x-", "user-agent", "content-type"))},
        packed_body=zlib.compress(body, FASTEST),  # 25 MB as SQL would be 200 MB in this process
        body_digest=digest,
        status=Delivery.Status.RECEIVED if event in provider.interesting else Delivery.Status.IGNORED,
        outcome="" if event in provider.interesting else f"event {event!r} is not interesting",
    )


def signing_provider(project: Project, headers: Mapping[str, str], body: bytes) -> Provider:
    """The provider whose signature of the raw body is correct. Raises BadSignature."""
    for provider in PROVIDERS:
        signature = headers.get(provider.signature_header)
        if signature is None:
            continue
        expected = hmac.new(project.hook_secret.encode(), body, hashlib.sha256).hexdigest()
        if hmac.compare_digest(signature.encode(), f"{provider.signature_prefix}{expected}".encode()):
            return provider
        raise BadSignature(f"{provider.signature_header} does not match: set the project's secret at the forge")
    names = ", ".join(p.signature_header for p in PROVIDERS)
    raise BadSignature(f"the call is not signed: expected the header {names}")
