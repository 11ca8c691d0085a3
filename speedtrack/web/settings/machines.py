"""Add machines, replace their tokens, pause, retire and return them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from speedtrack.accounts.operations import named
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.projects.errors import RepositoryError
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import enrolment, machines, pools, registering
from speedtrack.runs.models import Machine
from speedtrack.runs.requests import rules
from speedtrack.runs.scheduling import order, quarantine
from speedtrack.runs.scheduling.order import BadShares
from speedtrack.runs.scheduling.windows import BadWindow
from speedtrack.web.pages.running import machine as machine_page
from speedtrack.web.pages.running import queue as queue_page
from speedtrack.web.requests.permissions import access_of, note
from speedtrack.web.requests.previews import do_or_preview

REFUSED = (NoSuchThing, machines.NotPossible, quarantine.NotQuarantined, RepositoryError, DefinitionError)


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
    assert isinstance(request.user, User)
    name, pool = (request.POST.get(field, "").strip() for field in ("name", "pool"))
    try:
        if request.POST.get("how") == "token":
            credential: NewToken | NewCode = NewToken(name, registering.add_machine(name, pool), settings.URL)
        else:
            credential = NewCode(name, enrolment.make_code(name, pool, user=request.user), settings.URL)
        note(request, "machine.add" if isinstance(credential, NewToken) else "machine.enroll-code", name)
    except NoSuchThing as e:
        messages.error(request, f"Not added: {plain_words(e)}.")
        return machines_page(request, name, pool)
    if isinstance(credential, NewCode):
        return machines_page(request, code=credential)
    return machines_page(request, token=credential)


def machines_page(
    request: HttpRequest, name: str = "", pool: str = "", token: NewToken | None = None, code: NewCode | None = None
) -> HttpResponse:
    """``name``, ``pool``: what was entered. ``token``, ``code``: in this answer only, in no session and no message."""
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


def plain_words(error: Exception) -> str:
    """The message without the command that would do the same."""
    return str(error).partition(": `manage.py")[0]


@require_POST
def renew_token(request: HttpRequest, name: str) -> HttpResponse:
    """Give a machine a new token, and show it in the answer."""
    assert isinstance(request.user, User)
    machine = machine_page.machine_or_404(name)
    if not request.POST.get("sure"):
        messages.error(request, "Not changed: confirm that the old token is refused from then on.")
        return redirect("machine", name=name)
    try:
        token = machines.renew_token(machine.name, request.user)
        note(request, "machine.token", name)
    except NoSuchThing as e:
        messages.error(request, f"Not changed: {plain_words(e)}.")
        return redirect("machine", name=name)
    return machines_page(request, token=NewToken(name, token, settings.URL))


@require_POST
def return_to_service(request: HttpRequest, name: str) -> HttpResponse:
    """Return a retired machine to service; its new token is shown in the answer."""
    assert isinstance(request.user, User)
    machine = machine_page.machine_or_404(name)
    try:
        if machine.outside:
            machines.take_results_again(machine, request.user)
            note(request, "machine.return", name)
            return redirect("machine", name=name)
        token = machines.return_to_service(machine, request.user)
        note(request, "machine.return", name)
    except machines.NotPossible as e:
        messages.error(request, f"Not done: {e}.")
        return redirect("machine", name=name)
    return machines_page(request, token=NewToken(name, token, settings.URL))


@require_POST
def act_on_machine(request: HttpRequest, name: str, action: str) -> HttpResponse:
    """Do one of ACTIONS with a machine."""
    assert isinstance(request.user, User)
    machine = machine_page.machine_or_404(name)
    if action not in ACTIONS:
        raise Http404(f"There is no action {action!r}: there are {', '.join(ACTIONS)}.")
    try:
        if do_or_preview(request, partial(ACTIONS[action], machine, request.user, request.POST)):
            note(request, named("machine", action), name)
            return redirect("machine", name=name)
    except REFUSED as e:
        messages.error(request, f"Not done: {plain_words(e)}.")
    if request.POST.keys() - {"csrfmiddlewaretoken", "preview"}:
        return still_entered(request, name)
    return redirect("machine", name=name)


def still_entered(request: HttpRequest, name: str) -> HttpResponse:
    """The page of a machine, its forms with what was entered: nothing of it was done yet."""
    page = machine_page.load(name, access_of(request))
    if "windows" in request.POST:
        shares = [share._replace(entered=request.POST.get(f"share-{share.kind}", "")) for share in page.shares]
        page = replace(page, shares=shares)
    return render(request, "web/machine.html", {"page": page, "machine": page.machine, "entered": request.POST})


@require_POST
def plan_time(request: HttpRequest, name: str) -> HttpResponse:
    """Set when a machine takes work by itself, and what its time is for; or say what that would change."""
    assert isinstance(request.user, User)
    machine = machine_page.machine_or_404(name)
    texts = request.POST.get("windows", "")[:2000].splitlines()
    zone = request.POST.get("zone", "").strip()[:64] or "UTC"
    try:
        machines.check_has_runner(machine)
        shares = shares_of(request.POST)
        if message := do_or_preview(request, partial(set_time, machine, texts, zone, shares, request.user)):
            note(request, "machine.plan", f"{name}: {message}")
            return redirect("machine", name=name)
    except (BadWindow, BadShares, machines.NotPossible) as e:
        messages.error(request, f"Nothing was changed: {e}.")
    return still_entered(request, name)


@transaction.atomic
def set_time(machine: Machine, windows: Sequence[str], zone: str, shares: Mapping[str, int], user: User) -> str:
    sentences = [rules.set_windows(machine, windows, zone, user), rules.set_shares(machine, shares, user)]
    return ". ".join(sentences) + "."


def shares_of(entered: QueryDict) -> dict[str, int]:
    """The shares of a form; an empty field is none. Raises BadShares."""
    texts = {kind: entered.get(f"share-{kind}", "").strip() for kind in order.KINDS if kind != "pushes"}
    for kind, text in texts.items():
        if text and not (text.isascii() and text.isdigit() and len(text) <= 3):
            raise BadShares(f"{order.IN_WORDS[kind]}: {text[:20]!r} is no number from 0 to 99")
    return {kind: int(text) for kind, text in texts.items() if text}


def drain(machine: Machine, user: User, form: QueryDict) -> str:
    machines.pause(machine, user)
    return f"{machine} finishes its run and takes no other. Resume undoes it."


def pause(machine: Machine, user: User, form: QueryDict) -> str:
    machines.pause(machine, user, at_once=True)
    return f"{machine} is paused; a run that it had is queued again. Resume undoes it."


def resume(machine: Machine, user: User, form: QueryDict) -> str:
    machines.resume(machine, user)
    return f"{machine} gets work again. Pause undoes it."


def measure_canary(machine: Machine, user: User, form: QueryDict) -> str:
    machines.measure_canary(machine)
    return f"The canary of {machine} is measured next."


def freeze_canary(machine: Machine, user: User, form: QueryDict) -> str:
    """Make a commit the machine's canary. Return a message.

    Nothing is fetched: a thread of the web server may not wait for minutes.
    """
    slug, revision, names = (form.get(field, "").strip()[:2000] for field in ("project", "commit", "benchmarks"))
    benchmarks = names.replace(",", " ").split()
    canary = machines.set_canary(machine.name, slug, revision or None, benchmarks, user, fetches=False)
    return f"{canary}; its first run is queued."


def rotate(machine: Machine, user: User, form: QueryDict) -> str:
    machines.rotate(machine, user)
    return f"The runner of {machine} replaces its token within a minute; until then the old one is valid."


def revoke(machine: Machine, user: User, form: QueryDict) -> str:
    if not form.get("sure"):
        raise machines.NotPossible("confirm that its run is taken from it")
    count = machines.revoke(machine, user)
    return f"{count} token{'' if count == 1 else 's'} of {machine} are refused. An enrolment code lets it in again."


def put_into_pool(machine: Machine, user: User, form: QueryDict) -> str:
    pool = form.get("pool", "").strip()
    if pool:
        registering.check_name(pool, "pool")
    pools.put(machine, pool, user)
    return f"{machine} is in pool {pool}." if pool else f"{machine} is in no pool."


def retire(machine: Machine, user: User, form: QueryDict) -> str:
    if form.get("name", "").strip() != machine.name:
        raise machines.NotPossible(f"type {machine.name}, exactly, to retire it")
    cancelled = machines.retire(machine, user)
    return f"{machine} is retired, and {cancelled} waiting runs were cancelled. Return to service undoes it."


ACTIONS: dict[str, Callable[[Machine, User, QueryDict], str]] = {
    "drain": drain,
    "pause": pause,
    "resume": resume,
    "canary": measure_canary,
    "freeze": freeze_canary,
    "pool": put_into_pool,
    "rotate": rotate,
    "revoke": revoke,
    "retire": retire,
}
