"""Decide by a branch's policy which commits of a push are queued now, which are put off, and which are left out.

A Deferral stores why a commit is not queued. One that is put off becomes a run once fewer commits wait than the policy
allows and some machine of the project has no history to measure (``pushes.fill_gaps``, a duty of the dispatcher); the
middle of the widest gap comes first. When newer commits arrive, waiting commits may be put off by the same rule. Tagged
commits are never put off.
"""

from collections.abc import Iterable
from datetime import timedelta
from zoneinfo import ZoneInfo

from django.db import transaction
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.benchmarks.storing import store_set, store_suite
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import git
from speedtrack.projects.models import Branch, Commit, MachinePolicy, Project
from speedtrack.projects.positions import heads, newest_of
from speedtrack.runs.models import Assignment, Deferral, Machine, PlanningPolicy, Reason, Run, RunQuerySet, Status
from speedtrack.runs.planning import gaps, planning, policies
from speedtrack.runs.planning.planning import Plans
from speedtrack.runs.planning.policies import SeenCommit
from speedtrack.runs.queue import queue
from speedtrack.runs.scheduling.order import PRIORITY

SUPERSEDED = "put off: enough newer commits wait"
FILLED_AT_ONCE = 5  # of a branch whose policy limits nothing
FILL_PAUSE = timedelta(seconds=20)  # between two looks at one policy
MOST_POSITIONS = 2**31  # of a branch, as Position.number has four bytes
NEAR = 1000  # positions around the candidates in which measured commits bound their gaps

Why = Deferral.Why


def plan_newest(branch: Branch, count: int, plans: Plans | None = None) -> int:
    """Queue the newest ``count`` commits of a branch as far as its policy measures them, and always its head.

    Return the number of runs.
    """
    if count <= 0:
        return 0
    path = newest_of(Branch.objects.filter(pk=branch.pk), min(count, MOST_POSITIONS))
    newest = list(path.values_list("commit", flat=True))
    return plan_pushed(branch, Commit.objects.filter(pk__in=newest), Reason.BACKFILL, with_head=True, plans=plans)


def plan_pushed(
    branch: Branch,
    commits: QuerySet[Commit],
    reason: Reason = Reason.PUSH,
    with_head: bool = False,
    plans: Plans | None = None,
) -> int:
    """Queue those commits of a branch that its policy measures now. Return the number of runs.

    Each of the others gets a Deferral with the reason. ``with_head``: the head is measured whatever the policy says
    about it.
    """
    policy = policies.policy_of(branch)
    if policy.takes_all:
        return planning.plan_branch(branch, commits, reason, plans)
    positions = dict(branch.positions.filter(commit__in=commits).values_list("commit_id", "number"))
    commits_by_id = seen_commits(branch.project, policy, positions)
    left_out = policies.judge(policy, commits_by_id)
    if with_head and branch.head_id:
        left_out.pop(branch.head_id, None)
    candidates = {pk: number for pk, number in positions.items() if pk not in left_out}
    always = {pk for pk in candidates if commits_by_id[pk].is_tagged} | ({branch.head_id} & candidates.keys())
    within = within_cap(branch, policy, candidates, {pk for pk in always if pk})
    put_off = dict.fromkeys(candidates.keys() - within, (Why.CAP, f"{policy.most_waiting} commits of {branch} waited"))
    store_deferrals(branch, left_out | put_off)
    return planning.plan_branch(branch, Commit.objects.filter(pk__in=within), reason, plans)


def seen_commits(project: Project, policy: PlanningPolicy, positions: dict[int, int]) -> dict[int, SeenCommit]:
    """By commit id: the facts by which a policy judges a commit. ``positions``: commit id -> position on its branch."""
    shas = dict(Commit.objects.filter(pk__in=positions).values_list("pk", "sha"))
    tagged = set(project.tags.filter(sha__in=shas.values()).values_list("sha", flat=True))
    paths = changed_paths(project, list(shas.values())) if policy.patterns else {}
    return {pk: SeenCommit(number, shas[pk] in tagged, paths.get(shas[pk])) for pk, number in positions.items()}


def changed_paths(project: Project, shas: list[str]) -> dict[str, list[str]]:
    """The paths that commits change; none if git cannot tell: then all of them are measured."""
    try:
        return git.changed_paths(project.slug, shas)
    except RepositoryError:
        return {}


def within_cap(branch: Branch, policy: PlanningPolicy, candidates: dict[int, int], always: set[int]) -> set[int]:
    """The chosen commits (id -> position) that may wait now, by the policy's limit.

    When there are more than the limit, those in the middle of the widest gaps are kept; other waiting commits are put
    off. Commits in ``always`` are kept in any case.
    """
    if policy.most_waiting is None:
        return set(candidates)
    queue_positions = waiting_commits(branch)
    free = {pk: number for pk, number in (candidates | queue_positions).items() if pk not in always}
    room = max(0, policy.most_waiting - len(always))
    if len(free) <= room:
        return set(candidates)
    by_number = {number: pk for pk, number in free.items()}
    bounds = measured_positions(branch, by_number) | {candidates[pk] for pk in always}
    fitting = {by_number[number] for number in gaps.widest_first(bounds, by_number, room)}
    supersede(
        branch, queue_positions.keys() - fitting - always, f"{policy.most_waiting} newer commits of {branch} waited"
    )
    return (candidates.keys() & fitting) | always


def waiting_commits(branch: Branch) -> dict[int, int]:
    """The untagged commits of a branch that wait to be measured for its line: commit id -> position."""
    queued_runs = replaceable(branch.project).filter(commit=OuterRef("commit"), status=Status.QUEUED)
    tagged = branch.project.tags.values("sha")
    untagged = branch.positions.filter(Exists(queued_runs)).exclude(commit__sha__in=tagged)
    return dict(untagged.values_list("commit_id", "number"))


def replaceable(project: Project) -> RunQuerySet:
    """The runs that newer commits may put off: not begun yet, and not given priority by a person."""
    return Run.objects.routine().filter(project=project, attempt=0, priority__lt=PRIORITY["manual"])


def measured_positions(branch: Branch, near: Iterable[int]) -> set[int]:
    """The positions near these that are measured, are being measured, or that a person asked for."""
    settled_runs = Run.objects.own().filter(commit=OuterRef("commit")).exclude(status=Status.CANCELLED)
    settled_runs = settled_runs.exclude(status=Status.QUEUED, priority__lt=PRIORITY["manual"])
    numbers = sorted(near)
    positions = branch.positions.filter(
        Exists(settled_runs), number__gte=numbers[0] - NEAR, number__lte=numbers[-1] + NEAR
    )
    return set(positions.values_list("number", flat=True))


def supersede(branch: Branch, commit_ids: Iterable[int], detail: str) -> None:
    """Put off waiting commits: cancel their runs and store a Deferral for each.

    ``detail``: the reason, for people.
    """
    ids = list(commit_ids)
    queue.cancel_waiting(replaceable(branch.project).filter(commit__in=ids), SUPERSEDED)
    store_deferrals(branch, dict.fromkeys(ids, (Why.CAP, detail)))


def store_deferrals(branch: Branch, why: dict[int, tuple[Why, str]]) -> None:
    Deferral.objects.bulk_create(
        [
            Deferral(project=branch.project, branch=branch, commit_id=pk, why=kind, detail=detail[:300])
            for pk, (kind, detail) in why.items()
        ],
        update_conflicts=True,
        unique_fields=["branch", "commit"],
        update_fields=["why", "detail"],
        batch_size=2000,
    )


def plan_deferred(branch: Branch, commit_ids: Iterable[int], reason: Reason = Reason.BACKFILL) -> int:
    """Queue deferred commits of a branch, and delete their deferrals. Return the number of runs."""
    ids = list(commit_ids)
    Deferral.objects.filter(branch=branch, commit__in=ids).delete()
    again = superseded_runs(branch.project, ids)
    for run in again:
        queue.retry(run, "there is room for it")
    new = planning.plan_branch(branch, Commit.objects.filter(pk__in=ids), reason)
    return len(again) + new


def superseded_runs(project: Project, commit_ids: Iterable[int]) -> RunQuerySet:
    """The runs of these commits that were put off for newer ones, and that nobody has cancelled since."""
    runs: RunQuerySet = planning.cancelled_runs(project, SUPERSEDED).routine().filter(commit__in=list(commit_ids))
    return runs


def plan_tagged(project: Project) -> int:
    """Queue the deferred commits that have been tagged since. Return the number of runs."""
    tagged = project.deferrals.filter(commit__sha__in=project.tags.values("sha")).select_related("branch__project")
    by_branch: dict[Branch, list[int]] = {}
    for deferral in tagged:
        by_branch.setdefault(deferral.branch, []).append(deferral.commit_id)
    return sum(plan_deferred(branch, ids) for branch, ids in by_branch.items())


def plan_new_tags(project: Project, shas: Iterable[str]) -> int:
    """Queue the commits of new tags that have no run yet, whatever the policies say. Return the number of runs.

    A commit on no tracked branch, such as a release on a branch that nobody tracks, is planned by the project's own
    policy.
    """
    commits = project.commits.filter(sha__in=set(shas))
    elsewhere = set(commits.values_list("pk", flat=True))
    if not elsewhere:
        return 0
    run_count = 0
    tracked = project.branches.filter(tracked=True, deleted_at=None).select_related("project")
    for branch in tracked.filter(positions__commit__in=elsewhere).distinct():
        of_branch = commits.filter(positions__branch=branch)
        run_count += planning.plan_branch(branch, of_branch, Reason.PUSH)
        elsewhere -= set(of_branch.values_list("pk", flat=True))
    newest = heads().filter(branch__project=project).aggregate(newest=Max("number"))["newest"] or 0
    policy = policies.own_policy(project)
    plan = planning.usual_plan(policy, Reason.PUSH)
    return run_count + planning.plan_commits(plan, dict.fromkeys(elsewhere, newest), policies.machines_of(policy))


def due_policies() -> QuerySet[PlanningPolicy]:
    """Policies whose put-off commits may be queued now: one of their machines has no history left to measure."""
    in_use = {"branch__tracked": True, "branch__deleted_at": None}
    put_off = Deferral.objects.put_off().filter(project=OuterRef("project"), **in_use)
    of_both = {"project": OuterRef(OuterRef("project")), "machine": OuterRef("pk")}
    backlog = Run.objects.routine().filter(status=Status.QUEUED, **of_both)
    own_machines = PlanningPolicy.machines.through.objects.filter(planningpolicy=OuterRef(OuterRef("pk")))
    assigned_elsewhere = Assignment.objects.filter(project=of_both["project"], pool=OuterRef("pool")).exclude(
        machine=OuterRef("pk")
    )
    measures = Exists(own_machines.filter(machine=OuterRef("pk"))) | ~Exists(own_machines) & ~(
        Q(projects__machine_policy=MachinePolicy.ONE) & Exists(assigned_elsewhere)
    )
    machines = Machine.objects.filter(measures, projects=OuterRef("project"), paused=False)
    without_work = machines.exclude(Exists(backlog))
    long_ago = Q(filled_at=None) | Q(filled_at__lt=Now() - FILL_PAUSE)
    limits = Q(most_waiting__isnull=False) | Q(fills_gaps=True)
    return PlanningPolicy.objects.filter(long_ago, limits, Exists(put_off), Exists(without_work))


@transaction.atomic
def fill_gaps_of(policy: PlanningPolicy) -> int:
    """Queue put-off commits of a policy's branches as long as its limit allows. Return the number of runs."""
    return sum(fill_branch(branch, policy) for branch in policies.branches_of(policy))


def fill_branch(branch: Branch, policy: PlanningPolicy) -> int:
    """Queue as many put-off commits of a branch as its policy allows beside those that wait already, widest gap first.

    Returns the number of runs.
    """
    put_off = Deferral.objects.put_off().filter(branch=branch, commit__positions__branch=branch)
    numbers = dict(put_off.values_list("commit__positions__number", "commit_id"))
    room = (policy.most_waiting or FILLED_AT_ONCE) - fewest_waiting(branch, policy)
    if not numbers or room <= 0:
        return 0
    bounds = measured_positions(branch, numbers) | set(waiting_commits(branch).values())
    fillers = gaps.widest_first(bounds, numbers, room)
    return plan_deferred(branch, [numbers[number] for number in fillers])


def fewest_waiting(branch: Branch, policy: PlanningPolicy) -> int:
    """The length of the shortest queue that a machine of the policy has for this branch, in runs.

    The shortest counts, so that a machine that is silent does not hold up the others.
    """
    routine = Run.objects.routine().filter(status=Status.QUEUED, commit__positions__branch=branch)
    counts = dict(routine.order_by().values_list("machine").annotate(count=Count("commit", distinct=True)))
    return min((counts.get(machine.pk, 0) for machine in policies.machines_of(policy) if not machine.paused), default=0)


def plan_extended(project: Project) -> int:
    """Queue the branch heads with the extended benchmarks where the policy's time of day has come.

    Return the number of runs.
    """
    due = [policy for policy in project.policies.exclude(extended_at=None) if extended_is_due(policy)]
    return sum(plan_extended_of(policy) for policy in due)


def extended_is_due(policy: PlanningPolicy) -> bool:
    now = timezone.now().astimezone(ZoneInfo(policy.zone))
    assert policy.extended_at is not None
    return (policy.extended_on is None or policy.extended_on < now.date()) and now.time() >= policy.extended_at


@transaction.atomic
def plan_extended_of(policy: PlanningPolicy) -> int:
    """Queue the heads of a policy's branches with all benchmarks of its suite except ladders.

    Return the number of runs.

    Ladders have their own schedule. Raises DefinitionError; the next look then tries again.
    """
    today = timezone.now().astimezone(ZoneInfo(policy.zone)).date()
    definition = load_suite(policies.suite_of(policy))
    suite, benchmarks = store_suite(policy.project, definition)
    extended_set = store_set(suite, [benchmark for benchmark in benchmarks if not benchmark.ladder])
    plan = planning.Plan(policy.project, suite, extended_set, Reason.BACKFILL, priority=PRIORITY["rest"])
    heads = {branch.head_id: branch for branch in policies.branches_of(policy) if branch.head_id}
    ranks = dict(policy.project.commits.filter(pk__in=heads).values_list("pk", F("positions__number")))
    run_count = planning.plan_commits(plan, ranks, policies.machines_of(policy)) if ranks else 0
    PlanningPolicy.objects.filter(pk=policy.pk).update(extended_on=today)
    return run_count


def decide_again(project: Project) -> int:
    """Judge all deferred commits of a project again by its present policies. Return the number of runs queued."""
    run_count = 0
    for branch in project.branches.filter(deferrals__isnull=False).select_related("project").distinct():
        ids = list(branch.deferrals.values_list("commit_id", flat=True))
        on_it = list(branch.positions.filter(commit__in=ids).values_list("commit_id", flat=True))
        branch.deferrals.all().delete()
        run_count += plan_pushed(branch, Commit.objects.filter(pk__in=on_it), Reason.BACKFILL)
        remaining = set(on_it) - set(branch.deferrals.values_list("commit_id", flat=True))
        again = superseded_runs(project, remaining)
        for run in again:
            queue.retry(run, "its policy was changed")
        run_count += len(again)
    return run_count
