"""Annotations: what people noted about commits and moments, and the form that notes it."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import Http404, QueryDict
from django.utils import timezone

from speedtrack.projects.models import Annotation, Commit, Project, sha_begins

LONGEST_TEXT = 10_000
LISTED = 200
SHORTEST_SHA = 6
FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M")


@dataclass(frozen=True)
class AnnotationsPage:
    project: Project | None
    annotations: list[Annotation]
    more: bool


def load(project: Project | None) -> AnnotationsPage:
    """The newest annotations of a project, with those that concern all; without a project only the latter."""
    concerned = Q(project=None) | Q(project=project) if project else Q(project=None)
    rows = list(listed().filter(concerned).order_by("-pk")[: LISTED + 1])
    return AnnotationsPage(project, rows[:LISTED], len(rows) > LISTED)


def listed() -> Any:
    return Annotation.objects.select_related("project", "commit", "author")


def of_commit(commit: Commit) -> list[Annotation]:
    return list(listed().filter(commit=commit).order_by("pk"))


def annotation_or_404(pk: int) -> Annotation:
    annotation: Annotation | None = listed().filter(pk=pk).first()
    if annotation is None:
        raise Http404(f"There is no annotation {pk}: it may have been deleted.")
    return annotation


class AnnotationForm(forms.Form):
    """A text about a commit or a moment. Only the form of a project has a field for a commit."""

    place = forms.CharField(
        max_length=80,
        label="Commit, or date and time in UTC",
        help_text="a commit id of 6 digits or more, or a date such as 2026-05-01 or 2026-05-01 14:30",
        widget=forms.TextInput({"autocomplete": "off", "spellcheck": "false"}),
    )
    text = forms.CharField(
        max_length=LONGEST_TEXT,
        label="Text, in Markdown",
        widget=forms.Textarea({"rows": 4}),
        error_messages={"max_length": f"The text is too long: at most {LONGEST_TEXT:,} characters."},
    )
    everywhere = forms.BooleanField(required=False, label="It concerns all projects (only with a date)")

    def __init__(
        self, project: Project | None, entered: QueryDict | None, initial: dict[str, Any], is_operator: bool
    ) -> None:
        super().__init__(entered, initial=initial, label_suffix="")
        self.project = project
        if project and not is_operator:
            del self.fields["everywhere"]  # what concerns all projects is for operators to say
        if project is None:
            del self.fields["everywhere"]
            place_field = self.fields["place"]
            place_field.label, place_field.help_text = "Date and time in UTC", "such as 2026-05-01 or 2026-05-01 14:30"

    def clean(self) -> dict[str, Any]:
        fields = self.cleaned_data
        if "place" in fields:
            fields["moment"] = moment_of(fields["place"])
            fields["commit"] = None if fields["moment"] else self.commit_named(fields["place"])
            if fields["commit"] and fields.get("everywhere"):
                self.add_error("everywhere", "A commit belongs to one project: give a date, or leave this out.")
        return fields

    def commit_named(self, name: str) -> Commit | None:
        fault = "This is neither a date such as 2026-05-01 or 2026-05-01 14:30 nor a commit"
        if self.project is None:
            self.add_error("place", "Give a date such as 2026-05-01 or 2026-05-01 14:30.")
            return None
        begin = name.lower()
        if len(begin) < SHORTEST_SHA or not set(begin) <= set("0123456789abcdef"):
            self.add_error("place", f"{fault} id of {SHORTEST_SHA} digits or more.")
            return None
        commits = list(Commit.objects.filter(sha_begins(begin), project=self.project)[:2])
        if len(commits) != 1:
            several = f"Several commits of {self.project.slug} begin with {begin}: give more digits."
            self.add_error("place", several if commits else f"{self.project.slug} has no commit {begin}.")
            return None
        return commits[0]

    def inputs(self) -> dict[str, Any]:
        """What was entered, for the operations."""
        return {key: self.cleaned_data[key] for key in ("text", "commit", "moment")}


def moment_of(text: str) -> datetime | None:
    """The moment in a text, in UTC; None if the text holds none.

    Raises ValidationError for one in the future.
    """
    for form in FORMATS:
        try:
            moment = datetime.strptime(text.removesuffix("UTC").strip(), form).replace(tzinfo=UTC)
        except ValueError:
            continue
        if moment > timezone.now():
            raise ValidationError({"place": "This is in the future: give a moment that has passed."})
        return moment
    return None


def place_of(annotation: Annotation) -> str:
    """The commit or moment of an annotation as the form shows it."""
    if annotation.commit:
        return annotation.commit.sha[:12]
    assert annotation.moment
    return f"{annotation.moment:%Y-%m-%d %H:%M}"
