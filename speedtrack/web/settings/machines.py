"""Add machines, replace their tokens, pause, retire and return them."""

from collections.abc import Callable
from dataclasses import dataclass

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from speedtrack.runs import machines, quarantine, tracking
from speedtrack.runs.models import Machine
from speedtrack.runs.tracking import NoSuchThing
from speedtrack.web.pages import machine as machine_page
from speedtrack.web.pages import queue as queue_page

REFUSED = (NoSuchThing, machines.NotPossible, quarantine.NotQuarantined)


@dataclass(frozen=True)
class NewToken:
    """A token that is shown this once, and where the runner finds the server."""

    machine: str
    token: str
    url: str


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def list_machines(request: HttpRequest) -> HttpResponse:
    """All machines; a POST adds one and shows its token."""
    if request.method != "POST":
        return machines_page(request)
    name = request.POST.get("name", "").strip()
    try:
        token = tracking.add_machine(name)
    except NoSuchThing as e:
        messages.error(request, f"Not added: {plain_words(e)}.")
        return machines_page(request, name)
    return machines_page(request, token=NewToken(name, token, settings.URL))


def machines_page(request: HttpRequest, name: str = "", token: NewToken | None = None) -> HttpResponse:
    """``name``: what was entered. ``token``: it is in this answer only, in no session and no message."""
    context = {"machines": queue_page.work_of_all(), "name": name, "token": token}
    response = render(request, "web/settings_machines.html", context)
    response["Cache-Control"] = "no-store"
    return response


def plain_words(error: Exception) -> str:
    """The message without the command that does the same."""
    return str(error).partition(": `manage.py")[0]


@require_POST
@login_required
def renew_token(request: HttpRequest, name: str) -> HttpResponse:
    """Give a machine a new token, and show it in the answer."""
    assert isinstance(request.user, User)
    machine = machine_page.machine_or_404(name)
    if not request.POST.get("sure"):
        messages.error(request, "Not changed: confirm that the old token is refused from then on.")
        return redirect("machine", name=name)
    try:
        token = tracking.renew_token(machine.name, request.user)
    except NoSuchThing as e:
        messages.error(request, f"Not changed: {plain_words(e)}.")
        return redirect("machine", name=name)
    return machines_page(request, token=NewToken(name, token, settings.URL))


@require_POST
@login_required
def return_to_service(request: HttpRequest, name: str) -> HttpResponse:
    """Return a retired machine to service; its new token is shown in the answer."""
    assert isinstance(request.user, User)
    try:
        token = machines.return_to_service(machine_page.machine_or_404(name), request.user)
    except machines.NotPossible as e:
        messages.error(request, f"Not done: {e}.")
        return redirect("machine", name=name)
    return machines_page(request, token=NewToken(name, token, settings.URL))


@require_POST
@login_required
def act_on_machine(request: HttpRequest, name: str, action: str) -> HttpResponse:
    """Do one of ACTIONS with a machine."""
    assert isinstance(request.user, User)
    machine = machine_page.machine_or_404(name)
    if action not in ACTIONS:
        raise Http404(f"There is no action {action!r}: there are {', '.join(ACTIONS)}.")
    try:
        if action == "retire" and request.POST.get("name", "").strip() != machine.name:
            raise machines.NotPossible(f"type {machine.name}, exactly, to retire it")
        messages.success(request, ACTIONS[action](machine, request.user))
    except REFUSED as e:
        messages.error(request, f"Not done: {e}.")
    return redirect("machine", name=name)


def drain(machine: Machine, who: User) -> str:
    machines.pause(machine, who)
    return f"{machine} finishes its run and takes no other. Resume undoes it."


def pause(machine: Machine, who: User) -> str:
    machines.pause(machine, who, at_once=True)
    return f"{machine} is paused; a run that it had is queued again. Resume undoes it."


def resume(machine: Machine, who: User) -> str:
    machines.resume(machine, who)
    return f"{machine} gets work again. Pause undoes it."


def measure_canary(machine: Machine, who: User) -> str:
    machines.measure_canary(machine)
    return f"The canary of {machine} is measured next."


def retire(machine: Machine, who: User) -> str:
    cancelled = machines.retire(machine, who)
    return f"{machine} is retired, and {cancelled} waiting runs were cancelled. Return to service undoes it."


ACTIONS: dict[str, Callable[[Machine, User], str]] = {
    "drain": drain,
    "pause": pause,
    "resume": resume,
    "canary": measure_canary,
    "retire": retire,
}
