"""Annotate commits and moments."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from speedtrack.projects.models import Annotation
from speedtrack.web import scope
from speedtrack.web.pages.alerting import annotations as page
from speedtrack.web.pages.alerting.annotations import AnnotationForm
from speedtrack.web.requests.permissions import audit_value, differing, note, permit_of


@require_http_methods(["GET", "HEAD", "POST"])
def annotations(request: HttpRequest, slug: str | None = None) -> HttpResponse:
    """The annotations of a project, or those that concern all; a POST adds one."""
    if request.method == "POST":
        return add_annotation(request, slug)
    project = scope.project_or_404(slug) if slug else None
    form = AnnotationForm(project, None, {"place": request.GET.get("at", "")}, permit_of(request).operate)
    return render(request, "web/annotations.html", {"project": project, "page": page.load(project), "form": form})


def add_annotation(request: HttpRequest, slug: str | None) -> HttpResponse:
    assert isinstance(request.user, User)
    project = scope.project_or_404(slug) if slug else None
    form = AnnotationForm(project, request.POST, {}, permit_of(request).operate)
    if not form.is_valid():
        context = {"project": project, "page": page.load(project), "form": form}
        return render(request, "web/annotations.html", context)
    annotation = form.save(Annotation(), request.user)
    note(request, "annotation.create", f"annotation {annotation.pk}", annotation.project)
    messages.success(request, "Noted. It is on the timelines, too; Edit changes or deletes it.")
    return go_back(annotation)


@require_http_methods(["GET", "HEAD", "POST"])
def change_annotation(request: HttpRequest, pk: int) -> HttpResponse:
    assert isinstance(request.user, User)
    annotation = page.annotation_or_404(pk)
    former = {"place": page.place_of(annotation), "text": annotation.text}
    form = AnnotationForm(annotation.project, request.POST or None, former, permit_of(request).operate)
    if form.is_valid():
        messages.success(request, "Saved.")
        saved = form.save(annotation, request.user)
        note(request, "annotation.change", f"annotation {pk}", saved.project, differing(former, {"text": saved.text}))
        return go_back(saved)
    return render(
        request, "web/annotation.html", {"project": annotation.project, "annotation": annotation, "form": form}
    )


@require_POST
def delete_annotation(request: HttpRequest, pk: int) -> HttpResponse:
    annotation = page.annotation_or_404(pk)
    where, text = annotation.project, annotation.text
    annotation.delete()
    note(request, "annotation.delete", f"annotation {pk}", where, {"text": (audit_value(text), None)})
    messages.success(request, f"Deleted. To undo it, add it again; its text was: {text}")
    return redirect("annotations", slug=where.slug) if where else redirect("all-annotations")


def go_back(annotation: Annotation) -> HttpResponse:
    """To the page that shows an annotation."""
    project = annotation.project
    if project and annotation.commit:
        return redirect("commit", slug=project.slug, sha=annotation.commit.sha)
    return redirect("annotations", slug=project.slug) if project else redirect("all-annotations")
