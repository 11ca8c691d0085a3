"""Measure a commit in pairs against its merge base with another one, because a program or a person asks for it.

Commits that the mirror has are queued at once; for others the process `git` fetches first, which may take minutes.
What is measured are pairs, which are no points of any line.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Max
from django.db.models.functions import Now

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.benchmarks.storing import store_set, store_suite, usual_benchmarks
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects import fetching, git
from speedtrack.projects.errors import NoSuchCommit, RepositoryError
from speedtrack.projects.models import Commit, Project
from speedtrack.projects.remotes import remote_of
from speedtrack.projects.sync import project_lock, store_commits
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.models import ACTIVE, Machine, PairedComparison, Reason, Run, Status
from speedtrack.runs.planning import planning
from speedtrack.runs.requests import byhand

log = logging.getLogger(__name__)


class NotComparable(Exception):
    """These two commits cannot be measured in pairs; the message says why."""


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
def ask(project: Project, asked: AskedComparison, by: User | None) -> PairedComparison:
    """Store a comparison, and queue its pairs at once if the mirror has both commits.

    Otherwise the process `git` fetches them and queues the pairs. Raises NoSuchThing, DefinitionError or NotComparable.
    """
    if project.untracked_at:
        raise NotComparable(f"{project} is not tracked: track it again first")
    machine = naming.machine_named(asked.machine) if asked.machine else None
    byhand.machines_to_measure(project, asked.machine)
    benchmarks_of(project, asked.benchmarks)
    comparison = PairedComparison.objects.create(
        project=project,
        head_name=asked.head,
        base_name=asked.base,
        benchmarks=list(dict.fromkeys(asked.benchmarks)),
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
    queued = 0
    for one in PairedComparison.objects.unplanned().select_related("project", "machine").order_by("pk"):
        with project_lock(one.project) as is_mine:
            if is_mine and PairedComparison.objects.unplanned().filter(pk=one.pk).exists():
                queued += plan_noting_failure(one)
    return queued


def plan_noting_failure(one: PairedComparison) -> int:
    try:
        return plan(one, partial(fetching.find_commit, one.project.slug, remote_of(one.project)))
    except (RepositoryError, DefinitionError, NoSuchThing, NotComparable) as e:
        log.warning("comparison of %s: %s", one, e)
        why = str(e)
    except Exception as e:  # a defect that one comparison triggers must not stop the others
        log.exception("comparison of %s: it could not be queued", one)
        why = f"{type(e).__name__}: {e} (a defect of SpeedTrack: its log says where)"
    PairedComparison.objects.filter(pk=one.pk).update(error=why.replace("\0", "")[:2000])
    return 0


def plan(one: PairedComparison, find: Callable[[str], str]) -> int:
    """Queue a comparison's pairs. Return the number of runs.

    ``find`` returns the commit id of a name, or raises NoSuchCommit.

    Waiting pairs of the same two commits are used instead of new ones. Raises RepositoryError, DefinitionError,
    NoSuchThing or NotComparable.
    """
    project = one.project
    head, other = find(one.head_name), find(one.base_name)
    base = git.merge_base(project.slug, other, head)
    if base == head:
        raise NotComparable(f"{one.head_name} adds nothing to {one.base_name}: it is in that history already")
    with transaction.atomic():
        commits = store_commits(project, [base, head])
        machines = byhand.machines_to_measure(project, one.machine.name if one.machine else None)
        suite, chosen = benchmarks_of(project, one.benchmarks)
        before = set(one.runs.values_list("pk", flat=True))
        own = queue_pairs(project, suite, chosen, (commits[base], commits[head]), machines)
        one.runs.add(*own)
        one.head, one.base = commits[head], commits[base]
        PairedComparison.objects.filter(pk=one.pk).update(planned_at=Now(), head=one.head, base=one.base)
        one.refresh_from_db(fields=["planned_at"])
    return len(set(own) - before)


def queue_pairs(
    project: Project, suite: Suite, chosen: BenchmarkSet, sides: tuple[Commit, Commit], machines: Sequence[Machine]
) -> list[int]:
    """The ids of the runs of a base and a head on these machines: paired runs that wait already, and new ones."""
    base, head = sides
    same = Run.objects.filter(base=base, commit=head, benchmark_set=chosen, reason=Reason.MANUAL)
    waiting = dict(same.filter(status=Status.QUEUED, machine__in=machines).values_list("machine", "pk"))
    last = same.aggregate(last=Max("round"))["last"]
    round_ = 0 if last is None else last + 1
    pairs = planning.Plan(
        project=project,
        suite=suite,
        benchmark_set=chosen,
        reason=Reason.MANUAL,
        base=base,
        round=round_,
        trials=planning.PAIRS,
        metrics=planning.METRICS_OF_PAIRS,
    )
    planning.plan_commits(pairs, {head.pk: 0}, [machine for machine in machines if machine.pk not in waiting])
    return [*waiting.values(), *same.filter(round=round_).values_list("pk", flat=True)]


def benchmarks_of(project: Project, names: Sequence[str]) -> tuple[Suite, BenchmarkSet]:
    """The project's suite, and the benchmarks with these names (without names: the usual ones). Raises NoSuchThing."""
    definition = load_suite(project.suite)
    suite, benchmarks = store_suite(project, definition)
    naming.check_known(suite, benchmarks, list(names))
    named = naming.benchmarks_named(benchmarks, list(names))
    return suite, store_set(suite, named or usual_benchmarks(definition, benchmarks))


def state_of(one: PairedComparison, runs: Sequence[Run]) -> str:
    """``fetching``, ``queued``, ``running``, ``done`` or ``failed``."""
    if one.error:
        return "failed"
    if one.planned_at is None:
        return "fetching"
    if all(run.done for run in runs):
        return "done" if any(run.status == Status.SUCCEEDED for run in runs) else "failed"
    is_begun = any(run.done or run.status in ACTIVE for run in runs)
    return "running" if is_begun else "queued"
