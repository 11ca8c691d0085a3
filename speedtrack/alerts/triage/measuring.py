"""Measure because a person on a page asks for it: a single commit, or two commits against each other in pairs."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from speedtrack.benchmarks.models import Benchmark
from speedtrack.benchmarks.storing import store_set, usual_set
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Machine, Reason, Run
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.requests.byhand import RunSelection, queue_by_hand

MOST_BENCHMARKS = 8  # of one paired run: each takes about two minutes


class NotMeasurable(Exception):
    """Nothing can be queued; the message says why."""


@dataclass(frozen=True)
class RequestedRun:
    """The run that a person's request led to. ``is_new``: it was queued by this request."""

    run: Run
    is_new: bool


@transaction.atomic
def measure_pair(base: Commit, head: Commit, machine_id: int, names: Sequence[str]) -> RequestedRun:
    """Queue pairs of two commits for some benchmarks, the first MOST_BENCHMARKS of them, unless such a run waits.

    They are those of the suite with which the machine last measured the head. Raises NotMeasurable.
    """
    machine = Machine.objects.select_for_update().get(pk=machine_id)  # of two requests, the second sees the first's run
    if machine.outside:
        raise NotMeasurable(f"{machine} has no runner here: its results are sent in")
    own = Run.objects.own().filter(commit=head, machine=machine, project=head.project_id)
    measured_runs = own.filter(attempts__measurements__accepted=True).select_related("suite")
    run = measured_runs.order_by("-id").first()
    if run is None:
        raise NotMeasurable(f"{machine} has not measured {head.short} yet: measure that first")
    unique_names = list(dict.fromkeys(names))
    rows = Benchmark.objects.filter(sets__runs=run, name__in=unique_names).order_by("pk").distinct()
    by_name = {benchmark.name: benchmark for benchmark in rows}
    benchmarks = [by_name[name] for name in unique_names if name in by_name][:MOST_BENCHMARKS]
    if not benchmarks:
        raise NotMeasurable(f"none of these benchmarks is in the suite that measured {head.short} on {machine}")
    question = Question(base.pk, head.pk, machine, run.suite, store_set(run.suite, benchmarks), Reason.MANUAL)
    waiting_run = question.runs.filter(benchmark_set=question.benchmarks).unfinished().last()
    return RequestedRun(waiting_run or plan_pairs(question), is_new=waiting_run is None)


@transaction.atomic
def measure_commit(commit: Commit, machine_id: int | None = None) -> RequestedRun:
    """Queue a commit's usual benchmarks on all machines of its project, or on one, unless such a run waits.

    Raises NotMeasurable, or DefinitionError for an invalid suite.
    """
    project = commit.project
    candidates = project.machines.select_for_update().order_by("pk")
    machines = list(candidates.filter(pk=machine_id) if machine_id else candidates)
    if not machines:
        raise NotMeasurable(f"no machine measures {project.name}: add one first")
    own = Run.objects.own().filter(project=project, commit=commit, machine__in=machines)
    if waiting_run := own.unfinished().order_by("id").first():
        return RequestedRun(waiting_run, is_new=False)
    queue_by_hand(RunSelection(project, *usual_set(project, project.suite), machines, {commit.pk: 0}))
    return RequestedRun(own.latest("id"), is_new=True)
