"""A person's own board: pin, unpin, move."""

from collections.abc import Callable
from functools import partial
from typing import cast

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from speedtrack.accounts import pins
from speedtrack.accounts.pins import BoardIsFull
from speedtrack.web.pages import pins as board
from speedtrack.web.requests.permissions import access_of

LONGEST_NUMBER = 9
#: field of the form -> what it does with the pin that it numbers
ACTS: dict[str, Callable[[User, int], None]] = {
    "unpin": pins.unpin,
    "earlier": partial(pins.move, by=-1),
    "later": partial(pins.move, by=1),
}


@require_http_methods(["GET", "HEAD", "POST"])
def own_board(request: HttpRequest) -> HttpResponse:
    """The board. A POST with an address as ``pin`` adds to it; with a number as one of ACTS it changes it."""
    if request.method == "POST":
        return add_pin(request) if "pin" in request.POST else change_pin(request)
    template = "web/pins_live.html" if request.GET.get("part") == "live" else "web/pins.html"
    return render(request, template, {"board": board.load(access_of(request))})


def add_pin(request: HttpRequest) -> HttpResponse:
    target = board.target_of(request.POST["pin"])
    try:
        is_new = pins.pin(cast(User, request.user), target.address)
        messages.success(request, "Pinned." if is_new else "It is on your board already.")
    except BoardIsFull as e:
        messages.error(request, f"Not pinned: {e}.")
    return redirect(target.address)


def change_pin(request: HttpRequest) -> HttpResponse:
    act = next((name for name in ACTS if name in request.POST), "")
    number = request.POST.get(act, "")
    if not (number.isascii() and number.isdigit() and len(number) <= LONGEST_NUMBER):
        raise Http404(f"Name a pin by its number, as one of {', '.join(ACTS)}.")
    ACTS[act](cast(User, request.user), int(number))
    return redirect(f"{reverse('pins')}#pin-{number}")
