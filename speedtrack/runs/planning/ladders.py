"""When the ladders of a suite are measured: for a new release and once a day for the head, not for each commit."""

from datetime import timedelta

from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.benchmarks.storing import ladders_of, store_set, store_suite
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.models import Branch, Commit, Project
from speedtrack.projects.releases import newest_patches
from speedtrack.runs.fleet import pools
from speedtrack.runs.models import Reason, Run
from speedtrack.runs.planning import planning
from speedtrack.runs.scheduling.order import PRIORITY

DAY = timedelta(days=1)
NEWEST = 3  # minor versions whose releases get ladders by themselves


def plan_daily(project: Project) -> int:
    """Queue the ladders of the head if they are due. Cheap where they are not, as polls are frequent."""
    return plan_ladders(project) if head_of_the_day(project) else 0


def plan_ladders(project: Project) -> int:
    """Queue the ladders of new releases, and of the default branch's head once a day. Return the number of new runs.

    They wait until no push and no other commit of the history does. Each has a run of its own: all ladders of a shipped
    suite take a quarter of an hour, and what comes meanwhile waits for the run that has begun. Raises DefinitionError.
    """
    definition = load_suite(project.suite)
    if not any(section.rung for section in definition.benchmark):
        return 0
    suite, benchmarks = store_suite(project, definition)
    commits = new_releases(project)
    if head := head_of_the_day(project):
        commits.add(head)
    ranks, machines = ranks_of(project, commits), pools.machines_for(project)
    plans = [
        planning.Plan(project, suite, store_set(suite, rungs), Reason.BACKFILL, priority=PRIORITY["later"])
        for rungs in ladders_of(benchmarks)
    ]
    return sum(planning.plan_commits(plan, ranks, machines) for plan in plans)


def new_releases(project: Project) -> set[int]:
    """The commit ids of the newest patches of the newest minor versions, if made since the project is tracked."""
    tags = dict(project.tags.filter(is_new=True).values_list("name", "sha"))
    shas = [tags[name] for name in newest_patches(tags)[-NEWEST:]]
    return set(Commit.objects.filter(project=project, sha__in=shas).values_list("pk", flat=True))


def head_of_the_day(project: Project) -> int | None:
    """The id of the default branch's head; None if its ladders were planned before, or any within a day."""
    branch = Branch.followed(project)
    if branch is None or branch.head_id is None:
        return None
    ladder_runs = Run.objects.filter(project=project, reason=Reason.BACKFILL, benchmark_set__benchmarks__ladder__gt="")
    return (
        None if ladder_runs.filter(Q(created__gt=Now() - DAY) | Q(commit=branch.head_id)).exists() else branch.head_id
    )


def ranks_of(project: Project, commits: set[int]) -> dict[int, int]:
    """By commit id: its highest position on any branch; 0 for a commit on no branch."""
    ranks = dict.fromkeys(commits, 0)
    positions = Commit.objects.filter(project=project, pk__in=commits, positions__isnull=False)
    for commit, number in positions.values_list("pk", "positions__number"):
        ranks[commit] = max(ranks[commit], number)
    return ranks
