"""What it would take to see smaller changes of a line: its page, the same as JSON, and one press into the suite."""

import math
from dataclasses import dataclass

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from speedtrack.alerts.lines.sensitivity import default_among
from speedtrack.alerts.lines.takes import Takes, takes_of
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.operations import suites
from speedtrack.reports.evidence import TakeDocument, TakesDocument
from speedtrack.runs.models import Series
from speedtrack.web.pages.timeline.view import lines_of
from speedtrack.web.requests.formats import plain_response
from speedtrack.web.requests.operating import perform
from speedtrack.web.scope import PageScope, head_of


@require_http_methods(["GET", "HEAD", "POST"])
def takes(request: HttpRequest, slug: str, benchmark: str, metric: str) -> HttpResponse:
    series, scope = series_or_404(request, slug, benchmark, metric)
    if request.method == "POST":
        trials = request.POST.get("trials", "")
        number = int(trials) if trials.isascii() and trials.isdigit() and len(trials) < 8 else 0
        inputs = series.project.suite, number, request.POST.get("seen", "")
        perform(request, suites.set_trials, *inputs, otherwise="Not saved")
        return redirect(request.get_full_path())
    reading = reading_of(series, scope)
    document = TakesDocument.of(reading) if reading else None
    context = {"project": series.project, "series": series, "metric": METRICS[metric], "takes": document}
    if reading and document and document.takes:
        context["slider"] = Slider.of(document, request.GET.get("see", ""))
        context["seen"] = reading.version
    return render(request, "web/takes.html", context)


@require_safe
def takes_values(request: HttpRequest, slug: str, benchmark: str, metric: str) -> HttpResponse:
    reading = reading_of(*series_or_404(request, slug, benchmark, metric))
    if reading is None:
        raise Http404("What smaller changes would take is not known of this line.")
    return plain_response(TakesDocument.of(reading).named())


def series_or_404(request: HttpRequest, slug: str, benchmark: str, metric: str) -> tuple[Series, PageScope]:
    """The newest series of the line on the machine that is asked for, else on the last one."""
    view = lines_of(slug, benchmark, metric, request.GET)
    if not view.series:
        raise Http404(f"{benchmark} has no values of this metric here.")
    series = view.series[-1]
    series.project = view.scope.project
    return series, view.scope


@dataclass(frozen=True)
class Slider:
    """The slider that selects a change, in percent; ``chosen`` is selected now."""

    least: float
    most: float
    step: float
    chosen: TakeDocument

    @classmethod
    def of(cls, document: TakesDocument, percent: str) -> "Slider":
        """It stands at the change nearest to so many percent; without a number, at half of the smallest visible one."""
        sizes = [take.see for take in document.takes]
        try:
            target = float(percent) / 100
        except ValueError:
            target = math.nan
        target = target if math.isfinite(target) else document.smallest / 2
        nearest = min(document.takes, key=lambda take: abs(take.see - target))
        step = sizes[0] - sizes[1] if len(sizes) > 1 else 1.0
        least, most, step = (round(100 * number, 4) for number in (sizes[-1], sizes[0], step))
        return cls(least, most, step, nearest)

    @property
    def value(self) -> float:
        return round(100 * self.chosen.see, 4)


def reading_of(series: Series, scope: PageScope) -> Takes | None:
    branch = default_among(scope.branches)
    return takes_of(series, branch, head_of(branch)) if branch else None
