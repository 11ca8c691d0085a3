"""Annotations: what people note about commits and moments."""

from typing import Annotated

from django.db.models import Q, QuerySet
from django.http import Http404
from ninja import Path, Query, Router
from pydantic import Field

from speedtrack.accounts import access
from speedtrack.api.v1.serving.callers import ApiRequest, actor_of, project_or_404
from speedtrack.api.v1.serving.paging import Page, Paging, page_of
from speedtrack.api.v1.serving.revisions import commit_given
from speedtrack.api.v1.serving.writing import CREATED, OK, Answer, write
from speedtrack.operations import triage
from speedtrack.projects.models import Annotation
from speedtrack.reports.common import Id
from speedtrack.reports.projects import AnnotationChange, AnnotationDocument, AnnotationOrder

router = Router(tags=["Annotations"])


def visible_annotations(request: ApiRequest) -> QuerySet[Annotation]:
    """Annotations of projects that the caller may see, and those that concern all projects."""
    visible = Q(project=None) | Q(project__in=access.visible(request.auth))
    return Annotation.objects.filter(visible).select_related("project", "commit", "author")


@router.get("projects/{slug}/annotations", response=Page[AnnotationDocument], summary="List annotations")
def list_annotations(
    request: ApiRequest,
    slug: str,
    paging: Query[Paging],
    commit: Annotated[str | None, Field(max_length=250, description="only of this commit, tag or branch")] = None,
) -> Page[AnnotationDocument]:
    """Those of a project, and those that concern all, the newest first."""
    project = project_or_404(request, slug)
    rows = visible_annotations(request).filter(Q(project=None) | Q(project=project))
    if commit:
        rows = rows.filter(commit=commit_given(project, commit, parameter="commit"))
    return page_of(request, rows, paging, lambda annotations: map(AnnotationDocument.of, annotations))


@router.get("annotations/{annotation_id}", response=AnnotationDocument, summary="Read an annotation")
def read_annotation(request: ApiRequest, annotation_id: Path[Id]) -> AnnotationDocument:
    return AnnotationDocument.of(annotation_or_404(request, annotation_id))


def annotation_or_404(request: ApiRequest, annotation_id: int) -> Annotation:
    annotation = visible_annotations(request).filter(pk=annotation_id).first()
    if annotation is None:
        raise Http404(f"There is no annotation {annotation_id}, or its project is private.")
    return annotation


@router.post("projects/{slug}/annotations", response={201: AnnotationDocument}, summary="Annotate")
@write
def annotate(request: ApiRequest, slug: str, order: AnnotationOrder) -> Answer:
    """Note something about a commit or a moment. Needs the scope `triage` and the role triager."""
    project = project_or_404(request, slug)
    actor = actor_of(request)
    actor.require("annotation.create", project)
    commit = commit_given(project, order.commit, field="commit") if order.commit else None
    annotation = triage.annotate(actor, project, order.text, commit, order.moment).row
    return CREATED, AnnotationDocument.of(annotation_or_404(request, annotation.pk))


@router.patch("annotations/{annotation_id}", response=AnnotationDocument, summary="Change an annotation")
@write
def change_annotation(request: ApiRequest, annotation_id: Path[Id], change: AnnotationChange) -> Answer:
    """Needs the scope `triage` and the role triager."""
    annotation = annotation_or_404(request, annotation_id)
    triage.change_annotation(actor_of(request), annotation, change.text, annotation.commit, annotation.moment)
    return OK, AnnotationDocument.of(annotation_or_404(request, annotation_id))


@router.delete("annotations/{annotation_id}", response=AnnotationDocument, summary="Delete an annotation")
@write
def delete_annotation(request: ApiRequest, annotation_id: Path[Id]) -> Answer:
    """The answer has the annotation as it was. Needs the scope `triage` and the role triager."""
    annotation = annotation_or_404(request, annotation_id)
    document = AnnotationDocument.of(annotation)
    triage.delete_annotation(actor_of(request), annotation)
    return OK, document
