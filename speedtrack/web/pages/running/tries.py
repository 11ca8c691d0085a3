"""Patches and branches that people try: the form, the newest tries, and the page of one, which can be shared."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django import forms
from django.http import Http404, QueryDict

from speedtrack.accounts.access import Access
from speedtrack.judging.pulls import PairedJudgement, judge_pulls
from speedtrack.judging.summaries import Summary, comparison_summary
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import patches
from speedtrack.projects.models import Project
from speedtrack.runs.models import PairedComparison, Run
from speedtrack.runs.requests import comparing
from speedtrack.runs.requests.comparing import AskedComparison
from speedtrack.web.pages.running import duels
from speedtrack.web.pages.running.duels import Duel
from speedtrack.web.pages.running.live import stream_of_queue

PLAIN: dict[str, Any] = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "off"}
SHOWN = 20  # tries


class TryForm(forms.Form):
    """A patch, and the commit that it was made from; or a branch. The text of the patch stays as it was pasted."""

    diff = forms.CharField(
        required=False,
        strip=False,
        label="Patch",
        widget=forms.Textarea(PLAIN | {"rows": 8, "wrap": "off", "placeholder": "the output of git diff"}),
        help_text="as git diff or git format-patch print it, of text files, at most 500 kB",
    )
    base = forms.CharField(
        required=False,
        max_length=250,
        label="Made from",
        widget=forms.TextInput(PLAIN),
        help_text="a commit id, branch or tag; empty: the newest commit of the default branch",
    )
    branch = forms.CharField(
        required=False,
        max_length=250,
        label="Or a branch",
        widget=forms.TextInput(PLAIN),
        help_text="of this repository; it is measured against its merge base with the default branch",
    )

    def __init__(self, project: Project, entered: QueryDict | None = None, initial: Any = None) -> None:
        super().__init__(entered, initial=initial, label_suffix="")
        self.project = project
        self.fields["base"].widget.attrs["placeholder"] = project.default_branch

    def clean(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().clean() or {}
        if bool(fields.get("diff", "").strip()) == bool(fields.get("branch")) and not self.errors:
            raise forms.ValidationError("Paste a patch, or name a branch: one of them.")
        return fields

    def asked(self) -> AskedComparison:
        fields = self.cleaned_data
        patch = fields["diff"] if not fields["branch"] else ""
        return AskedComparison(fields["branch"], fields["base"] or self.project.default_branch, patch=patch)


@dataclass(frozen=True)
class TryPage:
    """A comparison of pairs that somebody asked for. ``duel``: its first run that has not ended."""

    comparison: PairedComparison
    runs: list[Run]
    answers: list[PairedJudgement]
    duel: Duel | None

    @property
    def is_patch(self) -> bool:
        """Return whether the head is a commit of a patch: no branch has it, and nobody else wrote its subject."""
        return self.comparison.head_name == self.head_sha and self.name.startswith("Try a patch of ")

    @property
    def head_sha(self) -> str:
        return self.comparison.head.sha if self.comparison.head else ""

    @property
    def name(self) -> str:
        """The subject of the commit of a patch, else the name of the head."""
        head = self.comparison.head
        return head.subject if head and head.sha == self.comparison.head_name else self.comparison.head_name

    @property
    def state(self) -> str:
        return comparing.state_of(self.comparison, self.runs)

    @property
    def is_open(self) -> bool:
        return self.state not in ("done", "failed")

    @cached_property
    def summary(self) -> Summary:
        return comparison_summary(self.comparison, self.answers, self.runs)

    @property
    def stream(self) -> str:
        return self.duel.stream if self.duel else stream_of_queue()

    @property
    def version(self) -> str:
        return self.duel.version if self.duel else ""

    @property
    def kept_until(self) -> datetime:
        return self.comparison.created + comparing.KEPT_FOR

    @cached_property
    def text(self) -> str:
        """The patch; empty for a branch, or if the mirror cannot tell, or not any more."""
        base, head = self.comparison.base, self.comparison.head
        if base is None or head is None or not self.is_patch:
            return ""
        try:
            return patches.text_of(self.comparison.project.slug, base.sha, head.sha)
        except RepositoryError:
            return ""


def try_or_404(project: Project, pk: int) -> PairedComparison:
    rows = project.paired_comparisons.select_related("project", "head", "base", "by")
    comparison = rows.filter(pk=pk).first()
    if comparison is None:
        raise Http404(f"{project} has no try {pk}.")
    return comparison


def load(project: Project, pk: int, access: Access) -> TryPage:
    comparison = try_or_404(project, pk)
    runs = list(comparison.runs.select_related("machine").defer("machine__facts").order_by("pk"))
    return TryPage(comparison, runs, judge_pulls(runs) if runs else [], duels.duel_among(runs, access))


def newest(project: Project) -> list[TryPage]:
    """The newest tries, without their answers."""
    rows = project.paired_comparisons.select_related("head", "by").prefetch_related("runs").order_by("-pk")
    return [TryPage(row, list(row.runs.all()), [], None) for row in rows[:SHOWN]]
