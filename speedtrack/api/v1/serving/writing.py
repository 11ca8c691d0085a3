"""Operations that write: in one transaction, for callers with a token, once per Idempotency-Key."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any, cast

from django.db import transaction
from django.http import HttpRequest
from ninja import Header
from ninja.responses import Status
from ninja.utils import contribute_operation_args
from pydantic import BaseModel

from speedtrack.api.v1.serving.callers import ApiRequest, check_rights, needed_rights
from speedtrack.api.v1.serving.refusals import Invalid
from speedtrack.calls import keys

OK, CREATED, ACCEPTED = 200, 201, 202
HEADER = "Idempotency-Key"
Answer = tuple[int, BaseModel]
MEANING = (
    "yours, such as a random UUID: a request that is sent again with it, within 24 hours, changes nothing and gets the "
    "first answer"
)


def write(operation: Callable[..., Answer]) -> Callable[..., Status[Any]]:
    """Make an operation from a function that returns a status and a document. If it raises, nothing is changed."""

    @wraps(operation)
    def view(request: ApiRequest, *arguments: Any, **parameters: Any) -> Status[Any]:
        key = parameters.pop("idempotency_key", None)

        def work() -> Answer:
            return operation(request, *arguments, **parameters)

        if key is None:
            with transaction.atomic():
                return Status(*work())
        return Status(*once(request, key, work))

    source: Any = Header(None, alias=HEADER, description=MEANING)  # type: ignore[type-arg]
    contribute_operation_args(view, "idempotency_key", cast(Any, str | None), source)
    return view


def once(request: ApiRequest, key: str, work: Callable[[], Answer]) -> keys.Answer:
    """The answer of the first request with this key. Raises Invalid, UsedKey and KeyBusy."""
    assert request.auth.token_id is not None
    try:
        checked = keys.check(key)
    except keys.BadKey as e:
        raise Invalid(str(e), parameter=HEADER) from None

    def kept() -> keys.Answer:
        status, document = work()
        return status, document.model_dump(mode="json")

    work_once = keys.RequestWork(kept, partial(needed_rights, request), partial(check_rights, request))
    answer, _ = keys.answer_once(request.auth.token_id, checked, fingerprint(request), work_once)
    return answer


def fingerprint(request: HttpRequest) -> bytes:
    """A digest of what must be equal when a request is repeated."""
    return f"{request.method} {request.get_full_path()}\n".encode() + request.body
