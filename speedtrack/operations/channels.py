"""What maintainers do with the channels of a project, which get its messages."""

from speedtrack.notices.channels import managing
from speedtrack.notices.channels.managing import ChannelSettings
from speedtrack.notices.models import Channel
from speedtrack.operations.performing import Actor, Done, operation
from speedtrack.projects.models import Project


@operation("channel.add")
def add(actor: Actor, project: Project, kind: str, settings: ChannelSettings) -> Done:
    """Set a channel up. Raises UnfitChannel."""
    channel = managing.add_channel(project, kind, settings)
    sentence = f"{channel} is set up. Send a test to check that it works"
    return Done(sentence, channel, {"kind": (None, kind)}, channel)


@operation("channel.change")
def change(actor: Actor, channel: Channel, settings: ChannelSettings, fields: str) -> Done:
    """Change a channel. ``fields``: those that differ, in words, as a value may be a secret. Raises UnfitChannel."""
    return Done("saved", managing.save_channel(channel, settings), {"fields": (None, fields)})


@operation("channel.test", is_atomic=False)
def try_out(actor: Actor, channel: Channel) -> Done:
    """Send a test message. Raises TemporaryFailure, PermanentFailure and KeyLost."""
    return Done(f"{channel}: {managing.try_out(channel)}", channel)


@operation("channel.pause")
def pause(actor: Actor, channel: Channel) -> Done:
    """Queue no more messages for a channel."""
    managing.pause_channel(channel, str(actor.user or "a command"))
    return Done(f"{channel} is paused", channel)


@operation("channel.resume")
def resume(actor: Actor, channel: Channel) -> Done:
    """Send the waiting messages of a channel, and new ones."""
    managing.resume_channel(channel)
    return Done(f"{channel} is resumed", channel)


@operation("channel.forget")
def forget_former_secret(actor: Actor, channel: Channel) -> Done:
    """Sign no longer with the former secret."""
    managing.forget_former(channel)
    return Done(f"{channel} now signs with the new secret only", channel)


@operation("channel.delete")
def delete(actor: Actor, channel: Channel) -> Done:
    """Delete a channel and what waits for it."""
    channel.delete()
    return Done(f"{channel} is deleted", channel)
