"""Turn exceptions of the rooms below into problem documents."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from speedtrack.accounts.access import Refused
from speedtrack.accounts.tokens import UnknownToken
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.calls.keys import KeyBusy, UsedKey
from speedtrack.http import problems
from speedtrack.http.problems import Problem
from speedtrack.operations.performing import BadInput
from speedtrack.operations.refusals import CONFLICTS, INVALID
from speedtrack.outside.taking import ImportUnderWay
from speedtrack.projects.errors import (
    GitFailed,
    NoSuchBranch,
    RepositoryError,
    RepositoryUnreachable,
    UnusableName,
    UnusablePatch,
)
from speedtrack.runs.errors import NoSuchBenchmark, NoSuchMachine, NoSuchThing

Errors = Sequence[dict[str, str]]
Handler = Callable[[HttpRequest, Any], HttpResponse]
MOST_ERRORS = 20
RETRY_AFTER_S = 10


class Invalid(ValueError):
    """A parameter or a field has a value that is not possible, which pydantic cannot know.

    If neither is named, the whole body is at fault.
    """

    def __init__(self, detail: str, *, field: str = "", parameter: str = "") -> None:
        super().__init__(detail)
        position = {"parameter": parameter} if parameter else {"pointer": f"/{field}" if field else ""}
        self.errors: Errors = [{**position, "detail": detail}]


class NoneTaken(Exception):
    """No result was stored: each was refused, or one was refused where all or none are to be stored.

    ``errors``: their faults, each of one result or several. ``count``: how many results are refused.
    """

    def __init__(self, detail: str, errors: Errors, count: int) -> None:
        super().__init__(detail)
        self.errors, self.count = errors, count


class WrongMediaType(Exception):
    """The body is not declared to be JSON."""


class Conflict(Exception):
    """The state is not the one that the request assumes; the message says what it is."""


class TooMany(Exception):
    """The caller's allowance of requests is used up."""


KINDS: dict[type[Exception], Problem] = {
    UnknownToken: problems.UNKNOWN_TOKEN,
    Refused: problems.FORBIDDEN,
    **dict.fromkeys((Conflict, *CONFLICTS), problems.CONFLICT),
    KeyBusy: problems.BUSY_KEY,
    UsedKey: problems.USED_KEY,
    WrongMediaType: problems.WRONG_TYPE,
    **dict.fromkeys((NoSuchThing, *INVALID), problems.INVALID),
    RepositoryUnreachable: problems.AWAY,
    GitFailed: problems.AWAY,
    ImportUnderWay: problems.AWAY,
    TooMany: problems.TOO_MANY,
}


def refuse(request: HttpRequest, kind: Problem, detail: str, errors: Errors = (), **extensions: object) -> HttpResponse:
    document = problems.document(kind, detail, request.path_info, errors, extensions)
    response = JsonResponse(document, status=kind.status, content_type=problems.MEDIA_TYPE)
    if kind.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="SpeedTrack"'
    if kind.status == 503 or kind == problems.BUSY_KEY:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


# By what the rooms below raise: the fields of a body that may be at fault; it is the first one that the body states.
FIELDS: dict[type[Exception], tuple[str, ...]] = {
    NoSuchMachine: ("machine",),
    NoSuchBenchmark: ("benchmarks",),
    NoSuchBranch: ("branch",),
    UnusableName: ("name",),
    NoSuchThing: ("range", "commits", "branch"),
    DefinitionError: ("suite",),
    UnusablePatch: ("diff",),
    RepositoryError: ("repository", "range", "commits", "branch", "head", "base"),
}


def refusing(kind: Problem) -> Handler:
    return lambda request, error: refuse(
        request, kind, without_paths(f"{str(error)[:1].upper()}{str(error)[1:]}."), errors_of(request, error, kind)
    )


def without_paths(sentence: str) -> str:
    """A sentence for programs: where this server keeps its files is for its operators only."""
    for path in (settings.MIRRORS, settings.HOME):
        sentence = sentence.replace(f"{path}", "[the server's directory]")
    return sentence


def errors_of(request: HttpRequest, error: Exception, kind: Problem) -> Errors:
    """The field of the body that is at fault in an invalid request; empty if that is not known."""
    if kind != problems.INVALID:
        return []
    if isinstance(error, BadInput):
        return Invalid(str(error), field=error.field).errors
    try:
        body = json.loads(request.body)
    except ValueError:
        return []
    names = next((FIELDS[error_class] for error_class in type(error).__mro__ if error_class in FIELDS), ())
    stated = [name for name in names if isinstance(body, dict) and body.get(name) is not None]
    return [{"pointer": f"/{name}", "detail": without_paths(str(error))} for name in stated[:1]]


def add_handlers(api: NinjaAPI) -> None:
    for kind, problem in KINDS.items():
        api.add_exception_handler(kind, refusing(problem))
    for error, handler in HANDLERS.items():
        api.add_exception_handler(error, handler)


def refuse_missing(request: HttpRequest, error: Exception) -> HttpResponse:
    detail = str(error) if error.args and isinstance(error.args[0], str) else "There is nothing at this address."
    return refuse(request, problems.NOT_FOUND, detail)


def refuse_invalid(request: HttpRequest, error: Invalid) -> HttpResponse:
    return refuse(request, problems.INVALID, f"{error}.", error.errors)


def refuse_results(request: HttpRequest, error: NoneTaken) -> HttpResponse:
    return refuse(request, problems.REFUSED_RESULTS, f"{error}.", error.errors, refused_count=error.count)


def refuse_document(request: HttpRequest, error: ValidationError) -> HttpResponse:
    """The answer 422 with every parameter and field at fault, and what is expected there."""
    errors = [{**place_of(fault["loc"]), "detail": str(fault["msg"])} for fault in error.errors[:MOST_ERRORS]]
    sentence = "; ".join(
        f"{fault.get('parameter') or fault.get('pointer') or 'body'}: {fault['detail']}" for fault in errors
    )
    return refuse(request, problems.INVALID, f"{sentence}.", errors)


def place_of(location: tuple[str | int, ...]) -> dict[str, str]:
    """Where pydantic's error is: a parameter, or a JSON pointer (RFC 6901) into the body.

    In the location of an error in the body, the argument's name is second.
    """
    where, *keys = location
    if where != "body":
        return {"parameter": str(keys[-1]) if keys else str(where)}
    steps = [str(key).replace("~", "~0").replace("/", "~1") for key in keys[1:]]
    return {"pointer": "".join(f"/{step}" for step in steps)}


def refuse_unreadable(request: HttpRequest, error: HttpError) -> HttpResponse:
    """The answer to what django-ninja raises for a body that is not JSON."""
    kind = problems.of_status(error.status_code)
    if error.status_code == 400:
        return refuse(request, kind, "The body is not JSON in UTF-8.", [{"pointer": "", "detail": "no JSON"}])
    return refuse(request, kind, f"{error}.")


def refuse_stranger(request: HttpRequest, error: Exception) -> HttpResponse:
    return refuse(request, problems.UNKNOWN_TOKEN, "This needs a token: send `Authorization: Bearer stpt_...`.")


HANDLERS: dict[type[Exception], Handler] = {
    Http404: refuse_missing,
    Invalid: refuse_invalid,
    NoneTaken: refuse_results,
    ValidationError: refuse_document,
    HttpError: refuse_unreadable,
    AuthenticationError: refuse_stranger,
}
