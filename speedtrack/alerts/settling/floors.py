"""What idle machines measure.

First more pairs for a suspicion that pairs have left open, then sweeps (``sweeps``). Then A/A runs, a commit against
itself: they show the machine's noise, and how small a change it can detect. They are planned for every machine and
project every AA_EVERY_DAYS, and when the machine or the suite's benchmarks have changed. A paired run of two commits
counts as an A/A run if both built the same program.
"""

from dataclasses import replace
from datetime import timedelta
from itertools import product

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from speedtrack.alerts.lines import lines, sensitivity
from speedtrack.alerts.lines.effects import EffectsOfProjects
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.lines.waiting import runs_with_due_floors, unasked_machines
from speedtrack.alerts.models import NoiseFloor
from speedtrack.alerts.pairs.pairing import sample_pairs
from speedtrack.alerts.settling import sweeps
from speedtrack.alerts.settling.confirm import measure_further
from speedtrack.alerts.settling.verdicts import LEVEL
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.metrics import COUNTED, METRICS, WATCHED
from speedtrack.benchmarks.storing import definition_of, store_set, usual_set
from speedtrack.projects.models import Project
from speedtrack.runs.models import Machine, Measurement, Reason, Run, Series
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.requests.byhand import RunSelection
from speedtrack.runs.scheduling.order import PRIORITY
from speedtrack.stats.noise.floor import counts_floor, noise_floor

AA_PAIRS = 10  # of a run: their standard deviation is known to a quarter
AA_COUNTS = 8  # of each side, where instructions are counted: of two equally likely levels 1 run in 256 misses one


def plan_idle_work() -> int:
    """Queue a due paired run on every idle machine. Return the number of runs. Safe to run any number of times."""
    count = 0
    for machine in unasked_machines():
        Machine.objects.filter(pk=machine.pk).update(aa_looked_at=Now())
        count += (
            measure_further(machine) or sweeps.plan_sweep(machine) or (settings.AA_EVERY_DAYS > 0 and plan_one(machine))
        )
    return count


def plan_one(machine: Machine) -> bool:
    """Queue one due paired run on this machine. Return whether there was one.

    One at a time, so that a push does not wait for many.
    """
    for project in machine.projects.all():
        runs = measured_runs(machine, project)
        newest = newest_point(runs)
        if newest is None:
            continue
        head = runs.order_by("-rank", "-ended_at")[0].commit_id
        try:
            question = Question(head, head, machine, *usual_set(project, project.suite), Reason.AA)
            if due := next((own for own in noise_questions(question) if is_due(own, newest)), None):
                plan_pairs(due)
                return True
        except DefinitionError:
            continue  # its suite became invalid: whoever tracks or pushes is told
    return False


def measured_runs(machine: Machine, project: Project) -> QuerySet[Run]:
    """The machine's ended runs with points of the project's lines."""
    points = lines.point_measurements().filter(attempt__run=OuterRef("pk"))
    runs = Run.objects.filter(machine=machine, project=project, ended_at__isnull=False)
    return runs.filter(Exists(points)).select_related("commit")


def newest_point(runs: QuerySet[Run]) -> Measurement | None:
    """A stored point of the run that ended last; None without one.

    Only that run's measurements are sorted: they are few, those of all runs are not.
    """
    run = runs.order_by("-ended_at").first()
    if run is None:
        return None
    points = lines.point_measurements().filter(attempt__run=run).select_related("series", "attempt")
    return max(points, key=lambda point: point.pk)


def noise_questions(question: Question) -> list[Question]:
    """A question of a commit about itself: in pairs, and by counts of the benchmarks whose instructions are counted.

    These are two, because a run measures either pairs or counts.
    """
    definition = definition_of(question.suite.pk)
    counted_names = [section.name for section in definition.benchmark if definition.functions_of(section)]
    questions = [replace(question, pairs=AA_PAIRS, metrics=WATCHED)]
    if with_counts := list(question.benchmarks.benchmarks.filter(name__in=counted_names)):
        counts = store_set(question.suite, with_counts)
        questions.append(replace(question, benchmarks=counts, pairs=AA_COUNTS, metrics=COUNTED))
    return questions


def is_due(question: Question, newest: Measurement) -> bool:
    """Return whether the last A/A run that asked this is too old, or was made in another environment."""
    identity = {"machine": question.machine, "benchmark_set": question.benchmarks}
    runs = Run.objects.filter(**identity, reason=Reason.AA, metrics=list(question.metrics))
    last = runs.filter(created__gt=Now() - timedelta(settings.AA_EVERY_DAYS)).order_by("-id").first()
    return last is None or environment_changed(last, newest)


def environment_changed(run: Run, newest: Measurement) -> bool:
    """Return whether the machine's environment has changed between an A/A run and the newest measurement."""
    measurements = Measurement.objects.filter(
        attempt__run=run, accepted=True, series__benchmark=newest.series.benchmark_id
    )
    environments = set(measurements.values_list("series__environment", flat=True))
    ended_at = newest.attempt.ended_at
    return (
        bool(environments)
        and ended_at is not None
        and ended_at > run.created
        and newest.series.environment_id not in environments
    )


def measure_noise(selection: RunSelection) -> int:
    """Queue A/A runs by hand, before all waiting runs. Return the number of runs."""
    suite, benchmarks = selection.suite, selection.benchmark_set
    questions = [
        each
        for commit, machine in product(selection.ranks, selection.machines)
        for each in noise_questions(
            Question(commit, commit, machine, suite, benchmarks, Reason.AA, priority=PRIORITY["manual"])
        )
    ]
    return len([plan_pairs(question) for question in questions])


@transaction.atomic
def store_due() -> int:
    """Store what ended runs of idle machines show: noise floors, or changes of a sweep. Return the number of runs."""
    due_runs = Run.objects.filter(floors_due=True).select_for_update(skip_locked=True)
    looked_at = list(due_runs.values_list("pk", flat=True))
    runs = list(runs_with_due_floors().filter(pk__in=looked_at))
    Run.objects.filter(pk__in=looked_at).update(floors_due=False)
    for run in runs:
        if run.reason == Reason.SWEEP:
            sweeps.read(run)
            continue
        series = Series.objects.filter(measurements__attempt__run=run, measurements__accepted=True).distinct()
        for member in series:
            NoiseFloor.objects.create(series=member, run=run, pairs=0)  # remains if its pairs cannot be evaluated
            with isolated(member):
                store_floor(run, member)
        sensitivity.judge(series, EffectsOfProjects())
    return len(runs)


def store_floor(run: Run, series: Series) -> None:
    pairs = sample_pairs([run], series)
    if METRICS[series.metric].counted:
        floor = counts_floor(pairs, level=LEVEL)
    else:
        floor = noise_floor(pairs, level=LEVEL, planned_pairs=AA_PAIRS, seed=series.pk)
    NoiseFloor.objects.filter(series=series, run=run).update(**vars(floor))
