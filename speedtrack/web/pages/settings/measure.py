"""The form that queues a range of commits by hand."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from speedtrack.projects.models import Project
from speedtrack.runs.requests.byhand import Thinning

PLAIN: dict[str, Any] = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "off"}
MOST_NAMES = 2000  # characters


@dataclass(frozen=True)
class AskedRange:
    """What a person wants to have measured."""

    slug: str
    expression: str
    releases: bool
    benchmarks: list[str]
    machine: str | None
    extended: bool
    thinning: Thinning


class MeasureForm(forms.Form):
    """Which commits, benchmarks and machine."""

    range = forms.CharField(
        max_length=500,
        label="Commits",
        widget=forms.TextInput(PLAIN | {"placeholder": "v1.2..main"}),
        help_text="a commit id, tag or branch, or A..B, which leaves out A; or a pattern of releases, of which the"
        " newest patch of each minor version is measured",
    )
    releases = forms.BooleanField(required=False, label="All releases that match, such as v7.*")
    every = forms.IntegerField(label="One commit in", initial=1, help_text="counted from the newest; 1: all")
    order = forms.ChoiceField(
        label="Order",
        choices=[("newest", "the newest first"), ("halves", "both ends, then the middle, then the quarters …")],
    )
    benchmarks = forms.CharField(
        required=False,
        max_length=MOST_NAMES,
        label="Benchmarks",
        widget=forms.TextInput(PLAIN | {"placeholder": "the usual ones"}),
        help_text="names of benchmarks or ladders, with blanks between them",
    )
    extended = forms.BooleanField(required=False, label="With the extended benchmarks")
    machine = forms.ChoiceField(required=False, label="Machine")

    def __init__(self, project: Project, entered: QueryDict | None, initial: dict[str, Any]) -> None:
        super().__init__(entered, initial=initial, label_suffix="")
        self.project = project
        names = project.machines.order_by("name").values_list("name", flat=True)
        choices = [("", "all of the project"), *((name, name) for name in names)]
        self.fields["machine"].choices = choices  # type: ignore[attr-defined]

    def asked(self) -> AskedRange:
        fields = self.cleaned_data
        return AskedRange(
            slug=self.project.slug,
            expression=fields["range"],
            releases=fields["releases"],
            benchmarks=fields["benchmarks"].replace(",", " ").split(),
            machine=fields["machine"] or None,
            extended=fields["extended"],
            thinning=Thinning(fields["every"], halves=fields["order"] == "halves"),
        )
