"""Invitations: a link for people who open it, log in and accept, to become members of a project."""

import hashlib
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.accounts import members
from speedtrack.accounts.models import Invitation, Role, WrongInvitation
from speedtrack.projects.models import Project

DAYS, MOST_DAYS, MOST_USES = 7, 90, 1000
WRONG_WITHIN = timedelta(minutes=10)
MOST_WRONG = 10  # codes within that time from one address; from all addresses ten times as many


class Closed(Exception):
    """The link admits nobody; the message has cause and remedy."""


class Unknown(Closed):
    """There is no such invitation."""


class TooManyWrongCodes(Exception):
    """Too many wrong codes came lately."""


def make(project: Project, role: Role, user: User | None, days: int = DAYS, uses: int = 1) -> tuple[Invitation, str]:
    """Make an invitation. Return it and its code, which is shown once. Raises ValueError with the mistake."""
    if not 1 <= days <= MOST_DAYS:
        raise ValueError(f"an invitation is valid for 1 to {MOST_DAYS} days")
    if not 1 <= uses <= MOST_USES:
        raise ValueError(f"an invitation admits 1 to {MOST_USES} people")
    code = secrets.token_urlsafe(32)
    invitation = Invitation.objects.create(
        project=project,
        role=role,
        digest=digest_of(code),
        made_by=user,
        expires_at=Now() + timedelta(days=days),
        most_uses=uses,
    )
    invitation.refresh_from_db(fields=["expires_at", "created"])
    return invitation, code


def digest_of(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()


def find(code: str, address: str | None) -> Invitation:
    """The invitation with this code, if it still admits somebody. Raises Closed or TooManyWrongCodes.

    Only wrong codes are counted, and refused once there are too many. So nobody can block the links of others by
    guessing.
    """
    invitation = Invitation.objects.filter(digest=digest_of(code)).select_related("project", "made_by").first()
    if invitation is None:
        check_rate(address)
        WrongInvitation.objects.create(address=address)
        raise Unknown("There is no such invitation: copy the whole link, or ask for another one.")
    require_open(invitation)
    return invitation


def admits(code: str) -> bool:
    """Return whether an already opened code still admits its visitor."""
    invitation = Invitation.objects.filter(digest=digest_of(code)).first()
    try:
        if invitation:
            require_open(invitation)
    except Closed:
        return False
    return invitation is not None


def check_rate(address: str | None) -> None:
    WrongInvitation.objects.filter(at__lt=Now() - WRONG_WITHIN).delete()
    here = WrongInvitation.objects.filter(address=address).count()
    if here >= MOST_WRONG or WrongInvitation.objects.count() >= 10 * MOST_WRONG:
        raise TooManyWrongCodes(f"Too many wrong links were tried lately: wait {WRONG_WITHIN.seconds // 60} minutes.")


def require_open(invitation: Invitation) -> None:
    again = "ask an owner of the project for another one"
    if invitation.revoked_at:
        raise Closed(f"This invitation was taken back: {again}.")
    if invitation.expires_at <= timezone.now():
        raise Closed(f"This invitation has expired: {again}.")
    if invitation.uses >= invitation.most_uses:
        raise Closed(f"This invitation has been used: {again}.")


@transaction.atomic
def accept(invitation: Invitation, user: User) -> tuple[Role | None, Role]:
    """Make somebody a member. Return the roles before and after. Raises Closed if it was closed meanwhile.

    A person who already has the role does not use up the invitation.
    """
    row = Invitation.objects.select_for_update().select_related(None).get(pk=invitation.pk)
    require_open(row)
    before, after = members.raise_role(invitation.project, user, Role(row.role))
    if before != after:
        Invitation.objects.filter(pk=row.pk).update(uses=F("uses") + 1)
    return before, after


def revoke(invitation: Invitation) -> bool:
    """Close the invitation. False if it was closed already."""
    return bool(Invitation.objects.filter(pk=invitation.pk, revoked_at=None).update(revoked_at=Now()))


def open_ones(project: Project) -> list[Invitation]:
    """The invitations that still admit somebody, the newest first."""
    invitations = project.invitations.filter(revoked_at=None, expires_at__gt=Now(), uses__lt=F("most_uses"))
    return list(invitations.select_related("made_by").order_by("-pk"))
