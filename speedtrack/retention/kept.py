"""Find the old rows that policies keep because something depends on them.

Each function gets ids of old rows and returns those to keep. It queries a few at once by their ids, in simple
statements: for one statement with all conditions, PostgreSQL would examine the whole history.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from django.db.models import Exists, F, Model, OuterRef, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from speedtrack.alerts.models import Alert, BestLevel, ChangePoint, NoiseFloor, Verdict
from speedtrack.notices.models import Outbox
from speedtrack.projects.models import Commit, Tag
from speedtrack.runs.models import (
    Alarm,
    Attempt,
    CanaryCheck,
    MachineEvent,
    ReferenceRate,
    Run,
    RunEvent,
    Status,
)
from speedtrack.stats.noise import canary

Ids = Sequence[int]

#: Runs of the commits in these columns are kept. The last item is the path from the row to its series.
COMMITS: list[tuple[type[Model], tuple[str, ...], str]] = [
    (ChangePoint, ("before", "commit"), "series"),
    (Verdict, ("base", "commit"), "change_point__series"),
    (Alert, ("before", "commit", "fixed_by", "reverted_by"), "change_points__series"),
    (BestLevel, ("commit",), "series"),
]
#: The runs in these columns are kept.
RUNS: list[tuple[type[Model], str]] = [
    (ChangePoint.runs.through, "run"),
    (NoiseFloor, "run"),
    (ReferenceRate, "measurement__attempt__run"),
]
CHECKS = max(canary.ANCHOR, canary.RECENT)  # the oldest and newest of an environment, for comparing a canary


def nothing(ids: Ids) -> set[int]:
    return set()


def held_runs(runs: Iterable[int]) -> set[int]:
    """The runs on which a change point, alert, release, noise floor, reference rate or best level depends."""
    ids = set(runs)
    commits = commits_of(ids)
    held_commits = {commit for commit, _, _ in named_results({commit for _, commit in commits})}
    return wholly_held_runs(ids) | {run for run, commit in commits if commit in held_commits}


def wholly_held_runs(runs: Iterable[int]) -> set[int]:
    """The runs among these that are kept with all benchmarks: runs of a release, or in a column of RUNS."""
    ids = set(runs)
    commits = commits_of(ids)
    tags = Tag.objects.filter(project=OuterRef("project"), sha=OuterRef("sha"))
    released = Commit.objects.filter(Exists(tags), pk__in={commit for _, commit in commits})
    releases = set(released.values_list("pk", flat=True))
    run_ids = {run for run, commit in commits if commit in releases}
    for model, column in RUNS:
        rows = model._default_manager.filter(**{f"{column}__in": ids})
        run_ids |= set(rows.values_list(column, flat=True))
    return run_ids


def commits_of(runs: set[int]) -> list[tuple[int, int]]:
    """(run id, commit id) of each run: its own commit, and those that built the same program and share its result."""
    own = Run.objects.filter(pk__in=runs).values_list("pk", "commit")
    linked = Run.objects.filter(linked__in=runs).values_list("linked", "commit")
    return [*own, *((run, commit) for run, commit in linked if run is not None)]


def named_results(commits: Iterable[int]) -> set[tuple[int, int, str]]:
    """The (commit id, machine id, benchmark name) of these commits that are in columns of COMMITS."""
    ids = set(commits)
    results: set[tuple[int, int, str]] = set()
    for model, columns, series in COMMITS:
        for column in columns:
            rows = model._default_manager.filter(**{f"{column}__in": ids, f"{series}__isnull": False})
            results |= set(rows.values_list(column, f"{series}__machine", f"{series}__benchmark__name"))
    return results


def held_attempts(ids: Ids) -> set[int]:
    return of_held_runs(Attempt.objects.filter(pk__in=ids))


def wholly_held_attempts(ids: Ids) -> set[int]:
    runs: dict[int, int] = dict(Attempt.objects.filter(pk__in=ids).values_list("pk", "run"))
    held_ids = wholly_held_runs(runs.values())
    return {pk for pk, run in runs.items() if run in held_ids}


def held_benchmarks(attempts: Ids) -> set[tuple[int, str]]:
    """The (attempt id, benchmark name) on which a change point, alert or best level depends.

    A commit may have thousands of series, and in a long history nearly each commit has a change in one of them.
    """
    rows = list(Attempt.objects.filter(pk__in=attempts).values_list("pk", "run", "run__machine"))
    commits = commits_of({run for _, run, _ in rows})
    results = named_results({commit for _, commit in commits})
    by_place: dict[tuple[int, int], set[str]] = defaultdict(set)
    for commit, machine, benchmark in results:
        by_place[commit, machine].add(benchmark)
    by_run: dict[int, set[int]] = defaultdict(set)
    for run, commit in commits:
        by_run[run].add(commit)
    return {
        (attempt, benchmark)
        for attempt, run, machine in rows
        for commit in by_run[run]
        for benchmark in by_place.get((commit, machine), ())
    }


def held_run_events(ids: Ids) -> set[int]:
    return of_held_runs(RunEvent.objects.filter(pk__in=ids))


def of_held_runs(rows: QuerySet[Attempt] | QuerySet[RunEvent]) -> set[int]:
    """The ids of the rows whose run is held."""
    runs: dict[int, int] = dict(rows.values_list("pk", "run"))
    held_ids = held_runs(runs.values())
    return {pk for pk, run in runs.items() if run in held_ids}


def standing_machine_events(ids: Ids) -> set[int]:
    """The newest events of each kind of a machine, which define its present state, and those not mailed yet."""
    events = MachineEvent.objects.filter(pk__in=ids)
    newer = MachineEvent.objects.filter(machine=OuterRef("machine"), kind=OuterRef("kind"), pk__gt=OuterRef("pk"))
    unsent = Outbox.objects.filter(machine_event=OuterRef("pk"), sent_at=None)
    return set(events.filter(~Exists(newer) | Exists(unsent)).values_list("pk", flat=True))


def unmailed_alarms(ids: Ids) -> set[int]:
    """Alarms whose mails are not sent yet."""
    unsent = Outbox.objects.filter(alarm=OuterRef("pk"), sent_at=None)
    return set(Alarm.objects.filter(Exists(unsent), pk__in=ids).values_list("pk", flat=True))


def compared_canary_runs(ids: Ids) -> set[int]:
    """Canary runs with which the next run of a canary in use is compared, and those not judged yet."""
    statuses = (Status.SUCCEEDED, Status.FAILED)
    unjudged = Run.objects.filter(pk__in=ids, status__in=statuses, canary_check=None).values_list("pk", flat=True)
    return {*unjudged, *compared_checks().values_list("run", flat=True)}.intersection(ids)


def compared_checks() -> QuerySet[CanaryCheck]:
    """The oldest and the newest checks of canaries in use, by environment, separately for good checks and others."""
    in_use = CanaryCheck.objects.filter(canary__retired_at=None, at__gt=F("canary__since"))
    alike = ["canary", "series__environment", "is_good"]
    numbered = in_use.annotate(is_good=Q(answer__in=CanaryCheck.GOOD)).annotate(
        from_oldest=Window(RowNumber(), partition_by=alike, order_by=F("pk").asc()),
        from_newest=Window(RowNumber(), partition_by=alike, order_by=F("pk").desc()),
    )
    return numbered.filter(Q(from_oldest__lte=CHECKS) | Q(from_newest__lte=CHECKS))
