"""What operators and owners change: machines, tracking, webhooks and their calls, planning policies.

Each order may be tried: with ``dry_run`` its verb is called in a transaction that is rolled back.
"""

from collections.abc import Callable
from typing import Annotated, Any

from django.http import Http404
from ninja import Query, Router
from pydantic import Field

from speedtrack.accounts import access
from speedtrack.accounts.models import Role
from speedtrack.api.v1.measurements.measuring import machine_or_404
from speedtrack.api.v1.serving.callers import ApiRequest, actor_of, project_or_404
from speedtrack.api.v1.serving.paging import Page, Paging, page_of
from speedtrack.api.v1.serving.refusals import Conflict, Invalid
from speedtrack.api.v1.serving.writing import HEADER, OK, Answer, write
from speedtrack.benchmarks.suitefiles import suite_names
from speedtrack.operations import machines, projects, suites
from speedtrack.operations.performing import Done
from speedtrack.projects import deliveries
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
    TrialsOrder,
    WindowsOrder,
)
from speedtrack.runs.errors import NoSuchThing

router = Router(tags=["Operating"])


def answered(
    request: ApiRequest, order: Tried | None, verb: Callable[..., Done], subject: Any, **inputs: Any
) -> Answer:
    """Do an operation, or try it. Raises Conflict for what does not exist in its present state."""
    try:
        result = verb(actor_of(request, order), subject, **inputs)
    except NoSuchThing as e:
        raise Conflict(str(e)) from None
    return OK, outcome_of(result)


def outcome_of(result: Done) -> Outcome:
    if result.outlook:
        return Outcome.of(result.outlook)
    return Outcome(message=result.sentence, dry_run=False, machines=[], commits=0, secret=result.secret or None)


@router.post("machines/{name}/pause", response=Outcome, summary="Pause or drain a machine")
@write
def pause_machine(request: ApiRequest, name: str, order: PauseOrder) -> Answer:
    """It gets no more work. Needs an operator with the scope `settings`."""
    return answered(request, order, machines.pause, machine_or_404(name), at_once=order.at_once)


@router.post("machines/{name}/resume", response=Outcome, summary="Resume a machine")
@write
def resume_machine(request: ApiRequest, name: str, order: Tried | None = None) -> Answer:
    """It gets work again. Needs an operator with the scope `settings`."""
    return answered(request, order, machines.resume, machine_or_404(name))


@router.put("machines/{name}/windows", response=Outcome, summary="Set the windows of a machine")
@write
def set_windows(request: ApiRequest, name: str, order: WindowsOrder) -> Answer:
    """When it takes work by itself. Needs an operator with the scope `settings`."""
    return answered(request, order, machines.plan, machine_or_404(name), windows=order.windows, zone=order.zone)


@router.put("machines/{name}/shares", response=Outcome, summary="Set the shares of a machine's time")
@write
def set_shares(request: ApiRequest, name: str, order: SharesOrder) -> Answer:
    """How much of it each kind of work gets. Needs an operator with the scope `settings`."""
    return answered(request, order, machines.plan, machine_or_404(name), shares=order.shares)


@router.put("suites/{name}/trials", response=Outcome, summary="Set the trials of a suite")
@write
def set_trials(request: ApiRequest, name: str, order: TrialsOrder) -> Answer:
    """A version of the suite that differs in them only. Needs an operator with the scope `settings`."""
    if name not in (names := suite_names()):
        raise Http404(f"There is no suite {name!r}: there are {', '.join(names) or 'none'}.")
    return answered(request, order, suites.set_trials, name, trials=order.trials)


@router.post("projects/{slug}/untrack", response=Outcome, summary="Track a project no more")
@write
def untrack(request: ApiRequest, slug: str, order: Tried | None = None) -> Answer:
    """Its waiting runs are cancelled; what was measured stays. Needs the scope `settings` and the role owner."""
    return answered(request, order, projects.untrack, project_or_404(request, slug))


@router.post("projects/{slug}/hook/rotate", response=Outcome, summary="Replace the secret of a webhook")
@write
def rotate_secret(request: ApiRequest, slug: str, order: RotateOrder) -> Answer:
    """The answer has the new secret. Needs the scope `settings` and the role maintainer.

    With an Idempotency-Key it is refused: answers are kept with their keys, and a secret is not kept in the clear.
    """
    if HEADER in request.headers:
        raise Invalid("a new secret is in no answer that is kept: send no Idempotency-Key", parameter=HEADER)
    return answered(request, order, projects.rotate_secret, project_or_404(request, slug), days=order.days)


@router.get("projects/{slug}/deliveries", response=Page[DeliveryDocument], summary="List calls of a webhook")
def list_deliveries(
    request: ApiRequest,
    slug: str,
    paging: Query[Paging],
    status: Annotated[str, Field(pattern="^(received|processed|ignored|)$", description="only these")] = "",
) -> Page[DeliveryDocument]:
    """The newest first, without their bodies. Needs the role maintainer."""
    project = project_or_404(request, slug)
    access.require(request.auth, Role.MAINTAINER, project)
    rows = deliveries.list_calls(project, status)
    return page_of(request, rows, paging, lambda calls: map(DeliveryDocument.of, calls))


@router.post("projects/{slug}/deliveries/replay", response=Outcome, summary="Replay calls of a webhook")
@write
def replay_deliveries(request: ApiRequest, slug: str, order: ReplayOrder) -> Answer:
    """Each is taken as if it had just arrived. Needs the scope `settings` and the role maintainer."""
    return answered(request, order, projects.replay, project_or_404(request, slug), numbers=order.deliveries)


@router.post("projects/{slug}/deliveries/purge", response=Outcome, summary="Delete calls of a webhook")
@write
def purge_deliveries(request: ApiRequest, slug: str, order: PurgeOrder) -> Answer:
    """Those that wait for a look stay. Needs the scope `settings` and the role maintainer."""
    inputs = order.model_dump(exclude={"dry_run"})
    return answered(request, order, projects.purge, project_or_404(request, slug), **inputs)


@router.get("projects/{slug}/policies", response=list[PolicyDocument], summary="List planning policies")
def list_policies(request: ApiRequest, slug: str) -> list[PolicyDocument]:
    """Which commits of which branches are measured by themselves; without any, all are. Needs the role maintainer."""
    project = project_or_404(request, slug)
    access.require(request.auth, Role.MAINTAINER, project)
    rows = project.policies.order_by("branches").prefetch_related("machines")
    return [PolicyDocument.of(policy) for policy in rows]


@router.put("projects/{slug}/policies", response=Outcome, summary="Set a planning policy")
@write
def save_policy(request: ApiRequest, slug: str, order: PolicyOrder) -> Answer:
    """Make or replace the policy of a pattern of branches. Needs the scope `settings` and the role maintainer."""
    return answered(request, order, projects.save_policy, project_or_404(request, slug), policy=order.wanted())


@router.delete("projects/{slug}/policies", response=Outcome, summary="Remove a planning policy")
@write
def remove_policy(request: ApiRequest, slug: str, order: PolicyRemoval) -> Answer:
    """Let the other policies, or none, decide. Needs the scope `settings` and the role maintainer."""
    return answered(request, order, projects.remove_policy, project_or_404(request, slug), branches=order.branches)
