"""``/api/v1/openapi.json``, and the page made from it."""

from functools import cache

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from pydantic_core import to_json

from speedtrack.accounts import access
from speedtrack.api.v1.api import api
from speedtrack.api.v1.published.reference import Schema, reference_of
from speedtrack.http import problems


@cache
def schema() -> Schema:
    return dict(api.get_openapi_schema(path_prefix=problems.API))


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    return HttpResponse(to_json(schema()), content_type="application/json")


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    reference = reference_of(schema(), access.person(request.user))
    return render(request, "web/api.html", {"page": reference, "problems": problems.KINDS, "info": schema()["info"]})
