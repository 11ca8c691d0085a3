"""The operations on a channel: create, change, pause, try and remove it."""

from dataclasses import dataclass

from django.db import IntegrityError, transaction
from django.db.models.functions import Now

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.notices.channels.addresses import AddressRefused, destination
from speedtrack.notices.channels.document import sample_message
from speedtrack.notices.channels.forges import Repository
from speedtrack.notices.channels.sending import post
from speedtrack.notices.errors import UnfitChannel
from speedtrack.notices.models import Channel
from speedtrack.projects.models import Project

SHORTEST_SECRET = 16  # of a webhook, because its signature depends on it


@dataclass(frozen=True)
class ChannelSettings:
    """The input of a person. An empty ``url`` or ``secret`` keeps the stored one."""

    name: str
    url: str = ""
    place: str = ""
    secret: str = ""
    improvements: bool = False
    former_document: bool = False


def add_channel(project: Project, kind: str, entry: ChannelSettings) -> Channel:
    """Create a channel. Raises UnfitChannel."""
    return save_channel(Channel(project=project, kind=kind, former_secret=Secret()), entry)


def save_channel(channel: Channel, entry: ChannelSettings) -> Channel:
    """Change a channel to these settings. Raises UnfitChannel."""
    origin = origin_of(entry.url) if entry.url else channel.origin
    if not origin:
        raise UnfitChannel("url", "a URL is needed")
    if channel.secret and not entry.secret and origin != channel.origin:
        raise UnfitChannel("secret", "it was entered for another server: enter it again, or the one of the new server")
    if channel.kind == Channel.Kind.WEBHOOK and 0 < len(entry.secret) < SHORTEST_SECRET:
        raise UnfitChannel("secret", f"a signing secret has {SHORTEST_SECRET} characters at least")
    if entry.secret and channel.secret and channel.kind == Channel.Kind.WEBHOOK:
        channel.former_secret = channel.secret
    channel.name, channel.place, channel.origin = entry.name, entry.place, origin
    channel.improvements, channel.former_document = entry.improvements, entry.former_document
    channel.url = Secret.of(entry.url) if entry.url else channel.url
    channel.secret = Secret.of(entry.secret) if entry.secret else channel.secret
    try:
        with transaction.atomic():
            channel.save()
    except IntegrityError as e:
        if "a_channel_once_per_project_and_name" not in str(e):
            raise
        raise UnfitChannel("name", "another channel of the project has this name") from e
    return channel


def origin_of(url: str) -> str:
    try:
        return destination(url).origin
    except AddressRefused as e:
        raise UnfitChannel("url", str(e)) from e


def forget_former(channel: Channel) -> None:
    """Stop signing with the former secret."""
    Channel.objects.filter(pk=channel.pk).update(former_secret=Secret())


def pause_channel(channel: Channel, user_name: str) -> None:
    """Queue no more messages for the channel; messages in the outbox keep waiting."""
    Channel.objects.filter(pk=channel.pk, paused_at=None).update(paused_at=Now(), paused_why=f"paused by {user_name}")


def resume_channel(channel: Channel) -> None:
    """Send waiting and future messages."""
    Channel.objects.filter(pk=channel.pk).update(paused_at=None, paused_why="", failures=0, error="")


def try_out(channel: Channel) -> str:
    """Send a test message now, and return the receiver's answer in words.

    Raises TemporaryFailure, PermanentFailure or KeyLost.
    """
    if channel.is_forge:
        return f"{channel.origin} accepts the token, which can read {Repository(channel).name()}"
    return f"{channel.origin} answered {post(channel, sample_message(channel.project)).status}"
