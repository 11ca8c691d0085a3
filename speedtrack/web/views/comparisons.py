"""Comparing two commits, measuring them again, and latencies: read the address, call one verb, render the page."""

from functools import partial

from django.contrib import messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.accounts.access import Refused
from speedtrack.alerts.triage import measuring
from speedtrack.alerts.triage.measuring import NotMeasurable
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.operations import runs
from speedtrack.operations.performing import Actor, Done
from speedtrack.reports.readings.sides import BothSides, ComparedSide
from speedtrack.runs.models import Run
from speedtrack.runs.queue import estimates
from speedtrack.runs.scheduling import standing
from speedtrack.web import scope
from speedtrack.web.pages import latency as latency_page
from speedtrack.web.pages.compare import document
from speedtrack.web.pages.compare import page as compare_page
from speedtrack.web.pages.running import duels, tries
from speedtrack.web.requests.formats import format_or_404, values_response
from speedtrack.web.requests.operating import actor_of, perform
from speedtrack.web.requests.permissions import access_of

SUMMARY_ROWS = 12


@require_safe
def compare(request: HttpRequest, slug: str) -> HttpResponse:
    if "base_of" in request.GET:
        return redirect(f"{request.path}?{compare_page.without_former_base(request.GET).urlencode()}")
    access = access_of(request)
    if request.GET.get("part") == "summary":
        page = compare_page.load_rows(slug, request.GET, access, SUMMARY_ROWS)
        return render(request, "web/compare_summary.html", {"page": page, "project": page.project})
    if request.GET.get("part") == "rows":
        return render(request, "web/compare_rows.html", {"page": compare_page.load_rows(slug, request.GET, access)})
    page = compare_page.load(slug, request.GET, access)
    duel = duels.duel_among(page.between.runs, access)
    return render(request, "web/compare.html", {"page": page, "project": page.project, "duel": duel})


@require_safe
def compare_values(request: HttpRequest, slug: str, form: str) -> HttpResponseBase:
    """The same as JSON or CSV."""
    format_or_404(form, "a comparison")
    comparison = document.compare_document(compare_page.load_rows(slug, request.GET, access_of(request)))
    return values_response(form, f"{slug}-compare", comparison.named, partial(document.csv_rows, comparison))


@require_http_methods(["GET", "HEAD", "POST"])
def compare_measure(request: HttpRequest, slug: str) -> HttpResponse:
    """Queue what the page offers: pairs of both sides, or a side that was not measured. GET: back to the page."""
    if request.method == "POST":
        try:
            for result in asked_for(request, slug):
                messages.success(request, sentence_of(result))
        except (NotMeasurable, DefinitionError, Refused) as e:
            messages.error(request, f"Nothing was queued: {e}.")
    return redirect(f"{reverse('compare', args=[slug])}?{request.GET.urlencode()}")


def asked_for(request: HttpRequest, slug: str) -> list[Done]:
    actor, sides = actor_of(request), compare_page.sides_asked(slug, request.GET, access_of(request))
    if sides is None:
        raise NotMeasurable("there is nothing to compare yet")
    each: dict[str, ComparedSide] = {"base": sides.base, "head": sides.head}
    choice = request.POST.get("what", "")
    if choice in each or choice == "each":
        return measure_each(actor, sides) if choice == "each" else [measure_side(actor, each[choice])]
    if sides.head.machine is None or sides.base.project != sides.head.project or sides.base.commit == sides.head.commit:
        raise NotMeasurable("pairs need two commits of one project, and a machine that has measured the head")
    names = request.POST.getlist("benchmark")
    ask = partial(measuring.measure_pair, sides.base.commit, sides.head.commit, sides.head.machine.pk, names)
    return [runs.measure_again(actor, sides.head.project, ask)]


@transaction.atomic
def measure_each(actor: Actor, sides: BothSides) -> list[Done]:
    """Queue a run of each side, of two projects, on a machine that measures both."""
    machine = compare_page.shared_machine(sides)
    if machine is None:
        raise NotMeasurable("no machine measures both projects")
    return [measure_side(actor, side, machine.pk) for side in (sides.base, sides.head)]


def measure_side(actor: Actor, side: ComparedSide, machine_id: int | None = None) -> Done:
    return runs.measure_again(actor, side.project, partial(measuring.measure_commit, side.commit, machine_id))


def sentence_of(result: Done) -> str:
    """A sentence: the queued runs, and about when they will be done."""
    run: Run = result.row
    opening = f"{result.sentence[:1].upper()}{result.sentence[1:]}"
    stands = standing.of_machine(run.machine)
    if not stands.may_be_estimated:
        return f"{opening}. {stands.sentence}"
    expected = estimates.expected_times(run)
    if expected is None or expected.ends_at is None:
        ahead = expected.ahead if expected else 0
        return f"{opening}, with {ahead} run{'' if ahead == 1 else 's'} before it."
    left_s = (expected.ends_at - timezone.now()).total_seconds()
    return f"{opening}. It will be done in about {numbers.duration(left_s)}, at {expected.ends_at:%H:%M} UTC."


@require_http_methods(["GET", "HEAD", "POST"])
def list_tries(request: HttpRequest, slug: str) -> HttpResponse:
    """Measure a patch or a branch in pairs, or show what that would queue. The form keeps the entered values."""
    project = scope.project_or_404(slug)
    form = tries.TryForm(project, request.POST or None, request.GET.dict())
    if form.is_valid():
        order = form.asked()
        verb = runs.try_patch if order.patch else runs.compare
        result = perform(request, verb, project, order, otherwise="Nothing was queued")
        if result:
            return redirect("try", slug=slug, number=result.row.pk)
    context = {"project": project, "form": form, "tries": tries.newest(project)}
    return render(request, "web/tries.html", context)


@require_safe
def show_try(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    project = scope.project_or_404(slug)
    page = tries.load(project, number, access_of(request))
    template = "web/try_live.html" if request.GET.get("part") == "live" else "web/try.html"
    return render(request, template, {"page": page, "project": project})


@require_POST
def approve_try(request: HttpRequest, slug: str, number: int) -> HttpResponse:
    """Let the machines build and measure the patch that the page showed, or say what that would queue."""
    comparison = tries.try_or_404(scope.project_or_404(slug), number)
    perform(request, runs.approve_comparison, comparison, request.POST.get("head", "")[:64], otherwise="Not approved")
    return redirect("try", slug=slug, number=number)


@require_safe
def latency_values(request: HttpRequest, slug: str, benchmark: str, form: str) -> HttpResponseBase:
    format_or_404(form, "latencies")
    page = latency_page.load(slug, benchmark, request.GET)
    document_of, rows = partial(latency_page.latency_document, page), partial(latency_page.csv_rows, page)
    return values_response(form, f"{slug}-{page.benchmark.name}-latency", document_of, rows)


@require_safe
def latency(request: HttpRequest, slug: str, benchmark: str) -> HttpResponse:
    page = latency_page.load(slug, benchmark, request.GET)
    context = {"page": page, "scope": page.scope, "project": page.scope.project, "ranges": latency_page.RANGES}
    return render(request, "web/latency.html", context)
