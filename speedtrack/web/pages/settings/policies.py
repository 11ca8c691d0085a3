"""The planning policies of a project, and the form of one."""

from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import QueryDict

from speedtrack.benchmarks.suitefiles import suite_names
from speedtrack.projects.models import Branch, Project
from speedtrack.runs.models import Deferral
from speedtrack.runs.planning import policies
from speedtrack.runs.requests import rules
from speedtrack.runs.requests.rules import WantedPolicy

PLAIN: dict[str, Any] = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "off"}
SHOWN = 20  # deferred commits


class PolicyForm(forms.Form):
    """One policy; its fields are those of WantedPolicy."""

    branches = forms.CharField(
        max_length=200,
        required=False,
        label="Branches",
        widget=forms.TextInput(PLAIN | {"placeholder": "all that no other policy names"}),
        help_text="a pattern such as 8.* or release/*; of several that match, the longest counts",
    )
    every = forms.IntegerField(label="Measure one commit in", initial=1, help_text="1: every commit")
    most_waiting = forms.IntegerField(
        required=False, label="Commits that wait at most", help_text="the others are put off until a machine is idle"
    )
    fills_gaps = forms.BooleanField(required=False, label="Measure those between, too, while a machine is idle")
    ignored_paths = forms.CharField(
        required=False,
        max_length=10_000,
        strip=False,
        label="Paths that cannot matter",
        widget=forms.Textarea(PLAIN | {"rows": 4, "placeholder": "docs/**\n*.md"}),
        help_text="a pattern per line, as in .gitignore: commits that change nothing else are skipped",
    )
    suite = forms.ChoiceField(required=False, label="Suite")
    machines = forms.MultipleChoiceField(required=False, label="Machines", help_text="none: all of the project")
    extended_at = forms.TimeField(
        required=False,
        label="Extended set, daily from",
        widget=forms.TimeInput({"type": "time"}, format="%H:%M"),
        help_text="the head with all benchmarks, ladders aside",
    )
    zone = forms.CharField(max_length=64, initial="UTC", label="Time zone", widget=forms.TextInput(PLAIN))

    def __init__(self, project: Project, entered: QueryDict | None, policy: WantedPolicy) -> None:
        initial = {name: getattr(policy, name) for name in self.base_fields}
        super().__init__(entered, initial=initial | {"ignored_paths": "\n".join(policy.ignored_paths)}, label_suffix="")
        names = project.machines.order_by("name").values_list("name", flat=True)
        suites = sorted({*suite_names(), *filter(None, [policy.suite])})
        choices = {
            "suite": [("", f"the project's: {project.suite}"), *((name, name) for name in suites)],
            "machines": [(name, name) for name in names],
        }
        self.fields["machines"].widget.attrs["size"] = min(4, max(2, len(choices["machines"])))
        for name, among in choices.items():
            self.fields[name].choices = among  # type: ignore[attr-defined]

    def wanted(self) -> WantedPolicy:
        fields = self.cleaned_data
        return WantedPolicy(**fields | {"ignored_paths": fields["ignored_paths"].splitlines()})


@dataclass(frozen=True)
class PolicyRow:
    """A stored policy, in words, and the branches that it applies to."""

    branches: str
    words: list[str]
    applies_to: list[Branch]


@dataclass(frozen=True)
class PoliciesPage:
    """``deferred``: how many commits are put off or left out; ``newest``: the newest of them."""

    rows: list[PolicyRow]
    deferred: int
    put_off: int
    newest: list[Deferral]


def load(project: Project) -> PoliciesPage:
    stored_policies = list(project.policies.order_by("-branches"))
    deferrals = project.deferrals.select_related("commit", "branch").order_by("-commit_id")
    return PoliciesPage(
        rows=[
            PolicyRow(policy.branches, rules.in_words(policy), policies.branches_of(policy))
            for policy in stored_policies
        ],
        deferred=project.deferrals.count(),
        put_off=project.deferrals.put_off().count(),
        newest=list(deferrals[:SHOWN]),
    )
