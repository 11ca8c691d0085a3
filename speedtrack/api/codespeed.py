"""``POST /result/add/`` and ``/result/add/json/``: results as clients of Codespeed send them, with its answers."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from functools import wraps
from typing import Any, Protocol, cast

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from speedtrack.accounts import access, audit, tokens
from speedtrack.accounts.access import ANYBODY, Caller, Refused
from speedtrack.accounts.models import Role, Scope
from speedtrack.accounts.tokens import UnknownToken
from speedtrack.api.v1.serving.callers import ApiRequest, allow
from speedtrack.api.v1.serving.refusals import TooMany
from speedtrack.calls.rates import Standing
from speedtrack.clientaddress import client_address
from speedtrack.outside import codespeed, document, taking
from speedtrack.outside.codespeed import BadResult
from speedtrack.outside.document import DocumentError
from speedtrack.outside.taking import Report, Sender
from speedtrack.projects.models import Project
from speedtrack.runs.models import Import
from speedtrack.text import UNSTORABLE

PLAIN = "text/plain; charset=utf-8"
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


def standing_of(request: HttpRequest) -> Standing:
    found = cast(ApiRequest, request).standing
    assert found is not None
    return found


def caller_of(request: HttpRequest, token: str) -> Caller:
    """The owner of the token in the address or in the header Authorization. Raises UnknownToken."""
    given = token or request.GET.get("token", "") or token_in_header(request.headers.get("Authorization", ""))
    if given and not UNSTORABLE.search(given):
        return tokens.find(given, client_address(request))
    if settings.CODESPEED_ANONYMOUS:
        return ANYBODY
    raise UnknownToken("sending results needs a token of yours with the scope `results`: /help/results-from-outside/")


def token_in_header(header: str) -> str:
    """The token of ``Bearer``, or the password of ``Basic`` (or its user, if there is no password)."""
    kind, _, rest = header.partition(" ")
    if kind.lower() == "bearer":
        return rest.strip()
    if kind.lower() != "basic":
        return ""
    try:
        user, _, password = base64.b64decode(rest.strip(), validate=True).decode().partition(":")
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
    """Store the valid results of each project. Raises BadResult for the first result that is not valid."""
    for item in items:
        codespeed.check(item)
    kept, refusal = 0, ""
    for project, own in by_project(caller, items):
        try:
            report = take(caller, project, own)
        except BadResult as e:
            refusal = refusal or str(e)
            continue
        kept += report.taken + report.unchanged
        if report.refused:
            refusal = refusal or words_of(report, own)
    if refusal:
        raise BadResult(refusal + (f" ({kept} other results of this request are stored)" if kept else ""))


def by_project(caller: Caller, items: Iterable[Mapping[str, Any]]) -> Iterable[tuple[Project, list[Mapping[str, Any]]]]:
    """The results grouped by project, all of which the caller may send to.

    Raises BadResult or Refused, before any result is stored.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for item in items:
        groups.setdefault(str(item["project"]), []).append(item)
    return [(project_named(caller, name), own) for name, own in groups.items()]


def project_named(caller: Caller, name: str) -> Project:
    """The project with this slug, otherwise with this name. Raises BadResult and Refused."""
    visible = access.visible(caller) if not UNSTORABLE.search(name) else Project.objects.none()
    found = visible.filter(slug=name).first() or visible.filter(name=name).order_by("pk").first()
    if found is None:
        raise BadResult(f"Project {name[:100]} not found: its repository must be tracked here")
    if caller.user is not None:
        access.require(caller, Role.MAINTAINER, found, Scope.RESULTS)
    return found


def take(caller: Caller, project: Project, items: list[Mapping[str, Any]]) -> Report:
    name = caller.user.get_username() if caller.user else ""
    sender = Sender(Import.Door.CODESPEED, caller.user, name, registers=caller.user is not None)
    try:
        batch = document.batch_of(codespeed.batch_document(project, items))
    except DocumentError as e:
        raise BadResult(str(e)) from e
    prepared = taking.prepare(project, batch, sender)
    with transaction.atomic():
        report = taking.store(prepared)
        if report.taken:
            audit.note(caller, "results.import", f"{report.taken} results", project)
    return report


def words_of(report: Report, items: list[Mapping[str, Any]]) -> str:
    """The first refusal as a sentence, in Codespeed's words where it has some."""
    first = report.refused[0]
    if first.pointer.endswith("/machine") and "there is no machine" in first.detail:
        return FOR_FIRST_USE.format(items[first.index]["environment"])
    field = first.pointer.rpartition("/")[2]
    named = {"commit": "commitid", "value": "result_value", "measured_at": "result_date", "machine": "environment"}
    return f"{named.get(field, field)}: {first.detail}" if field else first.detail
