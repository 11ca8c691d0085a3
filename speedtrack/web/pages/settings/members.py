"""The members of a project, and the invitations that are open."""

from dataclasses import dataclass

from django.http import Http404, QueryDict

from speedtrack.accounts.invitations import DAYS, MOST_DAYS, MOST_USES, open_ones
from speedtrack.accounts.models import Invitation, Membership, Role
from speedtrack.projects.models import Project


@dataclass(frozen=True)
class MembersPage:
    members: list[Membership]
    invitations: list[Invitation]
    roles: tuple[Role, ...] = tuple(Role)
    days: int = DAYS
    most_days: int = MOST_DAYS
    most_uses: int = MOST_USES


def load(project: Project) -> MembersPage:
    memberships = project.memberships.select_related("user").order_by("user__username")
    ranked = sorted(memberships, key=lambda membership: list(Role).index(Role(membership.role)), reverse=True)
    return MembersPage(ranked, open_ones(project))


def membership_or_404(project: Project, number: int) -> Membership:
    membership: Membership | None = project.memberships.filter(pk=number).select_related("user", "project").first()
    if membership is None:
        raise Http404(f"{project.slug} has no such member: the list may have changed.")
    return membership


def role_of(form: QueryDict) -> Role:
    """Return the role that the form names. Raises ValueError."""
    name = form.get("role", "")
    if name not in Role.values:
        raise ValueError(f"choose one of the roles {', '.join(Role.values)}")
    return Role(name)
