"""What is common to all operations, and how OpenAPI describes it."""

from typing import Any

from django.http import HttpRequest
from ninja.renderers import BaseRenderer
from pydantic_core import to_json

from speedtrack.api.described import DescribedAPI
from speedtrack.api.v1.serving.callers import AnyCaller
from speedtrack.api.v1.serving.refusals import add_handlers
from speedtrack.http import problems
from speedtrack.reports.problem import ProblemDocument

DESCRIPTION = """\
Everything that the pages show, for programs. Public projects are read by everybody; private ones, and what changes
something, need a token of yours (`Authorization: Bearer stpt_...`). Lists come in pages (`limit`, `next`). Times are
RFC 3339 in UTC; units are in names or beside values. Refusals are problem documents (RFC 9457). Version 1 only grows:
programs ignore fields that they do not know.
"""


class Renderer(BaseRenderer):
    """Writes JSON with pydantic's serializer: times as RFC 3339, numbers that JSON does not have as null."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return to_json(data, inf_nan_mode="null")


class Service(DescribedAPI):
    """The API. Reading what is public needs no token, and may be answered with 304."""

    refusal = ProblemDocument
    refusal_type = problems.MEDIA_TYPE
    every = (400, 401, 403, 404, 405, 422, 429, 503)
    of_writes = (409, 411, 413, 415)

    def describe(self, method: str, operation: dict[str, Any]) -> None:
        if method == "get":
            operation["responses"][304] = {"description": "Not modified: the version in If-None-Match is current"}
            operation["security"] = [{}, *operation["security"]]
        super().describe(method, operation)


def make_service(version: str) -> Service:
    service = Service(
        title="SpeedTrack API",
        version=version,
        description=DESCRIPTION,
        urls_namespace="api",
        auth=AnyCaller(),
        renderer=Renderer(),
        docs_url=None,
        openapi_url=None,
    )
    add_handlers(service)
    return service
