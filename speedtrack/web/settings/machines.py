"""Add machines, replace their tokens, pause, retire and return them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from speedtrack.operations import machines
from speedtrack.operations.performing import Actor, BadInput, Done
from speedtrack.runs.fleet import enrolment
from speedtrack.runs.models import Machine
from speedtrack.runs.scheduling import order
from speedtrack.runs.scheduling.order import BadShares
from speedtrack.web.pages.running import machine as machine_page
from speedtrack.web.pages.running import queue as queue_page
from speedtrack.web.requests.operating import perform
from speedtrack.web.requests.permissions import access_of


@dataclass(frozen=True)
class NewToken:
    """A token that is shown this once, and where the runner finds the server."""

    machine: str
    token: str
    url: str


@dataclass(frozen=True)
class NewCode:
    """An enrolment code that is shown this once."""

    machine: str
    code: str
    url: str
    minutes: int = enrolment.VALID.seconds // 60


@require_http_methods(["GET", "HEAD", "POST"])
def list_machines(request: HttpRequest) -> HttpResponse:
    """All machines; a POST makes an enrolment code, or adds a machine, and shows the code or its token."""
    if request.method != "POST":
        return machines_page(request)
    name, pool = (request.POST.get(field, "").strip() for field in ("name", "pool"))
    is_token = request.POST.get("how") == "token"
    result = perform(request, machines.add if is_token else machines.make_code, name, pool, otherwise="Not added")
    if result is None:
        return machines_page(request, name, pool)
    if is_token:
        return machines_page(request, token=NewToken(name, result.secret, settings.URL))
    return machines_page(request, code=NewCode(name, result.secret, settings.URL))


def machines_page(
    request: HttpRequest, name: str = "", pool: str = "", token: NewToken | None = None, code: NewCode | None = None
) -> HttpResponse:
    """``name``, ``pool``: as entered. ``token``, ``code``: in this answer only, in no session and no message."""
    context = {
        "machines": queue_page.counted_work(access_of(request)),
        "name": name,
        "pool": pool,
        "token": token,
        "code": code,
    }
    response = render(request, "web/settings_machines.html", context)
    response["Cache-Control"] = "no-store"
    return response


@require_POST
def renew_token(request: HttpRequest, name: str) -> HttpResponse:
    """Give a machine a new token, and show it in the answer."""
    machine = machine_page.machine_or_404(name)
    if not request.POST.get("sure"):
        messages.error(request, "Not changed: confirm that the old token is refused from then on.")
        return redirect("machine", name=name)
    return token_page(request, machine, machines.renew_token)


@require_POST
def return_to_service(request: HttpRequest, name: str) -> HttpResponse:
    """Return a retired machine to service; its new token is shown in the answer."""
    return token_page(request, machine_page.machine_or_404(name), machines.return_to_service)


def token_page(request: HttpRequest, machine: Machine, verb: Callable[..., Done]) -> HttpResponse:
    """Do what gives a machine a token, and show this; without one, the machine's page."""
    result = perform(request, verb, machine)
    if result is None or not result.secret:
        return redirect("machine", name=machine.name)
    return machines_page(request, token=NewToken(machine.name, result.secret, settings.URL))


@require_POST
def act_on_machine(request: HttpRequest, name: str, action: str) -> HttpResponse:
    """Do one of ACTIONS with a machine."""
    machine = machine_page.machine_or_404(name)
    if action not in ACTIONS:
        raise Http404(f"There is no action {action!r}: there are {', '.join(ACTIONS)}.")
    verb, inputs = ACTIONS[action]
    if perform(request, lambda actor: verb(actor, machine, **inputs(machine, request.POST))):
        return redirect("machine", name=name)
    if request.POST.keys() - {"csrfmiddlewaretoken", "preview"}:
        return still_entered(request, name)
    return redirect("machine", name=name)


def still_entered(request: HttpRequest, name: str) -> HttpResponse:
    """The page of a machine, its forms with the entered values, none of which is stored yet."""
    page = machine_page.load(name, access_of(request))
    if "windows" in request.POST:
        shares = [share._replace(entered=request.POST.get(f"share-{share.kind}", "")) for share in page.shares]
        page = replace(page, shares=shares)
    return render(request, "web/machine.html", {"page": page, "machine": page.machine, "entered": request.POST})


@require_POST
def plan_time(request: HttpRequest, name: str) -> HttpResponse:
    """Set when a machine takes work by itself, and what its time is for; or say what that would change."""
    machine = machine_page.machine_or_404(name)
    texts = request.POST.get("windows", "")[:2000].splitlines()
    zone = request.POST.get("zone", "").strip()[:64] or "UTC"

    def plan(actor: Actor) -> Done:
        return machines.plan(actor, machine, texts, zone, shares_of(request.POST))

    if perform(request, plan, otherwise="Nothing was changed"):
        return redirect("machine", name=name)
    return still_entered(request, name)


def shares_of(entered: QueryDict) -> dict[str, int]:
    """The shares of a form; an empty field is none. Raises BadShares."""
    texts = {kind: entered.get(f"share-{kind}", "").strip() for kind in order.KINDS if kind != "pushes"}
    for kind, text in texts.items():
        if text and not (text.isascii() and text.isdigit() and len(text) <= 3):
            raise BadShares(f"{order.IN_WORDS[kind]}: {text[:20]!r} is no number from 0 to 99")
    return {kind: int(text) for kind, text in texts.items() if text}


def no_inputs(machine: Machine, form: QueryDict) -> dict[str, Any]:
    return {}


def canary_inputs(machine: Machine, form: QueryDict) -> dict[str, Any]:
    slug, revision, names = (form.get(field, "").strip()[:2000] for field in ("project", "commit", "benchmarks"))
    return {"project": slug, "commit": revision, "benchmarks": names.replace(",", " ").split()}


def confirmed_revocation(machine: Machine, form: QueryDict) -> dict[str, Any]:
    if not form.get("sure"):
        raise BadInput("confirm that its run is taken from it")
    return {}


def confirmed_retirement(machine: Machine, form: QueryDict) -> dict[str, Any]:
    if form.get("name", "").strip() != machine.name:
        raise BadInput(f"type {machine.name}, exactly, to retire it")
    return {}


#: action -> the operation, and its inputs by the form
ACTIONS: dict[str, tuple[Callable[..., Done], Callable[[Machine, QueryDict], dict[str, Any]]]] = {
    "drain": (machines.pause, no_inputs),
    "pause": (machines.pause, lambda machine, form: {"at_once": True}),
    "resume": (machines.resume, no_inputs),
    "canary": (machines.measure_canary, no_inputs),
    "freeze": (machines.freeze_canary, canary_inputs),
    "pool": (machines.put_into_pool, lambda machine, form: {"pool": form.get("pool", "").strip()}),
    "rotate": (machines.rotate, no_inputs),
    "revoke": (machines.revoke, confirmed_revocation),
    "retire": (machines.retire, confirmed_retirement),
}
