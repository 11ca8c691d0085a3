"""What other sites show: badges, embedded charts, and the pictures of links."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.clickjacking import xframe_options_exempt
from django.views.decorators.http import require_safe

from speedtrack.web import scope
from speedtrack.web.drawing.small.badges import badge_svg
from speedtrack.web.drawing.small.cards import LinkPicture, card_png
from speedtrack.web.pages.sharing import badges as badges_page
from speedtrack.web.pages.sharing import cards as cards_page
from speedtrack.web.pages.sharing import embeds as embeds_page
from speedtrack.web.pages.timeline.view import view_of
from speedtrack.web.requests.formats import format_or_404
from speedtrack.web.requests.permissions import access_of

BADGE_S, PICTURE_S = 300, 3600  # for so long others may keep it
#: That of a page that any page may frame; there is nothing in it to click but one link.
FRAMED_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors *"
)


def cacheable(response: HttpResponse, seconds: int) -> HttpResponse:
    response.headers["Cache-Control"] = f"public, max-age={seconds}"
    return response


@require_safe
def badge(request: HttpRequest, slug: str, form: str) -> HttpResponse:
    """A badge as SVG, or as JSON for the endpoint of shields.io."""
    format_or_404(form, "a badge", ("svg", "json"))
    content = badges_page.load(scope.project_or_404(slug), request.GET.get("show", "alerts"))
    if form == "json":
        return cacheable(JsonResponse(badges_page.shields_document(content)), BADGE_S)
    svg = badge_svg(content.label, content.message, content.look)
    return cacheable(HttpResponse(svg, content_type="image/svg+xml"), BADGE_S)


@require_safe
@xframe_options_exempt
def embed(request: HttpRequest, slug: str, benchmark: str, metric: str) -> HttpResponse:
    """A timeline's chart for embedding in other sites: an image that links to the timeline."""
    view = view_of(slug, benchmark, metric, request.GET)
    response = render(request, "web/embed.html", {"page": embeds_page.load(view, request.GET)})
    response.headers["Content-Security-Policy"] = FRAMED_POLICY
    return cacheable(response, BADGE_S)


@require_safe
def timeline_card(request: HttpRequest, slug: str, benchmark: str, metric: str) -> HttpResponse:
    return picture(cards_page.timeline_card(slug, benchmark, metric, request.GET))


@require_safe
def alert_card(request: HttpRequest, pk: int) -> HttpResponse:
    return picture(cards_page.alert_card(pk))


@require_safe
def project_card(request: HttpRequest, slug: str) -> HttpResponse:
    return picture(cards_page.project_card(slug))


@require_safe
def compare_card(request: HttpRequest, slug: str) -> HttpResponse:
    return picture(cards_page.compare_card(slug, request.GET, access_of(request)))


def picture(card: LinkPicture) -> HttpResponse:
    return cacheable(HttpResponse(card_png(card), content_type="image/png"), PICTURE_S)
