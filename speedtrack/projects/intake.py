"""Take webhook deliveries: check the signature and store the raw call once. Its payload is only a hint to fetch.

Facts about pull requests and about a new name of the repository are stored as well; nothing is planned here.
"""

import time
from collections.abc import Mapping
from typing import BinaryIO

from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.datastructures import CaseInsensitiveMapping

from speedtrack.ground.postgres import pgvalues
from speedtrack.ground.texts.text import storable
from speedtrack.projects import hooks
from speedtrack.projects.forges.bodies import Body
from speedtrack.projects.forges.events import Meaning, PullReport
from speedtrack.projects.forges.provider import Provider
from speedtrack.projects.forges.providers import provider_of
from speedtrack.projects.forges.signing import BadSignature, HookCall, matching_secret
from speedtrack.projects.models import Delivery, Project, PullRequest

CONTENTS = (
    *("provider", "event", "summary", "headers", "size", "packed_body", "body_digest"),
    *("status", "outcome", "with_former"),
)
KEPT_HEADERS = ("x-", "user-agent", "content-type", "webhook-", "idempotency-key")
SECRET_HEADERS = ("x-gitlab-token",)
ONCE_MORE = F("copies") + 1


def receive(project: Project, headers: Mapping[str, str], body: bytes | BinaryIO) -> Delivery | None:
    """Store one call. None if an equal call still waits. Raises BadSignature, after counting it, or KeyLost.

    ``body``: its bytes, or a file that holds only these and can be read again.

    The header with the id is not signed, so equal calls are also recognised by the digest of their body. Both count
    only while the first call waits, because the next fetch then answers both. A call that a person sends again later,
    with its old id, causes another fetch.
    """
    delivery, meaning = delivery_of_call(project, HookCall(CaseInsensitiveMapping(headers), Body.of(body), time.time()))
    note_facts(project, meaning)
    with pgvalues.apart():
        return store(delivery)


def store(delivery: Delivery) -> Delivery | None:
    """The stored call; None if an equal one still waits."""
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
        # The conflicting row has vanished meanwhile.
    raise AssertionError("the last try returns or raises")


def is_repeated(delivery: Delivery) -> bool:
    """Return whether an equal call waits already.

    If so, that call counts as received now: a fetch that has begun may have missed later changes.
    """
    calls = Delivery.objects.filter(project=delivery.project)
    if delivery.status != Delivery.Status.RECEIVED:
        return calls.filter(delivery_id=delivery.delivery_id).update(copies=ONCE_MORE) > 0
    equal = Q(delivery_id=delivery.delivery_id) | Q(body_digest=delivery.body_digest)
    queued_calls = calls.filter(equal, status=Delivery.Status.RECEIVED)
    return queued_calls.update(received_at=Now(), copies=ONCE_MORE) > 0


def requeue_delivery(delivery: Delivery) -> Delivery | None:
    """Queue the earlier call with this id again, with the new contents. None if it waits already, or is unknown."""
    same = Delivery.objects.filter(project=delivery.project, delivery_id=delivery.delivery_id)
    contents = {name: getattr(delivery, name) for name in CONTENTS}
    try:
        with transaction.atomic():
            handled_calls = same.exclude(status=Delivery.Status.RECEIVED)
            updated = handled_calls.update(received_at=Now(), copies=ONCE_MORE, **contents)
    except IntegrityError:  # an equal body has just arrived with another id
        return None
    return same.first() if updated else None


def delivery_of_call(project: Project, call: HookCall) -> tuple[Delivery, Meaning]:
    """The unsaved row of a call, and its meaning. Raises BadSignature or KeyLost."""
    provider, with_former = check_signature(project, call)
    event = storable(provider.event_of(call))
    meaning = provider.meaning(event, call.body, call.header("Content-Type"))
    digest = call.body.sha256()
    status, outcome = what_follows(meaning)
    row = Delivery(
        project=project,
        provider=provider.name,
        delivery_id=storable(provider.delivery_id_of(call)) or digest,
        event=event,
        summary=meaning.summary[:300],
        headers=kept_headers(call.headers),
        size=call.body.size,
        packed_body=call.body.packed(),
        body_digest=digest,
        status=status,
        outcome=outcome,
        with_former=with_former,
    )
    return row, meaning


def check_signature(project: Project, call: HookCall) -> tuple[Provider, bool]:
    """The forge, and whether it signed with the former secret. Raises BadSignature, after counting it, or KeyLost."""
    event = ""
    try:
        provider = provider_of(call)
        event = storable(provider.event_of(call))
        index = matching_secret(call, provider.schemes, hooks.valid_secrets(project), provider.weak)
    except BadSignature as e:
        hooks.note_refusal(project, call, event, e)
        raise
    return provider, index > 0


def what_follows(meaning: Meaning) -> tuple[Delivery.Status, str]:
    """The status of a call that has just arrived, and the sentence about its outcome so far."""
    if meaning.look:
        return Delivery.Status.RECEIVED, ""
    if meaning.pull:
        return Delivery.Status.PROCESSED, f"pull request {meaning.pull.number} was noted"
    return Delivery.Status.IGNORED, meaning.ignored


def kept_headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {
        storable(name): storable(value)
        for name, value in headers.items()
        if name.lower().startswith(KEPT_HEADERS) and name.lower() not in SECRET_HEADERS
    }


def note_facts(project: Project, meaning: Meaning) -> None:
    """Store the facts of a verified call, other than "fetch this repository"."""
    if meaning.pull:
        note_pull(project, meaning.pull)
    if meaning.renamed_to:
        outdated = Project.objects.filter(pk=project.pk).exclude(renamed_to=meaning.renamed_to[:300])
        outdated.update(renamed_to=meaning.renamed_to[:300], renamed_at=Now())


def note_pull(project: Project, report: PullReport) -> None:
    """Store a report about a pull request.

    A report older than the stored one changes nothing: calls come in any order.
    """
    now = timezone.now()
    when = min(report.updated_at or now, now)  # a time in the future would block all reports until then
    facts = {
        "title": report.title,
        "head_sha": report.head_sha,
        "head_ref": report.head_ref,
        "head_repository": report.head_repository,
        "base_ref": report.base_ref,
        "from_fork": report.from_fork,
        "state": report.state,
        "updated_at": when,
    }
    older = PullRequest.objects.filter(project=project, number=report.number, updated_at__lte=when)
    if not older.update(**facts):
        new = PullRequest(project=project, number=report.number, **facts)
        PullRequest.objects.bulk_create([new], ignore_conflicts=True)
        older.update(**facts)  # an older report may have been stored in between
