"""Annotate commits and moments."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from speedtrack.ground.texts.markdown import plain_of
from speedtrack.ground.texts.text import plain_values
from speedtrack.operations import triage
from speedtrack.operations.performing import BadInput
from speedtrack.operations.refusals import REFUSED
from speedtrack.projects.models import Annotation
from speedtrack.web import scope
from speedtrack.web.pages.alerting import annotations as page
from speedtrack.web.pages.alerting.annotations import AnnotationForm
from speedtrack.web.pages.timeline.points import shortened
from speedtrack.web.requests.operating import actor_of, perform
from speedtrack.web.requests.permissions import permit_of


@require_http_methods(["GET", "HEAD", "POST"])
def annotations(request: HttpRequest, slug: str | None = None) -> HttpResponse:
    """The annotations of a project, or those that concern all; a POST adds one."""
    if request.method == "POST":
        return add_note(request, slug) if request.GET.get("part") == "note" else add_annotation(request, slug)
    project = scope.project_or_404(slug) if slug else None
    form = AnnotationForm(project, None, {"place": request.GET.get("at", "")}, permit_of(request).operate)
    return render(request, "web/annotations.html", {"project": project, "page": page.load(project), "form": form})


def add_annotation(request: HttpRequest, slug: str | None) -> HttpResponse:
    project = scope.project_or_404(slug) if slug else None
    form = AnnotationForm(project, request.POST, {}, permit_of(request).operate)
    if form.is_valid():
        where = None if form.cleaned_data.get("everywhere") else project
        if result := perform(request, triage.annotate, where, **form.inputs()):
            return go_back(result.row)
    return render(request, "web/annotations.html", {"project": project, "page": page.load(project), "form": form})


def add_note(request: HttpRequest, slug: str | None) -> JsonResponse:
    """Add what was written on a timeline. The answer is the note as the timeline's document has it, or the problem."""
    project = scope.project_or_404(slug) if slug else None
    form = AnnotationForm(project, request.POST, {}, is_operator=False)
    try:
        if not form.is_valid():
            raise BadInput("; ".join(str(fault) for faults in form.errors.values() for fault in faults).rstrip("."))
        note = triage.annotate(actor_of(request), project, **form.inputs()).row
    except REFUSED as e:
        return JsonResponse({"problem": str(e)}, status=400)
    text = shortened(plain_of(note.text))
    return JsonResponse(plain_values({"id": note.pk, "text": text, "author": str(note.author)}), status=201)


@require_http_methods(["GET", "HEAD", "POST"])
def change_annotation(request: HttpRequest, pk: int) -> HttpResponse:
    annotation = page.annotation_or_404(pk)
    former = {"place": page.place_of(annotation), "text": annotation.text}
    form = AnnotationForm(annotation.project, request.POST or None, former, permit_of(request).operate)
    if form.is_valid():
        everywhere = form.cleaned_data.get("everywhere", False)
        if perform(request, triage.change_annotation, annotation, **form.inputs(), everywhere=everywhere):
            return go_back(annotation)
    return render(
        request, "web/annotation.html", {"project": annotation.project, "annotation": annotation, "form": form}
    )


@require_POST
def delete_annotation(request: HttpRequest, pk: int) -> HttpResponse:
    annotation = page.annotation_or_404(pk)
    perform(request, triage.delete_annotation, annotation)
    where = annotation.project
    return redirect("annotations", slug=where.slug) if where else redirect("all-annotations")


def go_back(annotation: Annotation) -> HttpResponse:
    """To the page that shows an annotation."""
    project = annotation.project
    if project and annotation.commit:
        return redirect("commit", slug=project.slug, sha=annotation.commit.sha)
    return redirect("annotations", slug=project.slug) if project else redirect("all-annotations")
