"""Buttons that show what would happen: they send the same form with the name ``preview``."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest, QueryDict

from speedtrack.runs.requests.outlook import outlook


def do_or_preview(request: HttpRequest, verb: Callable[[], object]) -> str:
    """Call a verb, show its answer and return it. For a preview, show what it would answer and change; return "".

    Raises what the verb raises.
    """
    if request.POST.get("preview"):
        messages.info(request, "; ".join(line.removesuffix(".") for line in outlook(verb).lines) + ".")
        return ""
    message = str(verb())
    messages.success(request, message)
    return message


def is_sure(form: QueryDict) -> bool:
    """Return whether the form confirms the change. A preview needs no confirmation."""
    return bool(form.get("sure") or form.get("preview"))
