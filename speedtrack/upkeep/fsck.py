"""Check rules that no constraint can hold: rows against git, and rows against each other. Nothing is changed.

Each check yields a sentence per fault, with cause and remedy. Tables are read in chunks of ids, so that memory does not
grow with the history. Each joined table has the range as well: a join alone reads the whole table for each chunk.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Exists, Max, Min, Model, OuterRef

from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import git
from speedtrack.projects.mirrors.directories import has_mirror, mirror_of
from speedtrack.projects.models import Branch, Position
from speedtrack.runs import packing
from speedtrack.runs.models import ACTIVE, Attempt, Build, Canary, Measurement, Result, Run, Samples, Status, Trial
from speedtrack.upkeep.fsckqueries import ACCEPTANCE, ATTEMPTS, EVENTS, INCOMPLETE, LOGS, STRANGERS, SUMMARIES

CHUNK = 20_000  # rows read by one statement
FEW = 500  # attempts or results, each of which has many rows or large ones
MOST = 100  # faults that one check reports; the others are counted


@dataclass
class Check:
    """One check: ``what`` it examines, and the number of rows so far."""

    what: str
    find: Callable[["Check"], Iterator[str]]
    seen: int = 0


def chunks(model: type[Model], size: int = CHUNK) -> Iterator[dict[str, int]]:
    """Ranges of ids that cover the present table."""
    ends = model._default_manager.aggregate(first=Min("pk"), last=Max("pk"))
    if ends["first"] is not None:
        for first in range(ends["first"], ends["last"] + 1, size):
            yield {"first": first, "last": min(first + size - 1, ends["last"])}


def rows_of(query: str, parameters: dict[str, int]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return list(cursor.fetchall())


def find_wrong_positions(check: Check) -> Iterator[str]:
    branches = Branch.objects.select_related("project", "head").order_by("project__slug", "name")
    for project, own in groupby(branches, key=attrgetter("project")):
        if has_mirror(project.slug):
            yield from wrong_positions(check, own)
        else:
            mirror = mirror_of(project.slug)
            yield f"{project}: there is no mirror in {mirror}: the next look at the repository clones it anew"


def wrong_positions(check: Check, branches: Iterable[Branch]) -> Iterator[str]:
    for branch in branches:
        fault = wrong_position(check, branch)
        again = Branch.objects.select_related("project", "head").filter(pk=branch.pk).first() if fault else branch
        if again and again.head_id != branch.head_id:  # a sync of the repository has moved it meanwhile
            fault = wrong_position(check, again)
        if again and fault:
            yield f"{branch.project}, branch {branch}: {fault}"


def wrong_position(check: Check, branch: Branch) -> str:
    """The first fault of a branch's positions; empty if they are the first parents of its head in the mirror."""
    slug, positions = branch.project.slug, branch.positions.order_by("number")
    try:
        path = git.first_parents(slug, branch.head.sha) if branch.head else []
    except RepositoryError as e:
        if branch.deleted_at or not branch.tracked:
            return ""  # a new clone lacks commits that only such a branch had
        return f"its head is not in the mirror ({e}): remove {mirror_of(slug)}, and the next look clones it anew"
    rows = positions.values_list("number", "commit__sha").iterator(chunk_size=CHUNK)
    for number, (row, sha) in enumerate(zip_longest(rows, path)):
        check.seen += 1
        if row != (number, sha):
            in_database = f"{row[1]} at {row[0]}" if row else "nothing"
            return (
                f"in place {number} git has {sha or 'nothing'}, the database {in_database}. "
                f"`UPDATE projects_branch SET head_id = NULL WHERE id = {branch.pk}`, and the next look makes its "
                "positions anew"
            )
    return ""


def find_wrong_acceptance(check: Check) -> Iterator[str]:
    for ids in chunks(Attempt):
        check.seen += Attempt.objects.filter(pk__range=tuple(ids.values())).count()
        for run, attempt, outcome, accepted, count in rows_of(ACCEPTANCE, ids):
            state = "are shown, but it is" if accepted else "are hidden, but it"
            to = "false" if accepted else "true"
            yield (
                f"run {run}: {count} measurements of attempt {attempt} {state} {outcome}. Their series are right again "
                f"after `UPDATE runs_measurement SET accepted = {to} WHERE attempt_id = {attempt}`"
            )


def find_wrong_attempts(check: Check) -> Iterator[str]:
    for ids in chunks(Run):
        of_runs: dict[int, list[AttemptRow]] = defaultdict(list)
        for row in map(AttemptRow._make, rows_of(ATTEMPTS, ids)):
            of_runs[row.run].append(row)
        check.seen += len(of_runs)
        for run, attempts in of_runs.items():
            for fault in wrong_attempts(attempts):
                yield f"run {run}: {fault}"


class AttemptRow(NamedTuple):
    """A row of ATTEMPTS."""

    run: int
    status: str
    lease_token: int
    attempt: int
    token: int
    outcome: str
    is_open: bool
    is_shown: bool

    @property
    def is_held(self) -> bool:
        return self.status in ACTIVE and self.token == self.lease_token


def wrong_attempts(attempts: list[AttemptRow]) -> Iterator[str]:
    """The contradictions between a run and its attempts, oldest first."""
    for row in attempts:
        if row.is_open and not row.is_held:
            yield (
                f"attempt {row.attempt} has not ended, but nobody holds it: `UPDATE runs_attempt SET ended_at = now(), "
                f"outcome = 'queued' WHERE id = {row.attempt}`"
            )
        elif row.is_held and not row.is_open:
            yield (
                f"it is {row.status}, but its attempt {row.attempt} has ended. After `UPDATE runs_run SET lease_until "
                f"= now() WHERE id = {row.run}` the dispatcher queues it again"
            )
    visible = [row.attempt for row in attempts if row.is_shown]
    if len(visible) > 1:
        older = ", ".join(map(str, visible[:-1]))
        yield (
            f"measurements of {len(visible)} attempts are shown. Only the newest is after `UPDATE runs_measurement SET "
            f"accepted = false WHERE attempt_id IN ({older})`"
        )


def find_wrong_events(check: Check) -> Iterator[str]:
    for ids in chunks(Run):
        check.seen += Run.objects.filter(pk__range=tuple(ids.values())).count()
        for run, status, event, before, after, earlier, is_last in rows_of(EVENTS, ids):
            if is_last and after not in (status, Status.CANCELLED):
                yield (
                    f"run {run} is {status}, but its last event says {after}: a change went past the log. Note it by "
                    f"`INSERT INTO runs_runevent (run_id, attempt, before, after, why) SELECT id, attempt, '{after}', "
                    f"status, 'found by fsck' FROM runs_run WHERE id = {run}`"
                )
            else:
                yield (
                    f"run {run}: event {event} goes from {before} to {after}, but the one before it went to {earlier}: "
                    f"one is missing. `UPDATE runs_runevent SET before = '{earlier}' WHERE id = {event}` closes the gap"
                )


def find_shown_canaries(check: Check) -> Iterator[str]:
    runs = Run.objects.filter(canary__isnull=False)
    check.seen = runs.count()
    accepted = Measurement.objects.filter(attempt__run=OuterRef("pk"), accepted=True)
    for run in runs.filter(Exists(accepted)).order_by("pk"):
        yield (
            f"run {run.pk} is of a canary, and its measurements are on charts: `UPDATE runs_measurement SET accepted = "
            f"false WHERE attempt_id IN (SELECT id FROM runs_attempt WHERE run_id = {run.pk})`"
        )


def find_wrong_summaries(check: Check) -> Iterator[str]:
    for ids in chunks(Measurement):
        check.seen += Samples.objects.filter(measurement__id__range=tuple(ids.values())).count()
        for measurement, run, n, value, samples, median in rows_of(SUMMARIES, ids):
            yield (
                f"run {run}: measurement {measurement} says {value:g} of {n} samples; those that are stored give "
                f"{'nothing' if median is None else f'{median:g}'} of {samples}. Restore either from a backup, or "
                f"`DELETE FROM runs_samples WHERE measurement_id = {measurement}`: the summary alone then counts"
            )


def find_wrong_trials(check: Check) -> Iterator[str]:
    for ids in chunks(Result, FEW):
        results = Result.objects.filter(pk__range=tuple(ids.values()), documents__isnull=False)
        rows = list(results.only("attempt", "documents").order_by("pk"))
        check.seen += len(rows)
        strangers = {result: (measurement, positions) for result, measurement, positions in rows_of(STRANGERS, ids)}
        trials: dict[int, list[int]] = defaultdict(list)
        of_rows = Trial.objects.filter(result__in=rows).order_by("result", "number")
        for pk, number in of_rows.values_list("result_id", "number"):
            trials[pk].append(number)
        for result in rows:
            fault = wrong_documents(result, trials[result.pk])
            if not fault and result.pk in strangers:
                fault = "measurement {} has samples of the trials {}, which have no row".format(*strangers[result.pk])
            if fault:
                yield (
                    f"result {result.pk}, attempt {result.attempt_id}: {fault}. Restore them from a backup, or "
                    f"`UPDATE runs_result SET documents = NULL WHERE id = {result.pk}`"
                )


def find_incomplete_runs(check: Check) -> Iterator[str]:
    for ids in chunks(Attempt, FEW):
        check.seen += Attempt.objects.filter(pk__range=tuple(ids.values()), outcome=Status.SUCCEEDED).count()
        for run, attempt, benchmark, side, *columns in rows_of(INCOMPLETE, ids):
            yield (
                f"run {run} succeeded, but {missing_part(*columns)} of {benchmark}, side {side}, attempt {attempt}: "
                "restore it from a backup, or measure the commit again"
            )


def missing_part(has_result: bool, has_build: bool, metrics: int, sampled: int) -> str:
    if not has_result:
        return "there is no result"
    if not metrics:
        return "there are no measurements"
    if not has_build:
        return "there is no build"
    return f"only {sampled} of {metrics} metrics have samples"


def find_broken_logs(check: Check) -> Iterator[str]:
    for ids in chunks(Attempt):
        check.seen += Attempt.objects.filter(pk__range=tuple(ids.values()), outcome=Status.SUCCEEDED).count()
        for run, attempt, count, first, last in rows_of(LOGS, ids):
            yield (
                f"run {run}: the log of attempt {attempt} has {count} of the pieces {first} to {last}: restore the "
                "others from a backup; the run itself is whole"
            )


def wrong_documents(result: Result, trials: list[int]) -> str:
    """The contradiction between a result's documents and trials; empty without one, or if retention deleted those."""
    try:
        documents = packing.trial_numbers(bytes(result.documents or b""))
    except Exception as e:  # any fault of the bytes
        return f"the documents of its trials cannot be read ({type(e).__name__}: {e})"
    if not trials or documents == trials:
        return ""
    return f"it has documents of the trials {documents}, but rows of the trials {trials}"


def find_lost_changes(check: Check) -> Iterator[str]:
    """Open change points and alerts whose range is on none of their branches any more."""
    begins = Position.objects.filter(branch__deleted_at=None, commit=OuterRef("before"))
    branches = begins.filter(branch__positions__commit=OuterRef("commit"))
    points = ChangePoint.objects.filter(status__in=ChangePoint.OPEN).select_related("commit", "series__benchmark")
    alerts = Alert.objects.open().select_related("commit")
    check.seen = points.count() + alerts.count()
    for cp in points.filter(~Exists(branches)).order_by("pk"):
        yield (
            f"change point {cp.pk} of {cp.series.benchmark.name} ({cp.status}): no branch has {cp.commit.short} and "
            "the commit before it any more. Detection closes it with its next pass; if it is open in a day, `UPDATE "
            "alerts_changepoint SET status = 'unsettled', settled_at = now(), note = 'its commits left the branch' "
            f"WHERE id = {cp.pk}`"
        )
    for alert in alerts.filter(~Exists(branches)).order_by("pk"):
        yield (
            f"{alert}: its commits are on no branch any more. Decide it on its page (/alerts/{alert.pk}/): nothing "
            "that is measured will"
        )


def find_lost_artifacts(check: Check) -> Iterator[str]:
    """Canaries in use whose frozen artifacts differ from their runs' builds, or cannot be measured."""
    for canary in Canary.objects.filter(retired_at=None).select_related("machine"):
        check.seen += 1
        where = f"canary of {canary.machine}"
        remedy = f"`manage.py machine canary {canary.machine}` freezes a new one"
        builds = Build.objects.filter(attempt__run__canary=canary, attempt__outcome=Status.SUCCEEDED, succeeded=True)
        newest = builds.order_by("-pk").first()
        built = {name: artifact["digest"] for name, artifact in newest.artifacts.items()} if newest else None
        if built is not None and built != canary.artifacts:
            yield f"{where}: it is frozen as {canary.artifacts}, but its runs build {built}: {remedy}"
        last = Run.objects.filter(canary=canary, ended_at__isnull=False).order_by("-ended_at").first()
        if canary.artifacts and last and last.status == Status.FAILED:
            why = last.error.strip().partition("\n")[0]
            yield f"{where}: its frozen artifacts could not be measured by run {last.pk} ({why}): {remedy}"


def checks() -> dict[str, Check]:
    return {
        "positions": Check("positions of branches against the first parents in the mirrors", find_wrong_positions),
        "acceptance": Check("attempts against whether their measurements are shown", find_wrong_acceptance),
        "attempts": Check("runs against their attempts", find_wrong_attempts),
        "events": Check("runs against the events that changed them", find_wrong_events),
        "canaries": Check("runs of canaries, whose measurements are never shown", find_shown_canaries),
        "summaries": Check("measurements against their samples", find_wrong_summaries),
        "trials": Check("results against the documents, trials and samples of them", find_wrong_trials),
        "results": Check("runs that succeeded against the benchmarks of their sets", find_incomplete_runs),
        "logs": Check("runs that succeeded against the numbers of the pieces of their logs", find_broken_logs),
        "changes": Check("open change points and alerts against the branches", find_lost_changes),
        "artifacts": Check("canaries in use against what was frozen", find_lost_artifacts),
    }
