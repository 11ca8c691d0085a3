"""Measure a commit in pairs against its merge base with another one, because a program or a person asks for it.

Commits that the mirror has are queued at once; for others the process `git` fetches first, which may take minutes.
What is measured are pairs, which are no points of any line.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.functions import Now

from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.benchmarks.storing import store_set, store_suite, usual_benchmarks
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.errors import NoSuchCommit
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.remotes import remote_of
from speedtrack.projects.models import Project
from speedtrack.projects.sync import store_commits
from speedtrack.runs import naming
from speedtrack.runs.models import ACTIVE, PairedComparison, Reason, Run, Status
from speedtrack.runs.planning.questions import NotComparable, Question, plan_each, plan_pairs
from speedtrack.runs.requests import byhand


@dataclass(frozen=True)
class AskedComparison:
    """The options of a request for a comparison.

    Empty ``benchmarks``: the usual ones; no ``machine``: those of the project.
    """

    head: str
    base: str
    benchmarks: Sequence[str] = ()
    machine: str | None = None


@transaction.atomic
def ask(project: Project, request: AskedComparison, by: User | None) -> PairedComparison:
    """Store a comparison, and queue its pairs at once if the mirror has both commits.

    Otherwise the process `git` fetches them and queues the pairs. Raises NoSuchThing, DefinitionError or NotComparable.
    """
    if project.untracked_at:
        raise NotComparable(f"{project} is not tracked: track it again first")
    machine = naming.machine_named(request.machine) if request.machine else None
    byhand.machines_to_measure(project, request.machine)
    benchmarks_of(project, request.benchmarks)
    comparison = PairedComparison.objects.create(
        project=project,
        head_name=request.head,
        base_name=request.base,
        benchmarks=list(dict.fromkeys(request.benchmarks)),
        machine=machine,
        by=by,
    )
    with suppress(NoSuchCommit):  # it may be on the remote
        plan(comparison, partial(git.resolve_revision, project.slug))
    return comparison


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


def state_of(comparison: PairedComparison, runs: Sequence[Run]) -> str:
    """``fetching``, ``queued``, ``running``, ``done`` or ``failed``."""
    if comparison.error:
        return "failed"
    if comparison.planned_at is None:
        return "fetching"
    if all(run.done for run in runs):
        return "done" if any(run.status == Status.SUCCEEDED for run in runs) else "failed"
    is_begun = any(run.done or run.status in ACTIVE for run in runs)
    return "running" if is_begun else "queued"
