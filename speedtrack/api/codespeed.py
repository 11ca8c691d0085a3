"""``POST /result/add/`` and ``/result/add/json/``: results as clients of Codespeed send them, with its answers."""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Protocol, cast

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from speedtrack.accounts import access, tokens
from speedtrack.accounts.access import ANYBODY, Caller, Refused
from speedtrack.accounts.tokens import UnknownToken
from speedtrack.api.v1.serving.callers import ApiRequest, allow
from speedtrack.api.v1.serving.refusals import RETRY_AFTER_S, TooMany
from speedtrack.calls.rates import RateStanding
from speedtrack.ground.texts.text import UNSTORABLE
from speedtrack.http.clientaddress import client_address
from speedtrack.operations import results
from speedtrack.operations.performing import Actor
from speedtrack.outside import codespeed, document, taking
from speedtrack.outside.codespeed import BadResult
from speedtrack.outside.document import DocumentError, ResultRefusal
from speedtrack.outside.taking import ImportUnderWay, Sender
from speedtrack.projects.models import Project
from speedtrack.runs.models import Import

PLAIN = "text/plain; charset=utf-8"
MOST_FAULTS = 100  # that an answer lists
FOR_FIRST_USE = "Environment {} not found"


class Adding(Protocol):
    def __call__(self, request: HttpRequest, caller: Caller) -> str: ...


def adds(add: Adding) -> Any:
    """Make a view of a function that adds results.

    It lets the caller in, and answers with Codespeed's statuses and texts.
    """

    @csrf_exempt
    @require_POST
    @wraps(add)
    def view(request: HttpRequest, token: str = "") -> HttpResponse:
        try:
            return HttpResponse(add(request, allowed_caller(request, token)), status=202, content_type=PLAIN)
        except TooMany as e:
            response = HttpResponse(f"{e}\n", status=429, content_type=PLAIN)
            response["Retry-After"] = str(standing_of(request).wait_s)
            return response
        except UnknownToken as e:
            response = HttpResponse(f"{e}\n", status=401, content_type=PLAIN)
            response["WWW-Authenticate"] = 'Basic realm="results"'
            return response
        except Refused as e:
            return HttpResponse(f"{e}\n", status=403, content_type=PLAIN)
        except BadResult as e:
            return HttpResponseBadRequest(str(e), content_type=PLAIN)
        except ImportUnderWay as e:
            response = HttpResponse(f"{e}\n", status=503, content_type=PLAIN)
            response["Retry-After"] = str(RETRY_AFTER_S)
            return response

    return view


def allowed_caller(request: HttpRequest, token: str) -> Caller:
    """The caller, after taking a request from the allowance of programs. Raises UnknownToken and TooMany."""
    try:
        caller = caller_of(request, token)
    except UnknownToken:
        allow(cast(ApiRequest, request), ANYBODY)  # whoever tries tokens is slowed down as well
        raise
    allow(cast(ApiRequest, request), caller)
    return caller


def standing_of(request: HttpRequest) -> RateStanding:
    standing = cast(ApiRequest, request).standing
    assert standing is not None
    return standing


def caller_of(request: HttpRequest, token: str) -> Caller:
    """The owner of the token in the address or in the header Authorization. Raises UnknownToken."""
    secret = token or request.GET.get("token", "") or token_in_header(request.headers.get("Authorization", ""))
    if secret and not UNSTORABLE.search(secret):
        return tokens.find(secret, client_address(request))
    if settings.CODESPEED_ANONYMOUS:
        return ANYBODY
    raise UnknownToken("sending results needs a token of yours with the scope `results`: /help/results-from-outside/")


def token_in_header(header: str) -> str:
    """The token of ``Bearer``, or the password of ``Basic`` (or its user, if there is no password)."""
    kind, _, credentials = header.partition(" ")
    if kind.lower() == "bearer":
        return credentials.strip()
    if kind.lower() != "basic":
        return ""
    try:
        user, _, password = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return password or user


@adds
def add_result(request: HttpRequest, caller: Caller) -> str:
    add(caller, [request.POST.dict()])
    return codespeed.SAVED


@adds
def add_json_results(request: HttpRequest, caller: Caller) -> str:
    if not request.POST.get("json"):
        raise BadResult(codespeed.NO_JSON)
    add(caller, codespeed.results_of(request.POST["json"]))
    return codespeed.ALL_SAVED


def add(caller: Caller, items: list[dict[str, Any]]) -> None:
    """Store the valid results of each project. Raises BadResult that says which others are left out, and why."""
    faults: codespeed.Faults = {}
    total = 0
    for project, own in by_project(caller, items, faults):
        count, own_faults = take(caller, project, own)
        total += count
        faults |= own_faults
    if faults:
        raise BadResult(refusal_of(items, faults, total))


def refusal_of(items: Sequence[Mapping[str, Any]], faults: codespeed.Faults, count: int) -> str:
    """The first fault in Codespeed's words; of a list also how many results are stored, and a line for each other."""
    indexes = sorted(faults)
    text = faults[indexes[0]]
    if count:
        text += f" ({count} other results of this request are stored)"
    if len(items) == 1:
        return text
    lines = [f"result {index + 1} of {len(items)} is left out: {faults[index]}" for index in indexes[:MOST_FAULTS]]
    ending = [f"and {len(indexes) - MOST_FAULTS} more are left out"] if len(indexes) > MOST_FAULTS else []
    return "\n".join([text, *lines, *ending])


def by_project(
    caller: Caller, items: Sequence[Mapping[str, Any]], faults: codespeed.Faults
) -> Iterable[tuple[Project, dict[int, Mapping[str, Any]]]]:
    """The results by project, with their places; those that name none, or lack a field, are added to ``faults``.

    Raises Refused, before any result is stored, if the caller may not send to one of the projects.
    """
    groups: dict[str, dict[int, Mapping[str, Any]]] = {}
    for index, item in enumerate(items):
        try:
            codespeed.check(item)
        except BadResult as e:
            faults[index] = str(e)
        else:
            groups.setdefault(str(item["project"]), {})[index] = item
    batches = []
    for name, own in groups.items():
        try:
            batches.append((project_named(caller, name), own))
        except BadResult as e:
            faults |= dict.fromkeys(own, str(e))
    return batches


def project_named(caller: Caller, name: str) -> Project:
    """The project with this slug, otherwise with this name. Raises BadResult and Refused."""
    visible = access.visible(caller) if not UNSTORABLE.search(name) else Project.objects.none()
    project = visible.filter(slug=name).first() or visible.filter(name=name).order_by("pk").first()
    if project is None:
        raise BadResult(f"Project {name[:100]} not found: its repository must be tracked here")
    actor_of(caller).require("results.import", project)
    return project


def actor_of(caller: Caller) -> Actor:
    """Whom the setting CODESPEED_ANONYMOUS lets in may send results to all projects that everybody sees."""
    return Actor(caller if caller.user else None)


def take(caller: Caller, project: Project, items: Mapping[int, Mapping[str, Any]]) -> tuple[int, codespeed.Faults]:
    """Store the valid results of a project. Return how many are stored now or were before, and the others' faults."""
    name = caller.user.get_username() if caller.user else ""
    sender = Sender(Import.Door.CODESPEED, caller.user, name, registers=caller.user is not None)
    rows, faults = codespeed.rows_of(project, items)
    if not rows:
        return 0, faults
    try:
        batch = document.batch_of(codespeed.batch_document(rows.values()))
    except DocumentError as e:
        return 0, faults | dict.fromkeys(rows, str(e))
    prepared = taking.prepare(project, batch, sender)
    (report,) = results.take(actor_of(caller), project, [prepared]).row
    indexes = list(rows)
    faults |= {indexes[refusal.index]: words_of(refusal, items[indexes[refusal.index]]) for refusal in report.refused}
    return report.taken + report.unchanged, faults


def words_of(refusal: ResultRefusal, item: Mapping[str, Any]) -> str:
    """A refusal as a sentence, in Codespeed's words where it has some."""
    if refusal.pointer.endswith("/machine") and "there is no machine" in refusal.detail:
        return FOR_FIRST_USE.format(item["environment"])
    field = refusal.pointer.rpartition("/")[2]
    names = {"commit": "commitid", "value": "result_value", "measured_at": "result_date", "machine": "environment"}
    return f"{names.get(field, field)}: {refusal.detail}" if field else refusal.detail
