"""Edit suites, which are checked as they are typed."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.benchmarks import suiteedits
from speedtrack.benchmarks.suitefiles import parse_suite, text_of
from speedtrack.operations import suites
from speedtrack.web.pages.settings import suite_editor
from speedtrack.web.pages.settings.suite_editor import SuitePage
from speedtrack.web.requests.operating import perform

BEGINNING = """\
# A new suite. docs/suites.md has all keys.
name = ""
trials = 5

[build]
command = "make -j{cores}"
artifacts = ["src/server"]

[server]
command = "{artifact:server} --port {port} --unixsocket {socket}"
protocol = "resp"

[[benchmark]]
name = "get-p1"
why = "the plain read path"
workload = { test = "get", keys = { count = 100_000 }, values = { bytes = 32 }, prefill = true }
"""


@require_safe
def list_suites(request: HttpRequest) -> HttpResponse:
    return render(request, "web/suites.html", {"suites": suite_editor.load_list()})


@require_http_methods(["GET", "HEAD", "POST"])
def edit_suite(request: HttpRequest, name: str) -> HttpResponse:
    if request.method != "POST":
        return editor(request, suite_editor.load(name))
    text = entered_text(request)
    page = suite_editor.load(name, text, request.POST.get("seen", ""))
    if "save" not in request.POST:
        return editor(request, page)
    assert page.check
    if page.check.ended and request.POST.get("agreed") != page.check.digest:
        messages.error(request, "Not saved yet: see below which lines are not continued, and tick that you agree.")
        return editor(request, page)
    return save(request, page)


@require_http_methods(["GET", "HEAD", "POST"])
def new_suite(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        model = request.GET.get("from")
        return editor(request, suite_editor.load_new((text_of(model) if model else None) or BEGINNING, False))
    page = suite_editor.load_new(entered_text(request))
    return save(request, page) if "save" in request.POST else editor(request, page)


def save(request: HttpRequest, page: SuitePage) -> HttpResponse:
    """Save what the page shows, unless it has mistakes or is out of date; then show it again."""
    if page.check is None or page.check.mistakes:
        messages.error(request, "Not saved: the mistakes are listed below.")
        return editor(request, page)
    name = page.name or parse_suite(page.text, "").name
    version = page.seen or suiteedits.version_of(name)
    if perform(request, suites.save, name, page.text, version, otherwise="Not saved"):
        return redirect("suite", name=name)
    return editor(request, page)


def editor(request: HttpRequest, page: SuitePage) -> HttpResponse:
    return render(request, "web/suite.html", {"page": page, "check": page.check})


def entered_text(request: HttpRequest) -> str:
    """The text of the form, in which browsers end lines with CR LF."""
    return request.POST.get("text", "").replace("\r\n", "\n")


@require_POST
def check_suite(request: HttpRequest) -> HttpResponse:
    """A part of a page: the mistakes of a text, or what saving it changes.

    ``name``: of the suite; empty if it is new.
    """
    check = suite_editor.check(request.POST.get("name", ""), entered_text(request))
    return render(request, "web/suite_check.html", {"check": check})


@require_safe
def suite_version(request: HttpRequest, name: str, number: int) -> HttpResponse:
    return render(request, "web/suite_version.html", {"edit": suite_editor.version_or_404(name, number)})


@require_POST
def restore_version(request: HttpRequest, name: str, number: int) -> HttpResponse:
    """Show an earlier version in the editor: it is saved as a new one once its effects were seen."""
    edit = suite_editor.version_or_404(name, number)
    return editor(request, suite_editor.load(name, edit.text or ""))


@require_POST
def return_to_file(request: HttpRequest, name: str) -> HttpResponse:
    perform(request, suites.return_to_file, name, request.POST.get("seen", ""))
    return redirect("suite", name=name)
