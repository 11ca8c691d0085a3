"""Buttons that say what would happen: the same form, sent with the name ``preview``."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest

from speedtrack.runs.outlook import outlook


def do_or_preview(request: HttpRequest, verb: Callable[[], object]) -> bool:
    """Call a verb and show its answer, or what it would answer and change. Was it done? Raises what it raises."""
    if request.POST.get("preview"):
        messages.info(request, ". ".join(outlook(verb).lines) + ".")
    else:
        messages.success(request, str(verb()))
    return not request.POST.get("preview")
