"""The pages of a project's channels. Maintainers change them; a stored secret is never shown."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django import forms
from django.core.validators import RegexValidator
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.notices.channels.managing import ChannelSettings
from speedtrack.notices.errors import UnfitChannel
from speedtrack.notices.models import Channel
from speedtrack.operations import channels
from speedtrack.operations.performing import Actor, Done
from speedtrack.web import scope
from speedtrack.web.requests.operating import actor_of, perform, tell

Kind = Channel.Kind
REPOSITORY = r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+"
ROOM = r"![^\s/?#]+"


@dataclass(frozen=True)
class FieldLabels:
    """The labels of a form for one kind of channel. Without a label, ``place`` or ``token`` is not a field of it."""

    purpose: str
    url: str
    example: str
    place: str = ""
    place_pattern: str = ""
    token: str = ""
    base: str = ""  # the URL that a new form begins with


FORGE = "Sets the status of each new commit, and keeps one comment on each pull request that makes something slower."
FIELD_LABELS: dict[str, FieldLabels] = {
    Kind.WEBHOOK: FieldLabels(
        "Sends a signed JSON document for every event to a server of yours.",
        "URL",
        "https://ci.example.org/hooks/speedtrack",
        "",
        "",
        "Signing secret",
    ),
    Kind.SLACK: FieldLabels(
        "Posts alerts and decisions to a Slack channel.",
        "URL of the incoming webhook",
        "https://hooks.slack.com/services/…",
    ),
    Kind.MATRIX: FieldLabels(
        "Posts alerts and decisions to a Matrix room.",
        "URL of the home server",
        "https://matrix.example.org",
        "Room id (not its alias)",
        ROOM,
        "Access token",
    ),
    Kind.TEAMS: FieldLabels(
        "Posts alerts and decisions to a Teams channel.",
        "URL of the workflow",
        "https://….logic.azure.com/workflows/…",
    ),
    Kind.GITHUB: FieldLabels(
        FORGE,
        "URL of the API",
        "https://api.github.com, or https://github.example.org/api/v3",
        "Repository",
        REPOSITORY,
        "Token (commit statuses and pull requests: write)",
        "https://api.github.com",
    ),
    Kind.GITLAB: FieldLabels(
        FORGE,
        "URL of the server",
        "https://gitlab.com",
        "Project, with its groups",
        REPOSITORY,
        "Token (scope api)",
        "https://gitlab.com",
    ),
    Kind.GITEA: FieldLabels(
        FORGE,
        "URL of the server",
        "https://codeberg.org",
        "Repository",
        REPOSITORY,
        "Token (repository and issue: write)",
        "https://codeberg.org",
    ),
}


class ChannelForm(forms.Form):
    """The fields of a kind of channel. The secret fields of a stored channel may stay empty: their values are kept."""

    name = forms.CharField(max_length=100, label="Name")
    url = forms.CharField(max_length=2000)
    place = forms.CharField(max_length=300)
    secret = forms.CharField(max_length=500)
    improvements = forms.BooleanField(required=False, label="Also report what got faster")
    former_document = forms.BooleanField(required=False, label="Send the former document, speedtrack.alert/1")

    def __init__(self, kind: str, is_stored: bool, entered: QueryDict | None, initial: dict[str, Any]) -> None:
        super().__init__(entered, initial=initial, label_suffix="")
        self.kind, labels = kind, FIELD_LABELS[kind]
        attributes = {"autocomplete": "off", "spellcheck": "false"}
        url, place_field, secret = self.fields["url"], self.fields["place"], self.fields["secret"]
        url.label, place_field.label, secret.label = labels.url, labels.place, labels.token
        url.required = secret.required = not is_stored
        placeholder = "stored; enter a new value to replace it"
        url.widget.attrs |= attributes | {"placeholder": placeholder if is_stored else labels.example}
        place_field.widget.attrs |= attributes
        secret.widget.attrs |= attributes | ({"placeholder": placeholder} if is_stored else {})
        if kind == Kind.WEBHOOK and not is_stored:
            secret.help_text = "Copy it to the receiver now: it is not shown again."
        if kind in Channel.FORGES:
            del self.fields["improvements"]
        if kind != Kind.WEBHOOK or not is_stored:
            del self.fields["former_document"]
        for field, label in (("place", labels.place), ("secret", labels.token)):
            if not label:
                del self.fields[field]
        if labels.place_pattern:
            place_field.validators.append(RegexValidator(rf"\A{labels.place_pattern}\Z"))

    def entry(self) -> ChannelSettings:
        return ChannelSettings(**self.cleaned_data)


@require_safe
def list_channels(request: HttpRequest, slug: str) -> HttpResponse:
    project = scope.project_or_404(slug)
    kinds = [(kind.value, kind.label, FIELD_LABELS[kind].purpose) for kind in Kind]
    context = {"project": project, "channels": project.channels.order_by("name"), "kinds": kinds}
    return render(request, "web/channels.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def add_channel(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    project = scope.project_or_404(slug)
    if kind not in FIELD_LABELS:
        raise Http404(f"There is no channel of the kind {kind!r}: there are {', '.join(FIELD_LABELS)}.")
    offered = {"name": Kind(kind).label, "url": FIELD_LABELS[kind].base}
    offered |= {"secret": secrets.token_urlsafe(32)} if kind == Kind.WEBHOOK else {}
    form = ChannelForm(kind, False, request.POST or None, offered)
    if save_entry(request, form, partial(channels.add, actor_of(request), project, kind)):
        return redirect("channels", slug=slug)
    context = {"project": project, "form": form, "kind": Kind(kind).label, "labels": FIELD_LABELS[kind]}
    return render(request, "web/channel.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def change_channel(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    channel = channel_or_404(slug, pk)
    kept_fields = ("name", "place", "improvements", "former_document")
    offered = {field: getattr(channel, field) for field in kept_fields}
    form = ChannelForm(channel.kind, True, request.POST or None, offered)
    save = partial(channels.change, actor_of(request), channel, fields=", ".join(form.changed_data))
    if save_entry(request, form, save):
        return redirect("channels", slug=slug)
    context = {"project": channel.project, "channel": channel, "form": form, "labels": FIELD_LABELS[channel.kind]}
    return render(request, "web/channel.html", context | {"kind": channel.get_kind_display()})


def save_entry(request: HttpRequest, form: ChannelForm, save: Callable[[ChannelSettings], Done]) -> bool:
    """Save a valid form. A value that is refused becomes an error of its field."""
    if not form.is_valid():
        return False
    try:
        tell(request, save(form.entry()))
    except UnfitChannel as e:
        form.add_error(e.field if e.field in form.fields else None, str(e))
    return form.is_valid()


@require_POST
def act_on_channel(request: HttpRequest, slug: str, pk: int, action: str) -> HttpResponse:
    """Do one of ACTIONS with a channel."""
    channel = channel_or_404(slug, pk)
    if action not in ACTIONS:
        raise Http404(f"There is no action {action!r}: there are {', '.join(ACTIONS)}.")
    perform(request, ACTIONS[action], channel, otherwise=str(channel))
    return redirect("channels", slug=slug)


ACTIONS: dict[str, Callable[[Actor, Channel], Done]] = {
    "test": channels.try_out,
    "pause": channels.pause,
    "resume": channels.resume,
    "forget": channels.forget_former_secret,
    "delete": channels.delete,
}


def channel_or_404(slug: str, pk: int) -> Channel:
    channel: Channel | None = Channel.objects.filter(project__slug=slug, pk=pk).select_related("project").first()
    if channel is None:
        raise Http404(f"The project {slug!r} has no channel {pk}.")
    return channel
