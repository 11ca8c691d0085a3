"""The pages of a project's channels. Whoever may log in may change them; secrets are never shown again."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.validators import RegexValidator
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from speedtrack.notices.channels import managing
from speedtrack.notices.channels.managing import Entry, Unfit
from speedtrack.notices.errors import Permanent, Temporary
from speedtrack.notices.models import Channel
from speedtrack.sealed import KeyLost
from speedtrack.web import scope

Kind = Channel.Kind
REPOSITORY = r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+"
ROOM = r"![^\s/?#]+"


@dataclass(frozen=True)
class Words:
    """How a form names its fields; an empty ``place`` or ``token``: it has none."""

    does: str
    url: str
    example: str
    place: str = ""
    place_pattern: str = ""
    token: str = ""
    base: str = ""  # the URL that is offered


FORGE = "Shows the status of each new commit, and keeps one comment on pull requests that got slower."
WORDS: dict[str, Words] = {
    Kind.WEBHOOK: Words(
        "Sends a signed JSON document of every event to a server of yours.",
        "URL",
        "https://ci.example.org/hooks/speedtrack",
        "",
        "",
        "Signing secret",
    ),
    Kind.SLACK: Words(
        "Posts alerts and decisions to a Slack channel.",
        "URL of the incoming webhook",
        "https://hooks.slack.com/services/…",
    ),
    Kind.MATRIX: Words(
        "Posts alerts and decisions to a Matrix room.",
        "URL of the home server",
        "https://matrix.example.org",
        "Room id (not its alias)",
        ROOM,
        "Access token",
    ),
    Kind.TEAMS: Words(
        "Posts alerts and decisions to a Teams channel.",
        "URL of the workflow",
        "https://….logic.azure.com/workflows/…",
    ),
    Kind.GITHUB: Words(
        FORGE,
        "URL of the API",
        "https://api.github.com, or https://github.example.org/api/v3",
        "Repository",
        REPOSITORY,
        "Token (commit statuses and pull requests: write)",
        "https://api.github.com",
    ),
    Kind.GITLAB: Words(
        FORGE,
        "URL of the server",
        "https://gitlab.com",
        "Project, with its groups",
        REPOSITORY,
        "Token (scope api)",
        "https://gitlab.com",
    ),
    Kind.GITEA: Words(
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
    """The fields that a kind has. Of a stored channel, what is secret may stay empty: it is kept."""

    name = forms.CharField(max_length=100, label="Name")
    url = forms.CharField(max_length=2000)
    place = forms.CharField(max_length=300)
    secret = forms.CharField(max_length=500)
    improvements = forms.BooleanField(required=False, label="Tell of what got faster, too")

    def __init__(self, kind: str, is_stored: bool, entered: QueryDict | None, initial: dict[str, Any]) -> None:
        super().__init__(entered, initial=initial, label_suffix="")
        self.kind, words = kind, WORDS[kind]
        attributes = {"autocomplete": "off", "spellcheck": "false"}
        url, place, secret = self.fields["url"], self.fields["place"], self.fields["secret"]
        url.label, place.label, secret.label = words.url, words.place, words.token
        url.required = secret.required = not is_stored
        kept = "stored; enter another one to replace it"
        url.widget.attrs |= attributes | {"placeholder": kept if is_stored else words.example}
        place.widget.attrs |= attributes
        secret.widget.attrs |= attributes | ({"placeholder": kept} if is_stored else {})
        if kind == Kind.WEBHOOK and not is_stored:
            secret.help_text = "Give it to the receiver now: it is not shown again."
        if kind in Channel.FORGES:
            del self.fields["improvements"]
        for field, label in (("place", words.place), ("secret", words.token)):
            if not label:
                del self.fields[field]
        if words.place_pattern:
            place.validators.append(RegexValidator(rf"\A{words.place_pattern}\Z"))

    def entry(self) -> Entry:
        return Entry(**self.cleaned_data)


@require_safe
@login_required
def listed(request: HttpRequest, slug: str) -> HttpResponse:
    project = scope.project_or_404(slug)
    kinds = [(kind.value, kind.label, WORDS[kind].does) for kind in Kind]
    context = {"project": project, "channels": project.channels.order_by("name"), "kinds": kinds}
    return render(request, "web/channels.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def add(request: HttpRequest, slug: str, kind: str) -> HttpResponse:
    project = scope.project_or_404(slug)
    if kind not in WORDS:
        raise Http404(f"There is no channel of the kind {kind!r}: there are {', '.join(WORDS)}.")
    offered = {"name": Kind(kind).label, "url": WORDS[kind].base}
    offered |= {"secret": secrets.token_urlsafe(32)} if kind == Kind.WEBHOOK else {}
    form = ChannelForm(kind, False, request.POST or None, offered)
    if made := written(form, lambda entry: managing.add(project, kind, entry)):
        messages.success(request, f"{made} is set up. Send a test to see whether it works.")
        return redirect("channels", slug=slug)
    context = {"project": project, "form": form, "kind": Kind(kind).label, "words": WORDS[kind]}
    return render(request, "web/channel.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@login_required
def change(request: HttpRequest, slug: str, pk: int) -> HttpResponse:
    channel = channel_or_404(slug, pk)
    offered = {"name": channel.name, "place": channel.place, "improvements": channel.improvements}
    form = ChannelForm(channel.kind, True, request.POST or None, offered)
    if written(form, lambda entry: managing.save(channel, entry)):
        messages.success(request, "Saved.")
        return redirect("channels", slug=slug)
    context = {"project": channel.project, "channel": channel, "form": form, "words": WORDS[channel.kind]}
    return render(request, "web/channel.html", context | {"kind": channel.get_kind_display()})


def written(form: ChannelForm, write: Callable[[Entry], Channel]) -> Channel | None:
    """Write what a valid form holds; what is unfit is said at its field."""
    if not form.is_valid():
        return None
    try:
        return write(form.entry())
    except Unfit as e:
        form.add_error(e.field if e.field in form.fields else None, str(e))
        return None


@require_POST
@login_required
def act(request: HttpRequest, slug: str, pk: int, verb: str) -> HttpResponse:
    """Do one thing with a channel: the table below says which."""
    channel = channel_or_404(slug, pk)
    if verb not in VERBS:
        raise Http404(f"A channel cannot {verb!r}: it can {', '.join(VERBS)}.")
    try:
        messages.success(request, VERBS[verb](channel, request.user.get_username()))
    except (Temporary, Permanent, KeyLost) as e:
        messages.error(request, f"{channel}: {e}.")
    return redirect("channels", slug=slug)


def pause(channel: Channel, who: str) -> str:
    managing.pause(channel, who)
    return f"{channel} is paused."


def resume(channel: Channel, who: str) -> str:
    managing.resume(channel)
    return f"{channel} is at work again."


def forget(channel: Channel, who: str) -> str:
    managing.forget_former(channel)
    return f"{channel} signs with the new secret alone."


def delete(channel: Channel, who: str) -> str:
    channel.delete()
    return f"{channel} is deleted."


VERBS: dict[str, Callable[[Channel, str], str]] = {
    "test": lambda channel, who: f"{channel}: {managing.try_out(channel)}.",
    "pause": pause,
    "resume": resume,
    "forget": forget,
    "delete": delete,
}


def channel_or_404(slug: str, pk: int) -> Channel:
    found: Channel | None = Channel.objects.filter(project__slug=slug, pk=pk).select_related("project").first()
    if found is None:
        raise Http404(f"The project {slug!r} has no channel {pk}.")
    return found
