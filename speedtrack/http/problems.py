"""Refusals of the API as documents of RFC 9457, ``application/problem+json``: one kind per remedy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

API = "/api/v1/"
MEDIA_TYPE = "application/problem+json"


@dataclass(frozen=True)
class Problem:
    """A kind of refusal. ``meaning``: its meaning for a program's author, with the remedy."""

    name: str
    status: int
    title: str
    meaning: str

    @property
    def type(self) -> str:
        return f"{API}docs#problem-{self.name}"


UNREADABLE = Problem("unreadable", 400, "Unreadable request", "The request is not valid HTTP, UTF-8 or JSON.")
UNKNOWN_TOKEN = Problem("unknown-token", 401, "Unknown token", "Send `Authorization: Bearer stpt_...` with your token.")
FORBIDDEN = Problem("forbidden", 403, "Not allowed", "The token's scopes, or its owner's role, do not allow this.")
NOT_FOUND = Problem("not-found", 404, "Not found", "It does not exist, or its project is private to others.")
WRONG_METHOD = Problem("wrong-method", 405, "Method not allowed", "The header Allow lists what the address accepts.")
CONFLICT = Problem("conflict", 409, "Conflict", "The request assumes another state than the present one: read that.")
BUSY_KEY = Problem(
    "busy-key",
    409,
    "Still at work",
    "A request with this Idempotency-Key is under way: ask again after Retry-After.",
)
WITHOUT_LENGTH = Problem("without-length", 411, "Length required", "Send the body in one piece, with Content-Length.")
TOO_LARGE = Problem("too-large", 413, "Too large", "Send less at once; the detail has the limit.")
WRONG_TYPE = Problem("wrong-media-type", 415, "Wrong media type", "Send `Content-Type: application/json`.")
INVALID = Problem("invalid", 422, "Invalid request", "`errors` names each parameter or field at fault.")
REFUSED_RESULTS = Problem(
    "refused-results",
    422,
    "No result was taken",
    "`errors` has the faults, each of one result or several, `refused_count` the results.",
)
USED_KEY = Problem("used-key", 422, "Used key", "This Idempotency-Key came with another request: make a new one.")
TOO_MANY = Problem("too-many", 429, "Too many requests", "Wait for the seconds in the header Retry-After.")
FAILED = Problem("failed", 500, "Server error", "A defect of SpeedTrack: the server's log has the traceback.")
AWAY = Problem("away", 503, "Temporarily unavailable", "Ask again after the seconds in Retry-After.")

KINDS = (
    *(UNREADABLE, UNKNOWN_TOKEN, FORBIDDEN, NOT_FOUND, WRONG_METHOD, CONFLICT, BUSY_KEY, WITHOUT_LENGTH, TOO_LARGE),
    *(WRONG_TYPE, INVALID, REFUSED_RESULTS, USED_KEY, TOO_MANY, FAILED, AWAY),
)
BY_STATUS = {kind.status: kind for kind in reversed(KINDS)}  # the first one of equal kinds is the general one


def is_api(path: str) -> bool:
    """Return whether refusals at this path are problem documents."""
    return path.startswith(API)


def document(
    kind: Problem,
    detail: str,
    instance: str,
    errors: Sequence[Mapping[str, str]] = (),
    extensions: Mapping[str, object] = MappingProxyType({}),
) -> dict[str, object]:
    """``errors``: for each field at fault its ``pointer`` in the body, or the name of its ``parameter``; ``detail``.

    ``extensions``: further members, which this kind alone has.
    """
    problem: dict[str, object] = {"type": kind.type, "title": kind.title, "status": kind.status, "detail": detail}
    problem["instance"] = instance
    return problem | ({"errors": list(errors)} if errors else {}) | dict(extensions)


def of_status(status: int) -> Problem:
    """The kind of a refusal from elsewhere."""
    return BY_STATUS.get(status) or Problem("other", status, "Refused", "The detail says why.")
