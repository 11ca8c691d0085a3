"""The settings of a project, and the form that begins to track one."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Count, F, Q, Window
from django.http import QueryDict

from speedtrack.accounts.access import Access, reaches
from speedtrack.accounts.models import Role
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.suitefiles import load_suite, suite_names
from speedtrack.projects import hooks
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import remotes, submodules
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import Branch, Credential, MachinePolicy, Project
from speedtrack.runs.models import Run, Status
from speedtrack.runs.naming import LONGEST_SLUG
from speedtrack.runs.requests import changing, tracking
from speedtrack.runs.requests.tracking import TrackingRequest, name_in_url, valid_slug

MOST_LAG_HOURS = 24 * 365
UNRELATED = "unrelated"
MOST_BRANCHES = 100  # that are listed: others are tracked and stopped by their names
FIRST_COMMITS = 10  # of a new branch that are measured at once
PLAIN: dict[str, Any] = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "off"}


def suite_choices(now: str = "") -> list[tuple[str, str]]:
    return [(name, name) for name in sorted({*suite_names(), *filter(None, [now])})]


class TrackForm(forms.Form):
    """A repository to track."""

    url = forms.CharField(
        max_length=500,
        label="Address of the repository",
        widget=forms.TextInput(PLAIN | {"placeholder": "https://github.com/valkey-io/valkey", "autofocus": True}),
    )
    suite = forms.ChoiceField(label="Suite: how it is built, and what is measured")
    branch = forms.CharField(
        max_length=250,
        required=False,
        label="Branch",
        widget=forms.TextInput(PLAIN | {"list": "branches", "placeholder": "the repository's own default"}),
    )
    last = forms.IntegerField(
        label="Newest commits to measure now", min_value=0, max_value=changing.MOST_FIRST, initial=FIRST_COMMITS
    )
    name = forms.CharField(
        max_length=LONGEST_SLUG,
        required=False,
        label="Name",
        widget=forms.TextInput(PLAIN | {"placeholder": "the last part of the address"}),
    )

    def __init__(self, entered: QueryDict | None, initial: dict[str, Any]) -> None:
        super().__init__(entered, initial=initial, label_suffix="")
        self.fields["suite"].choices = [("", "choose one"), *suite_choices()]  # type: ignore[attr-defined]

    def clean_url(self) -> str:
        try:
            return remotes.valid_url(self.cleaned_data["url"])
        except RepositoryError as e:
            raise ValidationError(str(e)) from e

    def clean(self) -> dict[str, Any]:
        fields = self.cleaned_data
        if "url" in fields and "name" in fields:
            try:
                valid_slug(fields["name"] or name_in_url(fields["url"]))
            except RepositoryError as e:
                self.add_error("name", f"{str(e).partition(':')[0]}: enter another name.")
        return fields

    def request(self, credential: Credential | None) -> TrackingRequest:
        fields = self.cleaned_data
        return TrackingRequest(
            fields["url"],
            fields["suite"],
            fields["branch"] or None,
            last=fields["last"],
            name=fields["name"] or None,
            credential=credential,
        )


class ProjectForm(forms.Form):
    """What can be changed of a tracked project."""

    name = forms.CharField(max_length=100, label="Name")
    url = forms.CharField(max_length=500, label="Address of the repository", widget=forms.TextInput(PLAIN))
    suite = forms.ChoiceField(label="Suite")
    default_branch = forms.ChoiceField(label="Default branch")
    branch_patterns = forms.CharField(
        max_length=200,
        required=False,
        label="Also track new branches that match",
        help_text="patterns such as 8.* or release/*, separated by spaces; of each, the newest commit is measured",
        widget=forms.TextInput(PLAIN),
    )
    submodule_urls = forms.CharField(
        max_length=5000,
        required=False,
        label="Submodules",
        help_text="addresses of repositories, one a line, whose files a build gets where the sources have a submodule",
        widget=forms.Textarea(PLAIN | {"rows": 2}),
    )
    cancel_unreachable = forms.BooleanField(
        required=False, label="Cancel waiting runs of commits that a forced push or a deletion made unreachable"
    )
    machine_policy = forms.ChoiceField(
        choices=MachinePolicy,
        label="Which machines measure a commit",
        help_text="a pool is of machines of equal hardware; a machine without one counts as a pool",
    )
    lag_alarm_hours = forms.IntegerField(
        min_value=0,
        max_value=MOST_LAG_HOURS,
        label="Hours after which an unmeasured head is an alarm",
        help_text="0: never; operators get a mail when it begins, and one when it is over",
    )
    mail_history_verdicts = forms.BooleanField(
        required=False, label="Also alert for slowdowns that only the history shows and that cannot be measured again"
    )

    def __init__(self, project: Project, entered: QueryDict | None) -> None:
        initial = {name: getattr(project, name) for name in self.base_fields}
        super().__init__(entered, initial=initial, label_suffix="")
        self.project = project
        if entered and entered.get("url", "").strip() != project.url:
            self.fields[UNRELATED] = forms.BooleanField(
                required=False, label="The new address has another history, which replaces this one"
            )
            self.order_fields(["name", "url", UNRELATED])
        branches = list(project.branches.order_by("name").values_list("name", flat=True))
        choices = {"suite": suite_choices(project.suite), "default_branch": [(name, name) for name in branches]}
        for name, among in choices.items():
            self.fields[name].choices = among  # type: ignore[attr-defined]
        if len(branches) > MOST_BRANCHES:
            self.fields["default_branch"].widget = forms.TextInput(PLAIN)

    def clean_suite(self) -> str:
        name: str = self.cleaned_data["suite"]
        if name != self.project.suite:
            try:
                load_suite(name)
            except DefinitionError as e:
                raise ValidationError(str(e)) from e
        return name

    def clean_branch_patterns(self) -> str:
        patterns: str = " ".join(self.cleaned_data["branch_patterns"].split())
        if set(patterns) & set('~^:\\"'):
            raise ValidationError("No name of a branch has ~ ^ : \\ or quotes: give patterns such as 8.* or release/*")
        return patterns

    def clean_submodule_urls(self) -> str:
        try:
            return submodules.valid_urls(self.cleaned_data["submodule_urls"])
        except RepositoryError as e:
            raise ValidationError(str(e)) from e

    @property
    def is_unrelated(self) -> bool:
        return bool(self.cleaned_data.get(UNRELATED))

    @property
    def values(self) -> dict[str, Any]:
        """Field -> value, of the fields of a project."""
        return {name: self.cleaned_data[name] for name in self.base_fields}


@dataclass(frozen=True)
class SettingsPage:
    """``waiting``: runs that untracking cancels. ``last_call``: when the webhook was called last.

    ``credential_fits``: it is for the server of the project's address.
    ``former_until``: until when the former secret is valid, if it is; ``former_used``: when it was used last.
    """

    branches: list[Branch]  #: the first MOST_BRANCHES
    unlisted: int  #: the number of the others
    channels: int
    annotations: int
    waiting: int
    hook_url: str
    last_call: datetime | None
    credential: Credential | None
    credential_fits: bool
    former_until: datetime | None
    former_used: datetime | None
    former_days: int = hooks.FORMER_DAYS
    most_days: int = hooks.MOST_DAYS


def load(project: Project) -> SettingsPage:
    queued_runs = Run.objects.filter(project=project, status=Status.QUEUED, canary=None)
    calls = project.deliveries.order_by("-pk").values_list("received_at", flat=True)
    branches = project.branches.annotate(total=Window(Count("pk"))).select_related("head")
    rows: list[Any] = list(branches.order_by("-tracked", F("deleted_at").asc(nulls_first=True), "name")[:MOST_BRANCHES])
    former_until = project.former_hook_secret_until if hooks.former_is_valid(project) else None
    return SettingsPage(
        branches=rows,
        unlisted=rows[0].total - len(rows) if rows else 0,
        channels=project.channels.count(),
        annotations=project.annotations.count(),
        waiting=queued_runs.count(),
        hook_url=tracking.hook_url(project),
        last_call=calls.first(),
        credential=Credential.objects.filter(project=project).first(),
        credential_fits=remote_of(project).credential is not None,
        former_until=former_until,
        former_used=calls.filter(with_former=True).first() if former_until else None,
    )


@dataclass(frozen=True)
class ListedProject:
    """A project that somebody sees, with what they may do in it."""

    project: Project
    role: Role | None

    @property
    def may_change(self) -> bool:
        return reaches(self.role, Role.MAINTAINER)


def load_list(access: Access) -> list[ListedProject]:
    """The projects that somebody sees, those that are tracked first."""
    branches = Count("branches", filter=Q(branches__tracked=True, branches__deleted_at=None))
    projects = access.among(Project.objects.annotate(tracked_branches=branches), "pk").order_by("-untracked_at", "name")
    return [ListedProject(project, access.role(project.pk)) for project in projects]
