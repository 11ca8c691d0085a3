"""``/api/v1/openapi.json``, and the page made from it."""

from functools import cache

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.utils.html import format_html_join
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe
from pydantic_core import to_json

from speedtrack.accounts import access
from speedtrack.api.v1.api import api
from speedtrack.api.v1.published.reference import ApiReference, Schema, reference_of
from speedtrack.http import problems

LINE = "\N{OBJECT REPLACEMENT CHARACTER}"  # in the article, instead of the line for curl of each operation


@cache
def schema() -> Schema:
    return dict(api.get_openapi_schema(path_prefix=problems.API))


@require_safe
def openapi(request: HttpRequest) -> HttpResponse:
    return HttpResponse(to_json(schema()), content_type="application/json")


@cache
def reference() -> ApiReference:
    return reference_of(schema())


@cache
def article() -> list[str]:
    """The parts of the page before, between and behind its lines for curl: all else is the same for everyone."""
    context = {"page": reference(), "problems": problems.KINDS, "info": schema()["info"], "line": LINE}
    return render_to_string("web/api_article.html", context).strip().split(LINE)


@require_safe
def docs(request: HttpRequest) -> HttpResponse:
    first, *further = map(SafeString, article())
    pieces = zip(reference().lines(access.person(request.user)), further, strict=True)
    return render(request, "web/api.html", {"article": first + format_html_join("", "{}{}", pieces)})
