"""What people ask of the queue: runs of commits, and what becomes of a run, a pull request's head, a bisection."""

from collections.abc import Callable

from django.contrib.auth.models import User

from speedtrack.alerts.bisections import bisecting
from speedtrack.alerts.models import Bisection
from speedtrack.alerts.triage.measuring import RequestedRun
from speedtrack.operations.performing import Actor, Done, Ended, operation
from speedtrack.projects.models import Project, PullRequest
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.models import PairedComparison, Run
from speedtrack.runs.planning import pullrequests
from speedtrack.runs.requests import byhand, comparing
from speedtrack.runs.requests.byhand import RunSelection
from speedtrack.runs.requests.comparing import AskedComparison


@operation("run.queue", is_atomic=False)
def queue(
    actor: Actor,
    project: Project,
    select: Callable[[], RunSelection],
    order: str,
    reason: str = "",
    verb: Callable[[RunSelection], int] = byhand.queue_by_hand,
) -> Done:
    """Queue runs of commits. ``select`` chooses them, and may fetch. ``order``: what was asked for, in words.
    ``verb``: queues the selection.

    Raises NoSuchThing, RepositoryError and DefinitionError.
    """
    selection = select()
    count, commits = verb(selection), len(selection.ranks)
    sentence = f"{count} run{'s' * (count != 1)} of {commits} commit{'s' * (commits != 1)} queued"
    changes = {"runs": (0, count), "commits": (0, commits), "reason": (None, reason or None)}
    return Done(sentence, order, changes, (selection, count))


@operation("run.queue")
def measure_again(actor: Actor, project: Project, ask: Callable[[], RequestedRun]) -> Done:
    """Queue what ``ask`` wants to be measured again. The row is the run. Raises NotMeasurable and DefinitionError."""
    request = ask()
    run, state = request.run, "is queued" if request.is_new else "was queued before"
    target = f"run {run.pk} of {run.commit.short}"
    return Done(f"run {run.pk} {state} on {run.machine}", target, row=run, is_change=request.is_new)


@operation("run.profile")
def profile(actor: Actor, project: Project, plan: Callable[[], Run]) -> Done:
    """Queue a run, planned by ``plan``, that profiles both sides of a change."""
    run = plan()
    return Done(f"run {run.pk} is queued on {run.machine}; its page will show the profiles", f"run {run.pk}", row=run)


@operation("comparison.create")
def compare(actor: Actor, project: Project, request: AskedComparison, reason: str = "") -> Done:
    """Measure two commits in pairs; the row is the comparison.

    Raises NoSuchThing, DefinitionError and NotComparable.
    """
    comparison = comparing.ask(project, request, actor.user)
    changes = {"benchmarks": (None, list(request.benchmarks)), "reason": (None, reason)}
    return Done(f"{comparison} is asked for", comparison, changes, comparison)


@operation("comparison.try")
def try_patch(actor: Actor, project: Project, request: AskedComparison, reason: str = "") -> Done:
    """Measure a patch in pairs; the row is the comparison.

    The patch of a person who may not let foreign code be built waits for somebody who may. Raises NoSuchThing,
    RepositoryError, DefinitionError and NotComparable.
    """
    is_approved = actor.may("comparison.create", project)
    comparison = comparing.ask(project, request, actor.user, is_approved)
    sentence = f"the patch {'is measured in pairs' if is_approved else 'waits for the approval of a maintainer'}"
    changes = {"benchmarks": (None, list(request.benchmarks)), "reason": (None, reason or None)}
    return Done(sentence, comparison, changes, comparison)


@operation("comparison.approve")
def approve_comparison(actor: Actor, comparison: PairedComparison, head: str) -> Done:
    """Let a patch be built and measured. Raises NotApprovable, NoSuchThing, RepositoryError and DefinitionError."""
    comparison = comparing.approve(comparison, head)
    return Done("the patch is approved: it is measured in pairs", comparison, {"head": (None, head)}, comparison)


@operation("pull.approve", is_atomic=False)
def approve(actor: Actor, pull: PullRequest, head: str, reason: str = "") -> Done:
    """Let the machines measure a head of a pull request. Raises NotApprovable."""
    verb = pullrequests.approve_as_fetched if actor.dry_run else pullrequests.approve
    approval = verb(pull, head, actor.user)
    sentence = f"{approval} is approved: its runs are queued once its head is fetched"
    changes = {"head": (None, approval.head_sha), "reason": (None, reason or None)}
    return Done(sentence, f"{pull.project} #{pull.number}", changes, approval)


@operation("run.cancel")
def cancel(actor: Actor, run: Run) -> Done:
    """Cancel a run. Raises Ended."""
    return act(run, byhand.cancel_run)


@operation("run.retry")
def retry(actor: Actor, run: Run) -> Done:
    """Queue a failed or cancelled run again. Raises Ended."""
    return act(run, byhand.retry_run)


@operation("run.raise")
def let_be_next(actor: Actor, run: Run) -> Done:
    """Let a waiting run be the next of its machine. Raises Ended."""
    return act(run, byhand.raise_run)


def act(run: Run, verb: Callable[[int], str]) -> Done:
    before = run.status
    try:
        sentence = verb(run.pk)
    except NoSuchThing as e:
        raise Ended(str(e)) from None
    run.refresh_from_db(fields=["status"])
    return Done(sentence, f"run {run.pk}", {"status": (before, run.status)}, run)


#: By the names that pages and commands give them.
RUN_ACTIONS = {"retry": retry, "cancel": cancel, "raise": let_be_next}


@operation("bisection.begin")
def begin_bisection(actor: Actor, project: Project, start: Callable[[User | None], Bisection]) -> Done:
    """Search for the commit of a change. ``start`` begins it for a person. Raises NotMeasurable and DefinitionError."""
    bisection = start(actor.user)
    target = f"bisection {bisection.pk}: {bisection.before.short}..{bisection.commit.short}"
    return Done(bisecting.bisection_in_words(bisection), target, row=bisection)


@operation("bisection.stop")
def stop_bisection(actor: Actor, bisection: Bisection) -> Done:
    """End a bisection, and cancel what waits for it alone. Raises Ended."""
    if bisection.ended_at is not None:
        raise Ended(f"bisection {bisection.pk} has ended already")
    by = f"stopped by {actor.user or 'a command'}"
    return Done(bisecting.stop(bisection, by), f"bisection {bisection.pk}", row=bisection)
