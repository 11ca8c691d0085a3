"""The timeline: its page, the same as JSON, CSV and SVG, and the search for lines to add to it."""

from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import urlencode
from django.views.decorators.http import condition, require_safe

from speedtrack.ground.texts.text import plain_values
from speedtrack.reports.why import why_document
from speedtrack.web import scope
from speedtrack.web.drawing.charts.timelines import timeline_svg
from speedtrack.web.pages.timeline import dates
from speedtrack.web.pages.timeline import page as timeline_page
from speedtrack.web.pages.timeline import table as timeline_table
from speedtrack.web.pages.timeline.document import chart_values, timeline_document, timeline_json
from speedtrack.web.pages.timeline.legend import legend_of
from speedtrack.web.pages.timeline.names import LineName, suggestions
from speedtrack.web.pages.timeline.overlay import Overlay, overlay_of
from speedtrack.web.pages.timeline.points import Gaps, ShownChange, changes_on, gaps_in
from speedtrack.web.pages.timeline.table import csv_lines
from speedtrack.web.pages.timeline.version import etag_of
from speedtrack.web.pages.timeline.view import RANGES, lines_of, newest_position, position_of, view_of
from speedtrack.web.requests.formats import csv_file, format_or_404, plain_response
from speedtrack.web.requests.permissions import access_of

WIDTH, HEIGHT = 1000, 420  # of an SVG
SMALLEST, LARGEST = 240, 4000


@require_safe
def timeline(request: HttpRequest, slug: str, benchmark: str, metric: str) -> HttpResponse:
    if dates.names_dates(request.GET):
        return redirect(f"{request.path}?{dates.with_commits(slug, metric, request.GET).urlencode()}")
    overlay = overlay_of(view_of(slug, benchmark, metric, request.GET), request.GET, access_of(request))
    if request.GET.get("part") == "values":
        return render(request, "web/timeline_values.html", {"page": timeline_table.load(overlay)})
    view = overlay.view
    page = timeline_page.load(view, request.GET.get("why", ""))
    context = {
        "page": page,
        "view": view,
        "overlay": overlay,
        "legend": legend_of(overlay, request.GET),
        "scope": view.scope,
        "project": view.scope.project,
        "ranges": RANGES,
        "last": request.GET.get("last", ""),
        "zoomed": any(key in request.GET for key in ("from", "to", "around")),
        "kept": kept_fields(request, "why"),
        "kept_lines": kept_fields(request, "branch", "machine", "last", "from", "to", "around", "part", "why"),
        "kept_ends": kept_fields(request, "last", "around", "part", "why"),
        "kept_all": kept_fields(request, "part", "why"),
        "offers": f"{reverse('lines', args=[slug])}?{urlencode(near(overlay))}",
    }
    return render(request, "web/timeline.html", context)


def near(overlay: Overlay) -> dict[str, str]:
    """The parameters that the search for lines starts with: the names of the page's own line."""
    view = overlay.view
    machine = next(iter(view.machine_names), "")
    return {
        "benchmark": view.benchmark,
        "metric": view.scope.metric.name,
        "machine": machine,
        "branch": view.branch.name,
    }


def kept_fields(request: HttpRequest, *without: str) -> list[tuple[str, str]]:
    """The (name, value) that a form has to send besides its own fields."""
    return [(key, value) for key, values in request.GET.lists() if key not in without for value in values]


@require_safe
def timeline_values(request: HttpRequest, slug: str, benchmark: str, metric: str, form: str) -> HttpResponseBase:
    """A timeline as JSON, CSV or SVG."""
    format_or_404(form, "a timeline", ("json", "csv", "svg"))
    overlay = overlay_of(view_of(slug, benchmark, metric, request.GET), request.GET, access_of(request))
    # Trials may be deleted without a trace in what the version is made of.
    gaps, changes = gaps_in(overlay), changes_on(overlay)
    etag = None if "trials" in request.GET else etag_of(overlay, gaps, changes, f"{form} {request.GET.urlencode()}")
    answer = {"json": json_answer, "csv": csv_answer, "svg": svg_answer}[form]
    response: HttpResponseBase = condition(lambda _: etag)(lambda request: answer(request, overlay, gaps, changes))(
        request
    )
    response.headers["Cache-Control"] = "no-cache"  # to be kept, and used once the server has said that it is current
    return response


def json_answer(request: HttpRequest, overlay: Overlay, gaps: Gaps, changes: list[ShownChange]) -> HttpResponse:
    all_points, trials = request.GET.get("points") == "all", request.GET.get("trials") == "1"
    document = timeline_document(overlay, gaps, changes, all_points, trials)
    return HttpResponse(timeline_json(document), content_type="application/json")


def csv_answer(request: HttpRequest, overlay: Overlay, gaps: Gaps, changes: list[ShownChange]) -> HttpResponseBase:
    return csv_file(file_name(overlay), csv_lines(overlay, gaps, changes))


def svg_answer(request: HttpRequest, overlay: Overlay, gaps: Gaps, changes: list[ShownChange]) -> HttpResponse:
    document = chart_values(timeline_document(overlay, gaps, changes, trials=request.GET.get("trials") == "1"))
    width, height = size_of(request, "width", WIDTH), size_of(request, "height", HEIGHT)
    theme = "dark" if request.GET.get("theme") == "dark" else "light"
    response = HttpResponse(timeline_svg(document, width, height, theme), content_type="image/svg+xml; charset=utf-8")
    response.headers["Content-Disposition"] = f'inline; filename="{file_name(overlay)}.svg"'
    return response


def file_name(overlay: Overlay) -> str:
    view = overlay.view
    return f"{view.scope.project.slug}-{view.benchmark}-{view.scope.metric.name}"


def size_of(request: HttpRequest, key: str, default: int) -> int:
    """A size in pixels from the query, within its limits."""
    text = request.GET.get(key, "")
    return min(max(int(text), SMALLEST), LARGEST) if text.isascii() and text.isdigit() and len(text) < 8 else default


@require_safe
def timeline_why(request: HttpRequest, slug: str, benchmark: str, metric: str) -> HttpResponse:
    """Why a commit of a line raised no suspicion, or why it did; without ``commit`` the newest that was measured."""
    view, sha = lines_of(slug, benchmark, metric, request.GET), request.GET.get("commit")
    machine = view.series[-1].machine_id if view.series else None
    series = [row for row in view.series if row.machine_id == machine]
    number = newest_position(view.branch, series) if sha is None else position_of(view.branch, sha)
    document = why_document(series, view.branch, number)
    if document is None:
        raise Http404("This line has no point at the commit or after it.")
    return plain_response(document.named())


@require_safe
def lines(request: HttpRequest, slug: str) -> HttpResponse:
    """The lines that a search field offers: those whose names contain the words of ``q``."""
    project = scope.project_or_404(slug)
    fields = (request.GET.get(key, "") for key in ("benchmark", "metric", "machine", "branch"))
    offers = suggestions(LineName(project.slug, *fields), request.GET.get("q", ""), access_of(request))
    return JsonResponse({"lines": plain_values([vars(offer) for offer in offers])})
