"""Measure a commit in pairs against its merge base with another one, because a program or a person asks for it.

A patch is a commit of the mirror that no branch has. Commits that the mirror has are queued at once; for others the
process `git` fetches first, which may take minutes. What is measured are pairs, which are no points of any line.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.benchmarks.storing import store_set, store_suite, usual_benchmarks
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.errors import NoSuchCommit, UnusablePatch
from speedtrack.projects.mirrors import fetching, git, housekeeping, patches
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import Commit, Project
from speedtrack.projects.sync import store_commits
from speedtrack.runs import naming
from speedtrack.runs.models import ACTIVE, Approval, Canary, PairedComparison, Reason, Run, Status
from speedtrack.runs.planning import approvals
from speedtrack.runs.planning.questions import NotComparable, Question, plan_each, plan_pairs
from speedtrack.runs.requests import byhand

KEPT_FOR = timedelta(days=90)  # commits that no branch has; what was measured of them stays


@dataclass(frozen=True)
class AskedComparison:
    """The options of a request for a comparison.

    ``patch``: the diff against ``base`` that is measured instead of ``head``. Empty ``benchmarks``: the usual ones; no
    ``machine``: those of the project.
    """

    head: str
    base: str
    benchmarks: Sequence[str] = ()
    machine: str | None = None
    patch: str = ""


@transaction.atomic
def ask(project: Project, request: AskedComparison, by: User | None, is_approved: bool = True) -> PairedComparison:
    """Store a comparison, and queue its pairs at once if it is approved and the mirror has both commits.

    Otherwise the process `git` fetches them and queues the pairs. Raises NoSuchThing, DefinitionError, NotComparable,
    or, for a patch, RepositoryError.
    """
    approvals.check_tracked(project)
    machine = naming.machine_named(request.machine) if request.machine else None
    byhand.machines_to_measure(project, request.machine)
    benchmarks_of(project, request.benchmarks)
    base, head = commits_of_patch(project, request, by) if request.patch else (None, None)
    comparison = PairedComparison.objects.create(
        project=project,
        head_name=head.sha if head else request.head,
        base_name=request.base,
        head=head,
        base=base,
        is_approved=is_approved,
        benchmarks=list(dict.fromkeys(request.benchmarks)),
        machine=machine,
        by=by,
    )
    if is_approved:
        with suppress(NoSuchCommit):  # it may be on the remote
            plan(comparison, partial(git.resolve_revision, project.slug))
    return comparison


def commits_of_patch(project: Project, request: AskedComparison, by: User | None) -> tuple[Commit, Commit]:
    """The commit that a patch was made from, and that of the patch. Raises RepositoryError.

    Of the base all code counts as approved, so it must be a part of the repository and no other patch.
    """
    base = git.resolve_revision(project.slug, request.base)
    if git.unreachable(project.slug, [base]):
        raise UnusablePatch(
            f"{base[:10]} is on no tracked branch and has no tag: make the patch from a commit that is pushed"
        )
    head = patches.commit_patch(project.slug, base, request.patch, by.get_username() if by else "SpeedTrack")
    transaction.on_commit(partial(patches.keep, project.slug, head))
    commits = store_commits(project, [base, head])
    return commits[base], commits[head]


@transaction.atomic
def approve(comparison: PairedComparison, head_sha: str) -> PairedComparison:
    """Let a comparison be built and measured whose head has this whole commit id. Raises NotApprovable."""
    comparison = (
        PairedComparison.objects.select_for_update(of=["self"])
        .select_related("project", "head", "machine")
        .get(pk=comparison.pk)
    )
    approvals.check_tracked(comparison.project)
    if comparison.is_approved or comparison.head is None:
        raise approvals.NotApprovable(f"comparison {comparison.pk} needs no approval")
    approvals.check_head(f"comparison {comparison.pk}", comparison.head.sha, head_sha)
    comparison.is_approved = True
    comparison.save(update_fields=["is_approved"])
    plan(comparison, partial(git.resolve_revision, comparison.project.slug))
    return comparison


def tidy_mirror(project: Project) -> None:
    """Once a day: let git delete the requested commits that nothing needs any more, and pack the mirror."""
    if housekeeping.is_due(project.slug):
        housekeeping.tidy(project.slug, partial(needed_commits, project))


def needed_commits(project: Project, shas: Collection[str]) -> set[str]:
    """The commit ids among these that were requested within KEPT_FOR, or that a run or canary still needs."""
    since = Now() - KEPT_FOR
    of_row = OuterRef("pk")
    runs = Run.objects.filter(Q(created__gt=since) | Q(status__in=(Status.QUEUED, *ACTIVE)), project=project)
    comparisons = PairedComparison.objects.filter(project=project, created__gt=since)
    approvals = Approval.objects.filter(at__gt=since)
    canaries = Canary.objects.filter(retired_at=None)
    needed = Commit.objects.filter(
        Exists(runs.filter(commit=of_row))
        | Exists(runs.filter(base=of_row))
        | Exists(comparisons.filter(Q(head=of_row) | Q(base=of_row)))
        | Exists(approvals.filter(head=of_row))
        | Exists(canaries.filter(commit=of_row)),
        project=project,
        sha__in=shas,
    )
    return set(needed.values_list("sha", flat=True))


def plan_asked() -> int:
    """Fetch and queue all comparisons that wait for it. Return the number of runs.

    A failure is stored on its comparison.
    """
    return plan_each(PairedComparison.objects.unplanned().select_related("project", "machine"), plan_fetched)


def plan_fetched(comparison: PairedComparison) -> int:
    """Queue a comparison's pairs. Commits that the mirror lacks are fetched, which may take minutes."""
    return plan(comparison, partial(fetching.find_commit, comparison.project.slug, remote_of(comparison.project)))


def plan(comparison: PairedComparison, find: Callable[[str], str]) -> int:
    """Queue a comparison's pairs. Return the number of runs.

    ``find`` returns the commit id of a name, or raises NoSuchCommit.

    Waiting pairs of the same two commits are used instead of new ones. Raises RepositoryError, DefinitionError,
    NoSuchThing or NotComparable.
    """
    project = comparison.project
    head, named_base = find(comparison.head_name), find(comparison.base_name)
    base = git.merge_base(project.slug, named_base, head)
    if base == head:
        raise NotComparable(
            f"{comparison.head_name} adds nothing to {comparison.base_name}: it is in that history already"
        )
    with transaction.atomic():
        commits = store_commits(project, [base, head])
        machines = byhand.machines_to_measure(project, comparison.machine.name if comparison.machine else None)
        suite, benchmark_set = benchmarks_of(project, comparison.benchmarks)
        before = set(comparison.runs.values_list("pk", flat=True))
        ends = commits[base].pk, commits[head].pk
        own = [waiting_or_new(Question(*ends, each, suite, benchmark_set, Reason.MANUAL)) for each in machines]
        comparison.runs.add(*own)
        comparison.head, comparison.base = commits[head], commits[base]
        PairedComparison.objects.filter(pk=comparison.pk).update(
            planned_at=Now(), head=comparison.head, base=comparison.base
        )
        comparison.refresh_from_db(fields=["planned_at"])
    return len({run.pk for run in own} - before)


def waiting_or_new(question: Question) -> Run:
    """The run of a question that waits already, otherwise a new one."""
    return question.runs.filter(benchmark_set=question.benchmarks, status=Status.QUEUED).last() or plan_pairs(question)


def benchmarks_of(project: Project, names: Sequence[str]) -> tuple[Suite, BenchmarkSet]:
    """The project's suite, and the benchmarks with these names (without names: the usual ones). Raises NoSuchThing."""
    definition = load_suite(project.suite)
    suite, benchmarks = store_suite(project, definition)
    naming.check_known(suite, benchmarks, list(names))
    selection = naming.benchmarks_named(benchmarks, list(names))
    return suite, store_set(suite, selection or usual_benchmarks(definition, benchmarks))


def error_of(comparison: PairedComparison, runs: Sequence[Run]) -> str:
    """Why a comparison failed; empty if it did not."""
    is_failed = state_of(comparison, runs) == "failed"
    return comparison.error or "; ".join(f"run {run.pk}: {run.error}" for run in runs if is_failed and run.error)


def state_of(comparison: PairedComparison, runs: Sequence[Run]) -> str:
    """``unapproved``, ``fetching``, ``queued``, ``running``, ``done`` or ``failed``."""
    if comparison.error:
        return "failed"
    if not comparison.is_approved:
        return "unapproved"
    if comparison.planned_at is None:
        return "fetching"
    if all(run.done for run in runs):
        return "done" if any(run.status == Status.SUCCEEDED for run in runs) else "failed"
    is_begun = any(run.done or run.status in ACTIVE for run in runs)
    return "running" if is_begun else "queued"
