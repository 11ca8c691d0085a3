"""Who may use which address: one table for all of ``urls.py``, and the check that wraps each of its views.

A private project does not exist for those who are not its members: its addresses answer as those of no project do.
"""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property, wraps
from typing import Any, NamedTuple

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase
from django.urls import URLPattern
from django.utils.cache import patch_cache_control

from speedtrack.accounts.access import Access, NamedProject, Refused, person, reaches
from speedtrack.accounts.models import Role
from speedtrack.accounts.operations import OPERATIONS, OPERATOR, SELF
from speedtrack.accounts.tokens import UnknownToken
from speedtrack.alerts.models import Alert, Bisection
from speedtrack.projects.models import Annotation
from speedtrack.retention import policies
from speedtrack.runs.models import Profile, Run
from speedtrack.web.requests import errors, programs

SAFE = ("GET", "HEAD", "OPTIONS")
View = Callable[..., HttpResponseBase]


class Need(StrEnum):
    """What a request needs if it does not need a role in a project."""

    NOTHING = "nothing"  #: answered without a look at who asks, or the token in the address is the key
    SIGHT = "sight"  #: everybody who sees the project; lists leave out what the caller does not see
    PERSON = "person"  #: whoever is logged in
    OPERATOR = "operator"  #: an operator of this installation


class Owned(NamedTuple):
    """Rows with addresses of their own: the model, the path to their project, and the sentence about an absent one."""

    model: type[Model]
    path: str
    absent: Callable[[int], str]


@dataclass(frozen=True)
class Rule:
    """``read``, ``change``: what GET and the other methods need. ``of``: what the ``pk`` of the address numbers.

    ``is_atomic``: a change and its entry in the audit log are one transaction. Not where the view talks to other
    servers or looks into repositories meanwhile: there the verbs have transactions of their own.
    ``takes_tokens``: programs may read it with a token in the header Authorization.
    """

    read: Need | Role = Need.SIGHT
    change: Need | Role = Need.SIGHT
    of: Owned | None = None
    is_atomic: bool = True
    takes_tokens: bool = False


ALERT = Owned(Alert, "project_id", lambda pk: f"There is no alert {pk}.")
RUN = Owned(Run, "project_id", lambda pk: f"There is no run {pk}. {policies.POLICIES['canaries'].rule}")
PROFILE = Owned(
    Profile, "attempt__run__project_id", lambda pk: f"There is no profile {pk}. {policies.POLICIES['profiles'].rule}"
)
BISECTION = Owned(Bisection, "project_id", lambda pk: f"There is no bisection {pk}.")
ANNOTATION = Owned(Annotation, "project_id", lambda pk: f"There is no annotation {pk}: it may have been deleted.")


def rules(rule: Rule, *names: str) -> dict[str, Rule]:
    return dict.fromkeys(names, rule)


def all_of(need: Need | Role, of: Owned | None = None, *, is_atomic: bool = True) -> Rule:
    return Rule(need, need, of, is_atomic)


def needed(operation: str) -> Need | Role:
    """What the catalogue says of an operation."""
    return WHO.get(OPERATIONS[operation]) or Role(OPERATIONS[operation])


WHO = {SELF: Need.PERSON, OPERATOR: Need.OPERATOR}
#: By the name of the address.
RULES: dict[str, Rule] = {
    **rules(all_of(Need.NOTHING, is_atomic=False), "healthz", "readyz", "metrics", "login", "logout", "hook"),
    **rules(all_of(Need.NOTHING), "help-index", "help"),
    **rules(
        all_of(Need.NOTHING, is_atomic=False), "notifications-of", "unsubscribe"
    ),  # the token in the address is the key
    **rules(Rule(), "home", "home-values", "commit-values", "latency-values"),
    **rules(Rule(), "queue", "search", "search-values", "machines", "machine-values"),
    **rules(Rule(), "ladders", "ladders-values", "all-alerts", "all-alerts-values", "all-alerts-feed", "all-gains"),
    **rules(Rule(), "project", "project-values", "board", "timeline", "timeline-values", "timeline-why", "lines"),
    **rules(Rule(), "commit", "latency"),
    **rules(Rule(), "releases", "releases-feed", "releases-values", "story", "story-text"),
    **rules(Rule(), "compare", "compare-values", "compare-picture"),
    **rules(Rule(), "alerts", "alerts-values", "alerts-feed", "changes-feed", "gains"),
    **rules(Rule(), "sensitivity", "sensitivity-values", "takes-values"),
    "takes": Rule(change=Need.OPERATOR),
    **rules(Rule(), "badge", "embed", "timeline-picture", "project-picture", "pulls"),
    **rules(Rule(takes_tokens=True), "export", "openmetrics"),
    "alert": Rule(change=needed("alert.decide"), of=ALERT),
    **rules(Rule(of=ALERT), "alert-picture", "alert-values"),
    **rules(all_of(needed("alert.move"), ALERT), "alert-move", "alert-split", "alert-merge"),
    "alert-decide": all_of(Need.PERSON),  # the view leaves out alerts of projects where one may not decide
    "mutes": Rule(change=needed("mute.create")),
    "mute-end": all_of(needed("mute.end")),
    "annotations": Rule(change=needed("annotation.create")),
    "all-annotations": Rule(change=Need.OPERATOR),
    **rules(all_of(needed("annotation.change"), ANNOTATION), "annotation", "annotation-delete"),
    **rules(Rule(of=RUN), "run", "run-values", "run-log", "run-log-lines", "run-log-text", "run-script"),
    "run-act": all_of(needed("run.cancel"), RUN),
    "profile-folded": Rule(of=PROFILE),
    "tries": Rule(change=needed("comparison.try"), is_atomic=False),
    "try": Rule(),
    "try-approve": all_of(needed("comparison.approve")),
    "compare-measure": all_of(needed("run.queue"), is_atomic=False),
    "bisect": Rule(change=needed("bisection.begin"), is_atomic=False),
    "bisection": Rule(of=BISECTION),
    "bisection-stop": all_of(needed("bisection.stop"), BISECTION),
    "policies": all_of(needed("policy.save")),
    **rules(all_of(needed("delivery.replay")), "deliveries", "delivery"),
    "pull-approve": all_of(needed("pull.approve"), is_atomic=False),
    "measure": all_of(needed("run.queue"), is_atomic=False),
    **rules(all_of(needed("channel.change"), is_atomic=False), "channels", "channel-add", "channel", "channel-act"),
    "project-settings": all_of(needed("project.change"), is_atomic=False),
    "project-access": all_of(needed("credential.store"), is_atomic=False),
    "project-secret": all_of(needed("hook.rotate")),
    **rules(all_of(needed("project.change")), "project-act", "project-audit", "project-audit-values"),
    "project-untrack": all_of(needed("project.untrack")),
    "project-visibility": all_of(needed("project.visibility")),
    **rules(all_of(needed("member.change")), "members", "member-act"),
    "invitation-make": all_of(needed("invitation.make")),
    "invitation-revoke": all_of(needed("invitation.revoke")),
    "invitation": Rule(Need.SIGHT, needed("invitation.accept")),
    **rules(all_of(Need.PERSON, is_atomic=False), "settings", "notifications"),
    "pins": all_of(Need.PERSON),
    "machine": Rule(change=needed("machine.lift")),
    **rules(all_of(Need.OPERATOR, is_atomic=False), "track", "track-check", "installation", "audit", "audit-values"),
    **rules(all_of(Need.OPERATOR), "suites", "suite-new", "suite-check", "suite", "suite-file"),
    **rules(all_of(Need.OPERATOR), "suite-version", "suite-restore", "machine-settings", "machine-token"),
    **rules(all_of(Need.OPERATOR), "machine-return", "machine-plan", "machine-act"),
}


#: The beginnings of the names of addresses that check by themselves who asks: the pages of logging in and of one's own
#: account, and what programs call with a token.
BY_THEMSELVES = (
    *("account", "own-", "mfa_", "socialaccount_", "github_", "openid_connect_", "first-owner"),
    *("api-", "codespeed-"),
)


class Permit:
    """What the caller of a request sees and may do; ``may.triage`` and the like are for templates.

    About the project of the address; on pages of several projects, about any project.
    """

    def __init__(self, request: HttpRequest, rule: Rule, arguments: dict[str, Any]) -> None:
        self.request, self.rule = request, rule
        self.slug: str | None = arguments.get("slug")
        self.pk: int | None = arguments.get("pk") if rule.of else None

    @cached_property
    def access(self) -> Access:
        return Access(person(self.request.user), self.named_project)

    @property
    def named_project(self) -> NamedProject | None:
        """The project of the address."""
        if self.slug is not None:
            return NamedProject(self.slug)
        if self.rule.of is None or self.pk is None:
            return None
        return NamedProject(self.pk, self.rule.of.model, self.rule.of.path)

    @property
    def rows(self) -> QuerySet[Any]:
        """The row that the address numbers."""
        assert self.rule.of and self.pk is not None
        return self.rule.of.model._default_manager.filter(pk=self.pk)

    @cached_property
    def row(self) -> tuple[int | None] | None:
        """The project id of the row that the address numbers, in a tuple; None if there is no such row."""
        assert self.rule.of
        return self.rows.values_list(self.rule.of.path).first()

    @property
    def is_absent(self) -> bool:
        """Return whether what the address names does not exist, or belongs to a private project of others."""
        if self.slug is not None and self.rule.takes_tokens and programs.has_token(self.request):
            return not programs.reads(programs.caller_of(self.request), self.slug)
        if self.slug is not None:
            return not self.access.sees_named
        if self.pk is not None:
            return not self.access.sees_named and self.row != (None,)
        return False

    def has(self, needed: Role) -> bool:
        if self.access.is_operator:
            return True
        if self.access.caller.user is None:
            return False
        if self.slug is not None:
            return reaches(self.access.role_at(self.slug), needed)
        if self.pk is not None:
            return self.row is not None and self.row[0] is not None and self.access.may(needed, self.row[0])
        return self.access.may_anywhere(needed)

    @property
    def triage(self) -> bool:
        return self.has(Role.TRIAGER)

    @property
    def maintain(self) -> bool:
        return self.has(Role.MAINTAINER)

    @property
    def own(self) -> bool:
        return self.has(Role.OWNER)

    @property
    def operate(self) -> bool:
        return self.access.is_operator

    def check(self, need: Need | Role) -> HttpResponseBase | None:
        """A refusal, or None if the request is allowed. Raises UnknownToken.

        Raises Http404 for what does not exist, or belongs to a private project of others: before anything else is
        looked at, such as the method, the format or the fields, since each of them would tell of the project.
        """
        if need is Need.NOTHING:
            return None
        if need is not Need.SIGHT and self.access.caller.user is None:
            return redirect_to_login(self.request.get_full_path())  # said of any address: it tells of no project
        if self.is_absent:
            raise Http404(self.absence())
        if need is Need.OPERATOR and not self.operate:
            return errors.refused(self.request, "This needs an operator of this installation.")
        return self.check_role(need) if isinstance(need, Role) else None

    def check_role(self, needed: Role) -> HttpResponseBase | None:
        if self.has(needed):
            return None
        if self.pk is not None and self.row == (None,):
            return errors.refused(
                self.request, "This concerns all projects: it needs an operator of this installation."
            )
        return errors.refused(self.request, role_needed(needed))

    def absence(self) -> str:
        if self.slug is not None:
            return f"There is no project {self.slug!r}."
        assert self.rule.of and self.pk is not None
        return self.rule.of.absent(self.pk)


def role_needed(needed: Role) -> str:
    """The sentence for a person without the needed role."""
    return f"This needs the role {needed} in this project, or a higher one: its owners give it, under Members."


def permit_of(request: HttpRequest) -> Permit:
    """The permit of a request to a view of ``urls.py``."""
    permit: Permit = request.permit  # type: ignore[attr-defined]
    return permit


def access_of(request: HttpRequest) -> Access:
    return permit_of(request).access


def may(request: HttpRequest) -> dict[str, Any]:
    """A context processor that gives templates ``may``. On pages of errors it allows nothing."""
    return {"may": getattr(request, "permit", None)}


def guarded(patterns: Iterable[Any]) -> list[Any]:
    """Wrap each view in the check of RULES.

    An address without a rule is an error when the process starts.
    """
    all_patterns = list(patterns)
    for pattern in all_patterns:
        if isinstance(pattern, URLPattern):
            pattern.callback = guard(pattern.callback, rule_of(pattern.name or ""))
    return all_patterns


def rule_of(name: str) -> Rule:
    if name.startswith(BY_THEMSELVES):
        return all_of(Need.NOTHING, is_atomic=False)
    if name not in RULES:
        raise ImproperlyConfigured(f"say in {__name__} who may use the address {name!r}")
    return RULES[name]


def answer_of(view: View, request: HttpRequest, *arguments: Any, **keywords: Any) -> HttpResponseBase:
    """The view's answer; a refusal if it calls an operation that needs more than the address."""
    try:
        return view(request, *arguments, **keywords)
    except Refused as e:
        return errors.refused(request, f"{str(e)[:1].upper()}{str(e)[1:]}.")


def guard(view: View, rule: Rule) -> View:
    @wraps(view)
    def checked(request: HttpRequest, *arguments: Any, **keywords: Any) -> HttpResponseBase:
        permit = Permit(request, rule, keywords)
        request.permit = permit  # type: ignore[attr-defined]
        need = rule.read if request.method in SAFE else rule.change
        try:
            refusal = permit.check(need)
        except UnknownToken as e:
            refusal = programs.refused(e)
        if refusal:
            return refusal
        is_change = request.method not in SAFE and rule.is_atomic
        with transaction.atomic() if is_change else nullcontext():
            response = answer_of(view, request, *arguments, **keywords)
        is_kept = "no-store" not in response.headers.get("Cache-Control", "")
        if need is not Need.NOTHING and is_kept and permit.access.caller.user is not None:
            patch_cache_control(response, private=True)  # what one person sees, no cache shows to another
        return response

    return checked
