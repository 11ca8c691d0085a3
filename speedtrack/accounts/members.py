"""Members of a project and their roles, with the rule that a project always keeps somebody in charge."""

from django.contrib.auth.models import User
from django.db import transaction

from speedtrack.accounts.access import RANK
from speedtrack.accounts.models import Membership, Role
from speedtrack.projects.models import Project


class MembershipRefused(Exception):
    """The change would leave a project without an owner, or names nobody; the message has the remedy."""


def locked(project: Project) -> None:
    """Lock the members of a project until the transaction ends, so that they change one after another."""
    Project.objects.select_for_update(no_key=True).values_list("pk").get(pk=project.pk)


@transaction.atomic
def give_role(project: Project, user: User, role: Role) -> tuple[Role | None, Role]:
    """Give a member or a new member this role. Return the roles before and after. Raises MembershipRefused."""
    locked(project)
    membership = project.memberships.filter(user=user).first()
    before = Role(membership.role) if membership else None
    if before == Role.OWNER and role != Role.OWNER:
        require_another_owner(project, user)
    Membership.objects.update_or_create(project=project, user=user, defaults={"role": role})
    return before, role


@transaction.atomic
def raise_role(project: Project, user: User, role: Role) -> tuple[Role | None, Role]:
    """Like ``give_role``, but a member who has this role or a higher one keeps it."""
    locked(project)
    membership = project.memberships.filter(user=user).first()
    before = Role(membership.role) if membership else None
    return (before, before) if before and RANK[before] >= RANK[role] else give_role(project, user, role)


@transaction.atomic
def remove(project: Project, user: User) -> Role:
    """End a membership. Return the role that it gave. Raises MembershipRefused."""
    locked(project)
    membership = project.memberships.filter(user=user).first()
    if membership is None:
        raise MembershipRefused(f"{user} is no member of {project}")
    if membership.role == Role.OWNER:
        require_another_owner(project, user)
    membership.delete()
    return Role(membership.role)


def require_another_owner(project: Project, user: User) -> None:
    """Raise MembershipRefused unless somebody else can admit members: another owner, or an operator."""
    owners = project.memberships.filter(role=Role.OWNER, user__is_active=True).exclude(user=user)
    if not owners.exists() and not User.objects.filter(is_superuser=True, is_active=True).exists():
        raise MembershipRefused(f"{user} is the last owner of {project}: make somebody else an owner first")


def user_named(name: str) -> User:
    """The user with this name. Raises MembershipRefused."""
    user = User.objects.filter(username=name).first()
    if user is None:
        raise MembershipRefused(f"there is no account {name!r}")
    return user


def show_to(project: Project, everybody: bool) -> bool:
    """Make a project public or private. Return False if it was so already."""
    return bool(Project.objects.filter(pk=project.pk, is_public=not everybody).update(is_public=everybody))
