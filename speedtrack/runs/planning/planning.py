"""Queue single and paired runs, one per commit and machine; cancel those whose commits a force push has removed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import OuterRef, Q, QuerySet, Subquery

from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.benchmarks.storing import usual_set
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.runs.models import ROUTINE, Machine, PlanningPolicy, Reason, Run, RunEvent, Status
from speedtrack.runs.planning import policies
from speedtrack.runs.queue import queue
from speedtrack.runs.scheduling.order import PRIORITY

BACKLOG_CAP = 200  # commits of one plan, evenly spread, that keep their priority; the others are measured later
BY_HAND = (Reason.MANUAL, Reason.PULL)  # a person asked for them
GONE = "the commit is no longer on"


@dataclass(frozen=True)
class Plan:
    """What to queue, and why: the benchmarks of a suite, the reason, and the base of a pair.

    ``metrics``: those that the runs are for (empty: the headline). A trial is repeated if its flags void one of them.
    """

    project: Project
    suite: Suite
    benchmark_set: BenchmarkSet
    reason: Reason
    base_id: int | None = None
    round: int = 0
    trials: int | None = None
    priority: int | None = None
    metrics: Sequence[str] = ()


# The runs of all commits on all machines at once: a push may bring thousands. Machine by machine, in the order of the
# commits; where a push or a backfill has queued a run already, the other one of them queues none.
PLANNED = """
INSERT INTO runs_run (project_id, commit_id, base_id, machine_id, suite_id, benchmark_set_id, reason, round, trials,
                      metrics, status, priority, rank, attempt, lease_token, error, floors_due)
SELECT %(project)s, c.id, %(base)s, m.id, %(suite)s, %(benchmark_set)s, %(reason)s, %(round)s, %(trials)s,
       %(metrics)s, 'queued', c.priority, c.rank, 0, 0, '', false
  FROM unnest(%(machines)s::bigint[]) WITH ORDINALITY AS m (id, place)
 CROSS JOIN unnest(%(commits)s::int[], %(priorities)s::int[], %(ranks)s::int[])
            WITH ORDINALITY AS c (id, priority, rank, place)
 WHERE NOT EXISTS (
       SELECT FROM runs_run r
        WHERE r.commit_id = c.id AND r.base_id IS NULL AND r.machine_id = m.id
          AND r.benchmark_set_id = %(benchmark_set)s AND r.reason = ANY (%(instead)s))
 ORDER BY m.place, c.place
    ON CONFLICT DO NOTHING
"""


def plan_commits(plan: Plan, ranks: dict[int, int], machines: Iterable[Machine], head: int | None = None) -> int:
    """Queue one run per commit and machine, unless it exists. Return the number of new runs.

    ``ranks``: commit id -> position on its branch. ``head``: id of the commit that is measured first.
    """
    newest_first = sorted(ranks, key=lambda commit: ranks[commit], reverse=True)
    step = -(-len(newest_first) // BACKLOG_CAP)
    priorities = [
        plan.priority or priority_of(plan.reason, commit == head, index % step == 0)
        for index, commit in enumerate(newest_first)
    ]
    columns: dict[str, Any] = {
        "project": plan.project.pk,
        "base": plan.base_id,
        "suite": plan.suite.pk,
        "benchmark_set": plan.benchmark_set.pk,
        "reason": plan.reason.value,
        "round": plan.round,
        "trials": plan.trials or plan.suite.definition["trials"],
        "metrics": list(plan.metrics),
        "machines": [machine.pk for machine in machines],
        "commits": newest_first,
        "priorities": priorities,
        "ranks": [ranks[commit] for commit in newest_first],
        "instead": [reason.value for reason in ROUTINE] if plan.reason in ROUTINE else [],
    }
    with connection.cursor() as cursor:
        cursor.execute(PLANNED, columns)
        return int(cursor.rowcount)


def priority_of(reason: Reason, is_head: bool, in_step: bool) -> int:
    if reason.value in PRIORITY and reason not in ROUTINE:
        return PRIORITY[reason.value]
    usual = "rest" if reason == Reason.PUSH else "backfill"
    return PRIORITY["head" if is_head else usual if in_step else "later"]


def plan_branch(branch: Branch, commits: QuerySet[Commit], reason: Reason) -> int:
    """Queue commits of a branch with the suite and on the machines of its policy. Return the number of new runs.

    Waiting runs of commits that are no longer the head of a branch lose their priority: people want the newest first.
    """
    project, policy = branch.project, policies.policy_of(branch)
    plan = usual_plan(policy, reason)
    ranks = dict(branch.positions.filter(commit__in=commits).values_list("commit_id", "number").order_by("number"))
    if not ranks:
        return 0
    head = branch.head_id if branch.head_id in ranks else None
    if head:
        heads = project.branches.filter(deleted_at=None, head__isnull=False).values("head")
        Run.objects.filter(project=project, status=Status.QUEUED, priority=PRIORITY["head"]).exclude(
            commit__in=heads
        ).update(priority=PRIORITY["rest"])
    return plan_commits(plan, ranks, policies.machines_of(policy), head)


def usual_plan(policy: PlanningPolicy, reason: Reason) -> Plan:
    """The plan by which a policy measures commits. Raises DefinitionError."""
    return Plan(policy.project, *usual_set(policy.project, policies.suite_of(policy)), reason)


def cancel_unreachable(branch: Branch, shas: list[str]) -> int:
    """Cancel the waiting runs of commits that no branch contains any more. Return the number of runs.

    ``shas``: commits that have just left all branches; commits that are marked as unreachable count as well. Runs that
    a person asked for stay, and all runs where the project keeps such commits.
    """
    if not branch.project.cancel_unreachable:
        return 0
    unreachable = Q(commit__sha__in=shas, commit__positions=None)
    queued_runs = Run.objects.filter(project=branch.project, status=Status.QUEUED, canary=None)
    gone = queued_runs.filter(unreachable | Q(commit__unreachable_since__isnull=False)).exclude(reason__in=BY_HAND)
    for run in gone:
        queue.cancel(run, f"{GONE} {branch}")
    return len(gone)


def requeue_returned(branch: Branch, commits: QuerySet[Commit]) -> int:
    """Queue again the runs that were cancelled because these commits were gone. Return the number of runs."""
    cancelled = Run.objects.filter(project=branch.project, status=Status.CANCELLED, commit__in=commits)
    last = RunEvent.objects.filter(run=OuterRef("pk")).order_by("-pk").values("why")[:1]
    back = cancelled.annotate(why=Subquery(last)).filter(why__startswith=GONE, commit__unreachable_since=None)
    for run in back:
        queue.retry(run, f"the commit is on {branch} again")
    return len(back)
