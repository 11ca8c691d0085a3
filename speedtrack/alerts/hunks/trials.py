"""Hunks on trial: find the fewest hunks of a named commit that explain its change of instructions.

A hunk is taken back on top of the commit, which makes a commit that no branch has; that one and the commit are counted.
Counts have nearly no noise, so delta debugging (``stats/comparing/delta.py``) can tell which sets of hunks explain
SHARE of the change. ``step`` does whatever is next, at any time, any number of times:

1. An alert that names one commit by counts begins a trial, of all benchmarks whose counts changed on one machine.
2. Once none of its runs is unfinished, these are read, and the sets of hunks that are wanted next are taken back and
   queued, at most HUNK_BUILDS in all. A set that git cannot take back, or whose run fails, is a refusal.
3. If none is wanted, the trial ends, and an event of its alerts says what it found.

Its runs go when nothing else waits for their machine. What they build is code of the tracked branch, less some hunks.
"""

import logging
from collections.abc import Sequence
from statistics import median
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from speedtrack.alerts.hunks.commits import commit_without
from speedtrack.alerts.hunks.findings import MOST_HUNKS, HunkEvidence, HunkFinding, HunkState, evidence_of, findings_of
from speedtrack.alerts.lines.trouble import DATABASE_AWAY
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, HunkStep, HunkTrial
from speedtrack.alerts.pairs import pairing
from speedtrack.alerts.triage import raising
from speedtrack.benchmarks.metrics import COUNTED
from speedtrack.benchmarks.storing import store_set
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.mirrors import hunks
from speedtrack.projects.mirrors.hunks import Hunk
from speedtrack.runs.models import IN_SERVICE, Build, Machine, Reason, Run, Side, Status
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.queue import queue
from speedtrack.stats.comparing.delta import Pieces

log = logging.getLogger(__name__)

COUNTS = 3  # of each side: the middle one is used
AT_ONCE = 8  # runs of a trial that wait together
LONGEST_TEXT = 4000  # characters of a named hunk that are kept


def step() -> int:
    """Begin the trials of new alerts, and go on with every trial whose runs have ended. Return how many were taken on.

    Safe to run any number of times at once.
    """
    begin()
    count = 0
    for pk in HunkTrial.objects.ripe().values_list("pk", flat=True):
        try:
            with transaction.atomic():
                ripe = HunkTrial.objects.ripe().select_for_update(skip_locked=True, of=("self",))
                if trial := ripe.select_related("project", "before", "commit", "machine").filter(pk=pk).first():
                    go_on(trial)
                    count += 1
        except DATABASE_AWAY:
            raise
        except Exception as e:  # a trial that fails must not hold up the others
            log.exception("the trial of hunks %s is ended", pk)
            note = f"{type(e).__name__}: {e} (a defect of SpeedTrack: its log says where)"
            end(HunkTrial.objects.get(pk=pk), note.replace("\0", ""))
    return count


def begin() -> None:
    """Begin a trial for each alert that names a commit by counts and has none yet."""
    if settings.HUNK_BUILDS < 1:
        return
    trials = HunkTrial.objects.filter(before=OuterRef("before"), commit=OuterRef("commit"))
    for alert in Alert.objects.naming_lately().filter(~Exists(trials), Exists(counted_changes())).order_by("pk"):
        changes = counted_changes(alert).select_related("series__benchmark", "series__machine", "series__project")
        worst, *further = sorted(changes, key=lambda cp: cp.rank)
        machine, suite = worst.series.machine, pairing.suite_of(worst)
        benchmarks = {
            cp.series.benchmark_id: cp.series.benchmark for cp in (worst, *further) if cp.series.machine == machine
        }
        HunkTrial.objects.get_or_create(
            before=alert.before,
            commit=alert.commit,
            machine=machine,
            defaults={
                "project": alert.project,
                "suite": suite,
                "benchmark_set": store_set(suite, list(benchmarks.values())),
            },
        )


def counted_changes(alert: Alert | None = None) -> QuerySet[ChangePoint]:
    """The confirmed changes of counts of an alert, or of that of an outer query."""
    confirmed = ChangePoint.objects.filter(status=ChangePoint.Status.CONFIRMED, series__metric__in=COUNTED)
    return confirmed.filter(alert=alert or OuterRef("pk"))


def go_on(trial: HunkTrial) -> None:
    """Read the counts of ended runs, then queue the next sets, or end the trial."""
    for each in trial.steps.filter(growths__isnull=True).select_related("run"):
        read(trial, each)
    if note := why_not_countable(trial):
        end(trial, note)
        return
    try:
        pieces = hunks.hunks_between(trial.project.slug, trial.before.sha, trial.commit.sha)
    except RepositoryError as e:
        end(trial, str(e))
        return
    if not pieces:
        end(trial, "the commit changes no file")
        return
    if trial.pieces is None:
        trial.pieces = list(map(facts_of, pieces))
        trial.save(update_fields=["pieces"])
    evidence = evidence_of(trial)
    index_sets = wanted_sets(evidence)
    for indexes in index_sets:
        plan(trial, pieces, sorted(indexes))
    if not index_sets:
        trial.texts = {
            str(index): pieces[index].text[:LONGEST_TEXT]
            for each in evidence
            for index in sorted(each.progress.smallest or ())[:MOST_HUNKS]
        }
        trial.save(update_fields=["texts"])
        end(trial)


def facts_of(piece: Hunk) -> dict[str, Any]:
    """The stored facts of a piece."""
    names = ("path", "number", "count", "line", "before_line", "header")
    return {"kind": piece.kind.value} | {name: getattr(piece, name) for name in names}


def why_not_countable(trial: HunkTrial) -> str:
    """Why nothing more is counted; empty if something can be."""
    if not Alert.objects.open().filter(before=trial.before, commit=trial.commit).exists():
        return "no open alert names the commit any more"
    if trial.project.untracked_at is not None:
        return f"{trial.project.name} is no longer tracked"
    is_in_service = Machine.objects.filter(IN_SERVICE, pk=trial.machine_id).exists()
    return "" if is_in_service else f"{trial.machine} is not in service"


def wanted_sets(evidence: Sequence[HunkEvidence]) -> list[Pieces]:
    """The sets to count next, for any of the benchmarks, within the remaining budget."""
    piece_sets = dict.fromkeys(pieces for each in evidence for pieces in each.progress.wanted)
    budget_left = settings.HUNK_BUILDS - len(evidence[0].steps) if evidence else 0
    return list(piece_sets)[: min(AT_ONCE, max(0, budget_left))]


def plan(trial: HunkTrial, pieces: Sequence[Hunk], indexes: list[int]) -> None:
    """Take these pieces back and queue the counts of the commit without them. All of them make the one before it."""
    try:
        commit = trial.before if len(indexes) == len(pieces) else commit_without(trial, [pieces[i] for i in indexes])
    except RepositoryError as e:
        trial.steps.create(pieces=indexes, growths={}, refusal=f"git cannot take it back: {e}"[:2000])
        return
    ends = (trial.commit_id, commit.pk)
    question = Question(*ends, trial.machine, trial.suite, trial.benchmark_set, Reason.HUNKS, COUNTS, COUNTED)
    trial.steps.create(pieces=indexes, commit=commit, run=plan_pairs(question))


def read(trial: HunkTrial, each: HunkStep) -> None:
    """Store what the ended run of a step has counted, or why it has not."""
    pairs = pairing.pairs_by_run([each.run_id] if each.run_id else [], series__metric__in=COUNTED)
    names = {benchmark.pk: benchmark.name for benchmark in trial.benchmark_set.benchmarks.all()}
    each.growths = {
        names[benchmark]: round(median(head for head, _ in both) - median(base for _, base in both), 3)
        for (_, benchmark, _), both in pairs.items()
        if both and benchmark in names
    }
    each.refusal = "" if each.growths else refusal_of(each.run)[:2000]
    each.save(update_fields=["growths", "refusal"])


def refusal_of(run: Run | None) -> str:
    """Why a run has counted nothing."""
    if run is None:
        return "its run was deleted before it was read"
    cause = run.error.splitlines()[0] if run.error else "no count is without a flag"
    if run.status == Status.CANCELLED:
        return f"its run {run.pk} was cancelled"
    is_unbuilt = Build.objects.filter(attempt__run=run, side=Side.HEAD, succeeded=False).exists()
    return f"the rest does not build without it: {cause}" if is_unbuilt else f"it was not counted: {cause}"


@transaction.atomic
def end(trial: HunkTrial, note: str = "") -> None:
    """End a trial: cancel what waits for it, and tell of what it found."""
    HunkTrial.objects.filter(pk=trial.pk).update(ended_at=Now(), note=note[:2000])
    trial.refresh_from_db(fields=["ended_at", "note"])
    for run in Run.objects.unfinished().filter(pk__in=trial.steps.values("run")):
        queue.cancel(run, "the trial of hunks has ended")
    sentences = [finding.sentence for finding in findings_of(trial) if is_news(finding)]
    for alert in Alert.objects.open().filter(before=trial.before_id, commit=trial.commit_id) if sentences else ():
        raising.write_event(alert, AlertEvent.Kind.TRACED, "; ".join(sentences))


def is_news(finding: HunkFinding) -> bool:
    """Return whether a finding names fewer hunks than the whole commit."""
    return finding.state in (HunkState.FOUND, HunkState.ENDED) and len(finding.hunks) < finding.pieces


def end_unwanted() -> None:
    """End the trials whose alerts were settled, or moved to another commit, meanwhile."""
    alerts = Alert.objects.open().filter(before=OuterRef("before"), commit=OuterRef("commit"))
    for trial in HunkTrial.objects.under_way().filter(~Exists(alerts)):
        end(trial, "no open alert names the commit any more")
