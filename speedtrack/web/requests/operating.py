"""Operations of pages: a form asks for one, and its answer is shown as a message.

Buttons that show what would happen send the same form with the name ``preview``.
"""

from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, QueryDict
from django.utils.http import url_has_allowed_host_and_scheme

from speedtrack.alerts.models import Alert
from speedtrack.operations.performing import Actor, Done
from speedtrack.operations.refusals import REFUSED
from speedtrack.web.requests.permissions import access_of

UNDO = "undo="  # begins the tags of a message that can be taken back


def actor_of(request: HttpRequest) -> Actor:
    """Whoever sent the request. For a preview, what they ask for is tried."""
    return Actor(access_of(request).caller, bool(request.POST.get("preview")))


def perform(
    request: HttpRequest, verb: Callable[..., Done], *inputs: Any, otherwise: str = "Not done", **fields: Any
) -> Done | None:
    """Do an operation and show its answer; for a preview, show what it would do.

    Return None if it was a preview, or refused: then the message begins with ``otherwise``.
    """
    try:
        result = verb(actor_of(request), *inputs, **fields)
    except REFUSED as e:
        messages.error(request, f"{otherwise}: {e}.")
        return None
    tell(request, result)
    return None if result.outlook else result


def tell(request: HttpRequest, result: Done) -> None:
    """Show what was done, or would be."""
    if result.outlook:
        messages.info(request, "; ".join(line.removesuffix(".") for line in result.outlook.lines) + ".")
        return
    show = messages.success if result.is_change else messages.info
    show(request, f"{result.sentence[:1].upper()}{result.sentence[1:]}.", undo_of(result))


def undo_of(result: Done) -> str:
    """``alert:status:assignee``, by which a message can take back that somebody was assigned; else empty."""
    (was, status), (former, person) = (result.changes.get(name, (None, None)) for name in ("status", "assignee"))
    is_assignment = isinstance(result.row, Alert) and was == status and former != person
    return f"{UNDO}{result.row.pk}:{status}:{former or ''}" if is_assignment else ""


def way_back(request: HttpRequest, default: str) -> str:
    """The path on this site that the form wants to return to."""
    back = request.POST.get("back", "")
    return back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) and back.startswith("/") else default


def is_sure(form: QueryDict) -> bool:
    """Return whether the form confirms the change. A preview needs no confirmation."""
    return bool(form.get("sure") or form.get("preview"))
