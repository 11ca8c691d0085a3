"""Queue single and paired runs, one per commit and machine; cancel those whose commits a force push has removed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.benchmarks.storing import usual_set
from speedtrack.projects.models import Branch, Commit, Position, Project
from speedtrack.runs.models import ROUTINE, Machine, PlanningPolicy, Reason, Run, RunEvent, RunQuerySet, Status
from speedtrack.runs.planning import gaps, policies
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

    ``ranks``: commit id -> position on its branch. The highest is measured first; history from its ends on, by halving.
    ``head``: id of the commit that is measured before all others.
    """
    newest_first = sorted(ranks, key=lambda commit: ranks[commit], reverse=True)
    step = -(-len(newest_first) // BACKLOG_CAP)
    priorities = [
        plan.priority or priority_of(plan.reason, commit == head, index % step == 0)
        for index, commit in enumerate(newest_first)
    ]
    positions = [ranks[commit] for commit in newest_first]
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
        "ranks": gaps.halved(positions[::-1])[::-1] if plan.reason == Reason.BACKFILL else positions,
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


class Plans:
    """The usual plans and the machines of policies, each read once for all branches of a look."""

    def __init__(self) -> None:
        self.made: dict[tuple[int | None, Reason], tuple[Plan, list[Machine]]] = {}

    def of(self, policy: PlanningPolicy, reason: Reason) -> tuple[Plan, list[Machine]]:
        """The plan of a policy of the look's project, and its machines. Raises DefinitionError."""
        key = (policy.pk, reason)
        if key not in self.made:
            self.made[key] = usual_plan(policy, reason), policies.machines_of(policy)
        return self.made[key]


def plan_branch(branch: Branch, commits: QuerySet[Commit], reason: Reason, plans: Plans | None = None) -> int:
    """Queue commits of a branch with the suite and on the machines of its policy. Return the number of new runs."""
    plan, machines = (plans or Plans()).of(policies.policy_of(branch), reason)
    ranks = dict(branch.positions.filter(commit__in=commits).values_list("commit_id", "number").order_by("number"))
    return plan_commits(plan, ranks, machines, branch.head_id) if ranks else 0


def usual_plan(policy: PlanningPolicy, reason: Reason) -> Plan:
    """The plan by which a policy measures commits. Raises DefinitionError."""
    return Plan(policy.project, *usual_set(policy.project, policies.suite_of(policy)), reason)


def demote_former_heads(project: Project) -> None:
    """Take the priority of a head from waiting runs of commits that are none any more: people want the newest first."""
    heads = project.branches.filter(deleted_at=None, head__isnull=False).values("head")
    waiting_runs = Run.objects.filter(project=project, status=Status.QUEUED, priority=PRIORITY["head"])
    waiting_runs.exclude(commit__in=heads).update(priority=PRIORITY["rest"])


def cancel_unreachable(project: Project, where: str = "any branch or tag", shas: Sequence[str] = ()) -> int:
    """Cancel the waiting runs of commits that are marked as unreachable. Return the number of runs.

    ``shas``: commits that have just left the branch ``where``, and count as well if no branch has them. Runs that a
    person asked for stay, and all runs where the project keeps such commits.
    """
    is_marked = Q(commit__unreachable_since__isnull=False)
    has_left = Q(~Exists(Position.objects.filter(commit=OuterRef("commit"))), commit__sha__in=shas)
    is_gone = is_marked | has_left if shas else is_marked
    waiting_runs = Run.objects.filter(is_gone, project=project, project__cancel_unreachable=True, canary=None)
    return queue.cancel_waiting(waiting_runs.exclude(reason__in=BY_HAND), f"{GONE} {where}")


def requeue_returned(project: Project) -> int:
    """Queue again the runs that were cancelled because their commits were gone, if a branch has these again.

    Return the number of runs.
    """
    on_branch = Position.objects.filter(commit=OuterRef("commit"), branch__tracked=True)
    back = cancelled_runs(project, GONE).filter(Exists(on_branch), commit__unreachable_since=None)
    for run in back:
        queue.retry(run, "a branch has the commit again")
    return len(back)


def cancelled_runs(project: Project, why: str) -> RunQuerySet:
    """The runs of a project, on the machines that measure it, that were cancelled last for a reason that begins so."""
    last = RunEvent.objects.filter(run=OuterRef("pk")).order_by("-pk").values("why")[:1]
    cancelled = Run.objects.filter(project=project, machine__projects=project, status=Status.CANCELLED)
    runs: RunQuerySet = cancelled.annotate(why=Subquery(last)).filter(why__startswith=why)
    return runs
