"""Invitations to a project, by link."""

from speedtrack.accounts import invitations
from speedtrack.accounts.models import Invitation, Role
from speedtrack.operations.performing import Actor, Done, bad_input, operation
from speedtrack.projects.models import Project


@operation("invitation.make")
def make(actor: Actor, project: Project, role: Role, days: int, uses: int) -> Done:
    """Make an invitation; its code is the secret. Raises BadInput."""
    with bad_input("days"):
        row, code = invitations.make(project, role, actor.user, days, uses)
    changes = {"role": (None, role), "days": (None, days), "uses": (None, uses)}
    return Done("the invitation is made: its link is not shown again", f"invitation {row.pk}", changes, row, code)


@operation("invitation.revoke")
def revoke(actor: Actor, invitation: Invitation) -> Done:
    """Close an invitation."""
    is_change = invitations.revoke(invitation)
    return Done("the invitation admits nobody any more", f"invitation {invitation.pk}", is_change=is_change)


@operation("invitation.accept")
def accept(actor: Actor, invitation: Invitation) -> Done:
    """Become a member of the project. Raises Closed."""
    before, after = invitations.accept(invitation, actor.person)
    sentence = f"you are {after} of {invitation.project.name}"
    return Done(sentence, actor.person, {"role": (before, after)}, is_change=before != after)
