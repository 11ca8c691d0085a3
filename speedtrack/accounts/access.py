"""Who may see and do what.

A public project is seen by everybody, a private one by its members. Changes need a role; what belongs to no project
(machines, suites, tracking another repository) needs an operator, who has every role everywhere.
"""

from dataclasses import dataclass
from typing import cast

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import Q

from speedtrack.accounts.models import Membership, Role, Scope
from speedtrack.projects.models import Project, ProjectQuerySet

RANK = {role: rank for rank, role in enumerate(Role)}


class Refused(Exception):
    """The person may not do this; the message says what is needed and who gives it."""


@dataclass(frozen=True)
class Caller:
    """Who asks: a person at a page, or a token of theirs within its scopes. ``user``: None of an anonymous one."""

    user: User | None = None
    scopes: frozenset[str] = frozenset(Scope)
    project_id: int | None = None
    token_id: int | None = None

    @property
    def is_operator(self) -> bool:
        return self.user is not None and self.user.is_active and self.user.is_superuser


ANYBODY = Caller()


def person(user: AbstractBaseUser | AnonymousUser) -> Caller:
    """The caller behind a page's ``request.user``."""
    return Caller(cast(User, user)) if user.is_authenticated else ANYBODY


def visible(caller: Caller) -> ProjectQuerySet:
    """The projects that the caller may see."""
    projects: ProjectQuerySet = Project.objects.all()
    if caller.project_id is not None:
        projects = projects.filter(pk=caller.project_id)
    if caller.is_operator:
        return projects
    mine = Membership.objects.filter(user=caller.user).values("project") if caller.user else []
    return projects.filter(Q(is_public=True) | Q(pk__in=mine))


def role_of(caller: Caller, project: Project) -> Role | None:
    """The caller's role in a project; None of one who is no member."""
    if caller.user is None or not caller.user.is_active or caller.project_id not in (None, project.pk):
        return None
    if caller.user.is_superuser:
        return Role.OWNER
    found = Membership.objects.filter(user=caller.user, project=project).values_list("role", flat=True).first()
    return Role(found) if found else None


def may(caller: Caller, needed: Role, project: Project) -> bool:
    role = role_of(caller, project)
    return role is not None and RANK[role] >= RANK[needed]


def require(caller: Caller, needed: Role, project: Project, scope: Scope | None = None) -> None:
    """Raises Refused unless the caller has this role, or a higher one, and a token of theirs has this scope."""
    if scope is not None and scope not in caller.scopes:
        raise Refused(f"this token has no scope `{scope}`: make one that has it in your settings")
    if not may(caller, needed, project):
        raise Refused(f"this needs the role {needed} in {project}: its owners give it")


def require_operator(caller: Caller) -> None:
    """Raises Refused unless the caller is an operator of this installation."""
    if not caller.is_operator:
        raise Refused("this needs an operator of this installation")
