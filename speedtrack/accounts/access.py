"""The rights to see and to change things.

Everybody sees a public project, but only members see a private one. Changes need a role. Things outside of projects
(machines, suites, tracking another repository) need an operator, who has every role everywhere.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar, cast

from django.contrib.auth.models import AbstractBaseUser, AnonymousUser, User
from django.db.models import BooleanField, ExpressionWrapper, FilteredRelation, Model, Q, QuerySet

from speedtrack.accounts.models import Membership, Role, Scope
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.projects.models import Project, ProjectQuerySet

NOBODY = 0  # no account has this id
RANK = {role: rank for rank, role in enumerate(Role)}


class Refused(Exception):
    """The person may not do this; the message names the role or scope that is needed, and who gives it."""


@dataclass(frozen=True)
class Caller:
    """A person at a page, or one of their tokens within its scopes. ``user``: None for an anonymous caller."""

    user: User | None = None
    scopes: frozenset[str] = frozenset(Scope)
    project_id: int | None = None
    token_id: int | None = None

    @property
    def is_operator(self) -> bool:
        """Return whether the caller is an operator. With a token for a single project nobody is."""
        return self.project_id is None and self.user is not None and self.user.is_active and self.user.is_superuser


ANYBODY = Caller()


def person(user: AbstractBaseUser | AnonymousUser) -> Caller:
    """The caller behind a page's ``request.user``."""
    return Caller(cast(User, user)) if user.is_authenticated else ANYBODY


def visible(caller: Caller) -> ProjectQuerySet:
    """The projects that the caller may see."""
    projects: ProjectQuerySet = Project.objects.all()
    if caller.project_id is not None:
        projects = projects.filter(pk=caller.project_id)
    if caller.user is not None and caller.user.is_active and caller.user.is_superuser:
        return projects
    mine = Membership.objects.filter(user=caller.user).values("project") if caller.user else []
    return projects.filter(Q(is_public=True) | Q(pk__in=mine))


class KnownProject(NamedTuple):
    """A project that is private, in which a caller has a role, or that the caller names."""

    slug: str
    is_public: bool
    role: Role | None
    is_named: bool


Rows = TypeVar("Rows", bound=QuerySet[Any])


@dataclass(frozen=True)
class NamedProject:
    """How a caller names a project: by its slug, or by the id of a row that belongs to it.

    ``path``: from a row of the ``model`` to its project.
    """

    key: str | int
    model: type[Model] | None = None
    path: str = ""


def known_projects(user: int, condition: Q) -> QuerySet[Any]:
    """The projects that ``Access.known`` needs, as columns. ``condition``: that of the project the caller names."""
    projects = Project.objects.annotate(
        mine=FilteredRelation("memberships", condition=Q(memberships__user=user)),
        is_named=ExpressionWrapper(condition, output_field=BooleanField()),
    )
    rows = projects.filter(Q(is_public=False) | Q(mine__isnull=False) | condition)
    return rows.values_list("pk", "slug", "is_public", "mine__role", "is_named")


def known_by_slug(user: int, key: str) -> QuerySet[Any]:
    return known_projects(user, Q(slug=key))


@cache
def known_by_row(model: type[Model], path: str) -> PreparedQuery[Any]:
    def build(user: int, key: int) -> QuerySet[Any]:
        return known_projects(user, Q(pk__in=model._default_manager.filter(pk=key).values(path)))

    return PreparedQuery(build)


def known_without_name(user: int) -> QuerySet[Any]:
    return known_projects(user, Q(pk__in=[]))


KNOWN, KNOWN_BY_SLUG = PreparedQuery(known_without_name), PreparedQuery(known_by_slug)


def known_rows(user: int, project: NamedProject | None) -> list[tuple[Any, ...]]:
    """The rows of ``known_projects``, with the project that the caller names, if any."""
    if project is None:
        return KNOWN.tuples(user=user)
    prepared = KNOWN_BY_SLUG if project.model is None else known_by_row(project.model, project.path)
    return prepared.tuples(user=user, key=project.key)


class Access:
    """The rights of a person at a page, or of anybody. They are read with one statement, and kept for one request.

    For tokens, which may be limited to one project, use ``visible`` and ``may``. ``project``: the one that the caller
    names, if any; the same statement reads whether there is one.
    """

    def __init__(self, caller: Caller, project: NamedProject | None = None) -> None:
        self.caller, self.project = caller, project

    @property
    def is_operator(self) -> bool:
        return self.caller.is_operator

    @cached_property
    def known(self) -> dict[int, KnownProject]:
        """By project id: the private projects, those in which the caller has a role, and the named one.

        Empty for an operator, who needs none.
        """
        if self.is_operator:
            return {}
        user = self.caller.user.pk if self.caller.user and self.caller.user.is_active else NOBODY
        return {
            pk: KnownProject(slug, is_public, Role(role) if role else None, is_named)
            for pk, slug, is_public, role, is_named in known_rows(user, self.project)
        }

    @cached_property
    def hidden(self) -> frozenset[int]:
        """The private projects of others, and of a token for one project all others: they do not exist for it."""
        if self.caller.project_id is not None:
            return frozenset(Project.objects.exclude(pk__in=visible(self.caller)).values_list("pk", flat=True))
        return frozenset(pk for pk, project in self.known.items() if not project.is_public and project.role is None)

    @property
    def sees_named(self) -> bool:
        """Return whether the named project exists, and the caller sees it.

        It is always true for operators, from whom nothing is hidden.
        """
        return self.is_operator or any(
            project.is_named and (project.is_public or project.role) for project in self.known.values()
        )

    def sees(self, project_id: int) -> bool:
        return project_id not in self.hidden

    def among(self, rows: Rows, path: str = "project") -> Rows:
        """The rows that belong to a visible project, or to none. ``path``: from a row to its project."""
        return rows.exclude(**{f"{path}__in": self.hidden}) if self.hidden else rows

    def role(self, project_id: int) -> Role | None:
        if self.is_operator:
            return Role.OWNER
        project = self.known.get(project_id)
        return project.role if project else None

    def role_at(self, slug: str) -> Role | None:
        if self.is_operator:
            return Role.OWNER
        return next((project.role for project in self.known.values() if project.slug == slug), None)

    def may(self, needed: Role, project_id: int) -> bool:
        return reaches(self.role(project_id), needed)

    def may_anywhere(self, needed: Role) -> bool:
        """Return whether the caller has this role in any project."""
        return self.is_operator or any(reaches(project.role, needed) for project in self.known.values())


def reaches(role: Role | None, needed: Role) -> bool:
    return role is not None and RANK[role] >= RANK[needed]


def seers(project: Project, users: Iterable[int | None]) -> set[int]:
    """Return the users among these who may see a project; nobody whose account is deactivated."""
    active = User.objects.filter(pk__in={user for user in users if user is not None}, is_active=True)
    if not project.is_public:
        is_member = Q(pk__in=Membership.objects.filter(project=project).values("user"))
        active = active.filter(is_member | Q(is_superuser=True))
    return set(active.values_list("pk", flat=True))


def role_of(caller: Caller, project: Project) -> Role | None:
    """The caller's role in a project; None if the caller is not a member."""
    if caller.user is None or not caller.user.is_active or caller.project_id not in (None, project.pk):
        return None
    if caller.user.is_superuser:
        return Role.OWNER
    stored_role = Membership.objects.filter(user=caller.user, project=project).values_list("role", flat=True).first()
    return Role(stored_role) if stored_role else None


def may(caller: Caller, needed: Role, project: Project) -> bool:
    return reaches(role_of(caller, project), needed)


def require(caller: Caller, needed: Role, project: Project, scope: Scope | None = None) -> None:
    """Raise Refused unless the caller has this role, or a higher one, and the token, if any, has this scope."""
    require_scope(caller, scope)
    if not may(caller, needed, project):
        raise Refused(f"this needs the role {needed} in {project}, or a higher one: its owners give it, under Members")


def require_operator(caller: Caller, scope: Scope | None = None) -> None:
    """Raise Refused unless the caller is an operator of this installation, and the token, if any, has this scope."""
    if not caller.is_operator:
        raise Refused("this needs an operator of this installation")
    require_scope(caller, scope)


def require_login(caller: Caller) -> None:
    """Raise Refused for a program, and for whoever is not logged in."""
    if caller.user is None or caller.token_id is not None:
        raise Refused("only the person does this, when logged in")


def require_scope(caller: Caller, scope: Scope | None) -> None:
    if scope is not None and scope not in caller.scopes:
        raise Refused(f"this token has no scope `{scope}`: make one that has it in your settings")
