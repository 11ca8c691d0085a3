"""What operators and owners change: machines, tracking, webhooks and their calls, planning policies.

Each order may be tried: with ``dry_run`` its verb is done in a transaction that is rolled back.
"""

from collections.abc import Callable
from typing import Annotated

from ninja import Query, Router
from pydantic import Field

from speedtrack.accounts import access, audit
from speedtrack.accounts.models import Role, Scope
from speedtrack.api.v1.measuring import machine_or_404
from speedtrack.api.v1.serving.callers import ApiRequest, project_or_404, require, require_operator, user_of
from speedtrack.api.v1.serving.paging import Page, Paging, page_of
from speedtrack.api.v1.serving.refusals import Conflict, Invalid
from speedtrack.api.v1.serving.writing import HEADER, OK, Answer, write
from speedtrack.projects import deliveries, hooks
from speedtrack.projects.models import Project
from speedtrack.reports.common import Tried
from speedtrack.reports.operating import (
    DeliveryDocument,
    Outcome,
    PauseOrder,
    PolicyDocument,
    PolicyOrder,
    PolicyRemoval,
    PurgeOrder,
    ReplayOrder,
    RotateOrder,
    SharesOrder,
    WindowsOrder,
)
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import machines
from speedtrack.runs.models import Machine
from speedtrack.runs.planning.policies import BadPolicy
from speedtrack.runs.requests import changing, rules
from speedtrack.runs.requests.outlook import outlook
from speedtrack.runs.scheduling.order import BadShares
from speedtrack.runs.scheduling.windows import BadWindow

router = Router(tags=["Operating"])

INVALID = (BadPolicy, BadShares, BadWindow, hooks.UnfitSecret)
CONFLICTS = (machines.NotPossible, deliveries.NotPossible, NoSuchThing)


def done(
    request: ApiRequest,
    order: Tried,
    action: str,
    target: object,
    verb: Callable[[], object],
    project: Project | None = None,
) -> Answer:
    """Do a verb and note it in the audit log; a dry run is rolled back and not noted. Raises Invalid and Conflict."""
    try:
        if order.dry_run:
            return OK, Outcome.of(outlook(verb))
        message = str(verb())
    except INVALID as e:
        raise Invalid(str(e)) from None
    except CONFLICTS as e:
        raise Conflict(str(e)) from None
    audit.note(request.auth, action, target, project)
    return OK, Outcome(message=message, dry_run=False, machines=[], commits=0)


def machine_to_change(request: ApiRequest, name: str) -> Machine:
    """The machine. Raises Refused unless the caller is an operator with the scope `settings`."""
    require_operator(request)
    if Scope.SETTINGS not in request.auth.scopes:
        raise access.Refused("this token has no scope `settings`: make one that has it in your settings")
    return machine_or_404(name)


def project_to_change(request: ApiRequest, slug: str, role: Role) -> Project:
    project = project_or_404(request, slug)
    require(request, role, project, Scope.SETTINGS)
    return project


@router.post("machines/{name}/pause", response=Outcome, summary="Pause or drain a machine")
@write
def pause_machine(request: ApiRequest, name: str, order: PauseOrder) -> Answer:
    """It gets no more work. Needs an operator with the scope `settings`."""
    machine = machine_to_change(request, name)

    def pause() -> str:
        machines.pause(machine, user_of(request), at_once=order.at_once)
        return f"machine {name} is paused: " + ("its run is queued again" if order.at_once else machines.FINISHES)

    return done(request, order, "machine.pause", name, pause)


@router.post("machines/{name}/resume", response=Outcome, summary="Resume a machine")
@write
def resume_machine(request: ApiRequest, name: str, order: Tried | None = None) -> Answer:
    """It gets work again. Needs an operator with the scope `settings`."""
    machine = machine_to_change(request, name)

    def resume() -> str:
        machines.resume(machine, user_of(request))
        return f"machine {name} gets work again"

    return done(request, order or Tried(), "machine.resume", name, resume)


@router.put("machines/{name}/windows", response=Outcome, summary="Set the windows of a machine")
@write
def set_windows(request: ApiRequest, name: str, order: WindowsOrder) -> Answer:
    """When it takes work by itself. Needs an operator with the scope `settings`."""
    machine = machine_to_change(request, name)
    naming.check_has_runner(machine)
    user = user_of(request)
    return done(
        request, order, "machine.plan", name, lambda: rules.set_windows(machine, order.windows, order.zone, user)
    )


@router.put("machines/{name}/shares", response=Outcome, summary="Set the shares of a machine's time")
@write
def set_shares(request: ApiRequest, name: str, order: SharesOrder) -> Answer:
    """How much of it each kind of work gets. Needs an operator with the scope `settings`."""
    machine = machine_to_change(request, name)
    naming.check_has_runner(machine)
    user = user_of(request)
    return done(request, order, "machine.plan", name, lambda: rules.set_shares(machine, order.shares, user))


@router.post("projects/{slug}/untrack", response=Outcome, summary="Track a project no more")
@write
def untrack(request: ApiRequest, slug: str, order: Tried | None = None) -> Answer:
    """Its waiting runs are cancelled; what was measured stays. Needs the scope `settings` and the role owner."""
    project = project_to_change(request, slug, Role.OWNER)
    if project.untracked_at:
        raise Conflict(f"{slug} is not tracked")

    def change() -> str:
        return f"{slug} is no longer tracked; {changing.untrack(project)} waiting runs cancelled"

    return done(request, order or Tried(), "project.untrack", slug, change, project)


@router.post("projects/{slug}/hook/rotate", response=Outcome, summary="Replace the secret of a webhook")
@write
def rotate_secret(request: ApiRequest, slug: str, order: RotateOrder) -> Answer:
    """The answer has the new secret. Needs the scope `settings` and the role maintainer.

    With an Idempotency-Key it is refused: answers are kept with their keys, and a secret is not kept in the clear.
    """
    project = project_to_change(request, slug, Role.MAINTAINER)
    if HEADER in request.headers:
        raise Invalid("a new secret is in no answer that is kept: send no Idempotency-Key", parameter=HEADER)
    new_secrets: list[str] = []

    def rotate() -> str:
        new_secrets.append(hooks.rotate(project, order.days))
        return f"{slug} has a new secret; the former one is valid for {order.days} days"

    status, outcome = done(request, order, "hook.rotate", slug, rotate, project)
    return status, outcome if order.dry_run else outcome.model_copy(update={"secret": new_secrets[-1]})


@router.get("projects/{slug}/deliveries", response=Page[DeliveryDocument], summary="List calls of a webhook")
def list_deliveries(
    request: ApiRequest,
    slug: str,
    paging: Query[Paging],
    status: Annotated[str, Field(pattern="^(received|processed|ignored|)$", description="only these")] = "",
) -> Page[DeliveryDocument]:
    """The newest first, without their bodies. Needs the role maintainer."""
    project = project_or_404(request, slug)
    require(request, Role.MAINTAINER, project, Scope.READ)
    rows = deliveries.list_calls(project, status)
    return page_of(request, rows, paging, lambda calls: map(DeliveryDocument.of, calls))


@router.post("projects/{slug}/deliveries/replay", response=Outcome, summary="Replay calls of a webhook")
@write
def replay_deliveries(request: ApiRequest, slug: str, order: ReplayOrder) -> Answer:
    """Each is taken as if it had just arrived. Needs the scope `settings` and the role maintainer."""
    project = project_to_change(request, slug, Role.MAINTAINER)

    def replay() -> str:
        count = deliveries.replay(project, deliveries.calls_numbered(project, order.deliveries))
        return f"{count} deliver{'y' if count == 1 else 'ies'} replayed: the repository is looked at within seconds"

    return done(request, order, "delivery.replay", ", ".join(map(str, order.deliveries)), replay, project)


@router.post("projects/{slug}/deliveries/purge", response=Outcome, summary="Delete calls of a webhook")
@write
def purge_deliveries(request: ApiRequest, slug: str, order: PurgeOrder) -> Answer:
    """Those that wait for a look stay. Needs the scope `settings` and the role maintainer."""
    project = project_to_change(request, slug, Role.MAINTAINER)

    def purge() -> str:
        return f"{deliveries.purge(project, order.older_than_days, order.status)} deleted"

    return done(request, order, "delivery.purge", f"older than {order.older_than_days} days", purge, project)


@router.get("projects/{slug}/policies", response=list[PolicyDocument], summary="List planning policies")
def list_policies(request: ApiRequest, slug: str) -> list[PolicyDocument]:
    """Which commits of which branches are measured by themselves; without any, all are. Needs the role maintainer."""
    project = project_or_404(request, slug)
    require(request, Role.MAINTAINER, project, Scope.READ)
    rows = project.policies.order_by("branches").prefetch_related("machines")
    return [PolicyDocument.of(policy) for policy in rows]


@router.put("projects/{slug}/policies", response=Outcome, summary="Set a planning policy")
@write
def save_policy(request: ApiRequest, slug: str, order: PolicyOrder) -> Answer:
    """Make or replace the policy of a pattern of branches. Needs the scope `settings` and the role maintainer."""
    project = project_to_change(request, slug, Role.MAINTAINER)
    target = f"policy of {order.branches or 'all other branches'}"
    return done(request, order, "policy.save", target, lambda: rules.save_policy(project, order.wanted()), project)


@router.delete("projects/{slug}/policies", response=Outcome, summary="Remove a planning policy")
@write
def remove_policy(request: ApiRequest, slug: str, order: PolicyRemoval) -> Answer:
    """Let the other policies, or none, decide. Needs the scope `settings` and the role maintainer."""
    project = project_to_change(request, slug, Role.MAINTAINER)
    target = f"policy of {order.branches or 'all other branches'}"
    return done(request, order, "policy.remove", target, lambda: rules.remove_policy(project, order.branches), project)
