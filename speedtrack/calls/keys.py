"""The header Idempotency-Key (draft-ietf-httpapi-idempotency-key): a repeated request gets the first one's answer."""

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import connection, transaction
from django.db.models.functions import Now

from speedtrack.calls.models import KeptAnswer

KEPT = timedelta(hours=24)
KEY = re.compile(r"[\x21-\x7e]{1,255}")
LOCKED = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"

Answer = tuple[int, Any]  # status, and a document of JSON


class BadKey(ValueError):
    """This text is no key; the message describes a valid one."""


class UsedKey(Exception):
    """An earlier, different request had the key."""


class KeyBusy(Exception):
    """The first request with this key is still under way."""


def check(key: str) -> str:
    """The key without the quotes of the draft. Raises BadKey."""
    bare_key = key[1:-1] if len(key) > 2 and key[0] == key[-1] == '"' else key
    if not KEY.fullmatch(bare_key):
        raise BadKey("1 to 255 visible ASCII characters, such as those of a random UUID")
    return bare_key


@dataclass(frozen=True)
class RequestWork:
    """The work of a request. ``rights``: the rights that it has needed, once it is done, as JSON.

    ``check``: raises unless the caller still has such rights.
    """

    do: Callable[[], Answer]
    rights: Callable[[], list[Any]]
    check: Callable[[list[Any]], None]


@transaction.atomic
def answer_once(token_id: int, key: str, request: bytes, work: RequestWork) -> tuple[Answer, bool]:
    """The answer of ``work``, or the kept one of an equal request, and whether it was kept. Raises UsedKey and KeyBusy.

    The changes of ``work`` and its answer are committed together; if it raises, neither is, and the key is free. Only
    callers who may still do the work get a kept answer: for others ``work.check`` raises.
    """
    with connection.cursor() as cursor:
        cursor.execute(LOCKED, [f"{token_id} {key}"])
        if not cursor.fetchone()[0]:
            raise KeyBusy("the first request with this key is still under way")
    digest = hashlib.sha256(request).hexdigest()
    KeptAnswer.objects.filter(token=token_id, key=key, created__lt=Now() - KEPT).delete()
    if kept_answer := KeptAnswer.objects.filter(token=token_id, key=key).first():
        if kept_answer.request_digest != digest:
            raise UsedKey("this key came with another request before: make a new key for a new request")
        if kept_answer.rights is None:
            raise UsedKey("an older version of the server has answered: look at what it did, and make a new key")
        work.check(kept_answer.rights)
        return (kept_answer.status, kept_answer.document), True
    status, document = work.do()
    KeptAnswer.objects.create(
        token_id=token_id,
        key=key,
        request_digest=digest,
        status=status,
        document=document,
        rights=work.rights(),
    )
    return (status, document), False
