"""The service: what is common to all operations, and how OpenAPI describes it."""

from typing import Any

from django.http import HttpRequest
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.renderers import BaseRenderer
from pydantic_core import to_json

from speedtrack import problems
from speedtrack.api.v1.documents.problem import ProblemDocument
from speedtrack.api.v1.serving.callers import AnyCaller
from speedtrack.api.v1.serving.refusals import add_handlers

#: refusals that each operation may answer; those that write also the second ones
REFUSALS = (400, 401, 403, 404, 405, 422, 429, 503)
REFUSALS_OF_WRITES = (409, 413, 415)
DESCRIPTION = """\
Everything that the pages show, for programs. Public projects are read by everybody; private ones, and what changes
something, need a token of yours (`Authorization: Bearer stpt_...`). Lists come in pages (`limit`, `next`). Times are
RFC 3339 in UTC; units are in names or beside values. Refusals are problem documents (RFC 9457). Version 1 only grows:
programs ignore fields that they do not know.
"""


class Renderer(BaseRenderer):
    """JSON by pydantic's serializer: times as RFC 3339, numbers that JSON lacks as null."""

    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return to_json(data, inf_nan_mode="null")


class Service(NinjaAPI):
    """An API whose OpenAPI also says how it refuses."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        """The name of its function, which is unique: names of modules may change."""
        return operation.view_func.__name__

    def get_openapi_schema(self, *, path_prefix: str | None = None, path_params: Any = None) -> OpenAPISchema:
        schema = super().get_openapi_schema(path_prefix=path_prefix, path_params=path_params)
        schemas = schema["components"]["schemas"]
        described = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(described.pop("$defs", {}))
        schemas["ProblemDocument"] = described
        for operations in schema["paths"].values():
            for method, operation in operations.items():
                describe_refusals(method, operation)
        return schema


def describe_refusals(method: str, operation: dict[str, Any]) -> None:
    """Add the refusals to the answers of an operation, in the order of their statuses."""
    answers = operation["responses"]
    for status in REFUSALS + (() if method == "get" else REFUSALS_OF_WRITES):
        content = {problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}}
        answers.setdefault(status, {"description": problems.of_status(status).title, "content": content})
    if method == "get":
        answers[304] = {"description": "Not modified: the version in If-None-Match is current"}
    operation["responses"] = {str(status): answers[status] for status in sorted(answers)}


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
