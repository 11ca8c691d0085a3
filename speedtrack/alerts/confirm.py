"""Settle suspicions by measuring both sides again, interleaved on the same machine, and narrow them to one commit.

``step`` looks at what is there and does what is next; it may run at any time, any number of times:

1. A ripe suspicion (nothing between its two commits still waits to be measured) gets a ``confirm`` run of both.
   Suspicions of the same two commits on the same machine share it.
2. A finished paired run is judged over all pairs of its two commits so far. Unknown: another round, up to LOOKS.
   Not different: refuted. Different: as long as commits lie between that can be built, a ``bisect`` run of the middle
   one against the last of the old level halves the range; then the change point is confirmed.
3. Confirmed slowdowns of one range become one alert.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from speedtrack.alerts import raising
from speedtrack.alerts.models import ChangePoint
from speedtrack.alerts.series import sample_pairs
from speedtrack.benchmarks.models import Suite
from speedtrack.projects.models import Branch, Commit
from speedtrack.runs import jobs, planning
from speedtrack.runs.models import PAIRED, Build, Machine, Measurement, Reason, Run, Trial
from speedtrack.runs.models import Status as RunStatus
from speedtrack.stats.compare import Answer, Comparison, benjamini_hochberg, fewest_pairs, settle

LEVEL = 0.01  # probability that a suspicion without a change is confirmed, over all its rounds
LOOKS = 3  # rounds of pairs at most
PAIRS = fewest_pairs(LEVEL, LOOKS)  # per round
STEP_LOCK = 0x5338  # advisory: one step at a time

Status = ChangePoint.Status


@dataclass(frozen=True)
class Pair:
    """Two commits to be measured against each other on a machine, and why."""

    base_id: int
    commit_id: int
    machine: Machine
    reason: Reason


Wanted = dict[Pair, list[ChangePoint]]


@transaction.atomic
def step() -> None:
    """Do what is next for every unsettled change point. Returns at once if another step is under way."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [STEP_LOCK])
        if not cursor.fetchone()[0]:
            return
    wanted: Wanted = defaultdict(list)
    for cp in with_all(ChangePoint.objects.ripe()):
        if same_binary(cp):
            end(cp, Status.REFUTED, "both commits build the very same server: this is the machine's own noise")
        elif not measured_already(cp):
            wanted[Pair(cp.before_id, cp.commit_id, cp.series.machine, Reason.CONFIRM)].append(cp)
    for run, waiting in finished_runs().items():
        for cp, pair in judge(run, waiting):
            wanted[pair].append(cp)
    for pair, group in wanted.items():
        plan(pair, group)
    raising.raise_alerts()


def with_all(change_points: QuerySet[ChangePoint]) -> QuerySet[ChangePoint]:
    related = ("series__benchmark", "series__machine", "series__project", "branch", "before", "commit")
    return change_points.select_related(*related).order_by("id")


def same_binary(cp: ChangePoint) -> bool:
    """Did the machine build bit-equal artifacts of both commits? Then nothing that was measured can differ."""
    before, after = (artifacts(cp.series.machine, commit) for commit in (cp.before, cp.commit))
    return before is not None and before == after


def artifacts(machine: Machine, commit: Commit) -> dict[str, str] | None:
    """Name -> digest of what the machine last built of a commit; None if it built nothing."""
    builds = Build.objects.filter(attempt__run__machine=machine, commit=commit, succeeded=True)
    build = builds.order_by("-id").first()
    return {name: str(artifact["digest"]) for name, artifact in build.artifacts.items()} if build else None


def measured_already(cp: ChangePoint) -> bool:
    """Let paired runs of the same commits speak that another suspicion has caused. False if there are none.

    A run measures every metric of its benchmarks; its pairs are as independent of this suspicion as new ones. But where
    a flag that voids this metric was no reason to repeat a trial, there may be no clean pair of it.
    """
    same = Run.objects.filter(
        base=cp.before,
        commit=cp.commit,
        machine=cp.series.machine,
        reason=Reason.CONFIRM,
        benchmarks__contains=[cp.series.benchmark.name],
    ).exclude(status__in=[RunStatus.FAILED, RunStatus.CANCELLED])
    runs = [run for run in same if cp.metric.voided_by.issubset(jobs.repeat_for(run)) or sample_pairs([run], cp.series)]
    if not runs:
        return False
    cp.runs.add(*runs)
    ChangePoint.objects.filter(pk=cp.pk).update(status=Status.SETTLING)
    return True


def commits_between(branch: Branch, before_id: int, commit_id: int) -> QuerySet[Commit]:
    """The commits of the branch strictly between two of its commits, oldest first."""
    numbers = dict(branch.positions.filter(commit__in=[before_id, commit_id]).values_list("commit_id", "number"))
    return Commit.objects.filter(
        positions__branch=branch,
        positions__number__gt=numbers.get(before_id, 0),
        positions__number__lt=numbers.get(commit_id, 0),
    ).order_by("positions__number")


def plan(pair: Pair, group: list[ChangePoint]) -> None:
    """Queue a paired run of all benchmarks of these change points, and note it on them."""
    project = group[0].series.project
    benchmarks = {cp.series.benchmark_id: cp.series.benchmark for cp in group}
    rounds = Run.objects.filter(
        commit_id=pair.commit_id, base_id=pair.base_id, machine=pair.machine, reason=pair.reason
    )
    run = planning.plan_pair(
        planning.Plan(
            project=project,
            suite=suite_of(group[0]),
            benchmarks=sorted(benchmarks.values(), key=lambda b: b.pk),
            reason=pair.reason,
            base=Commit.objects.get(pk=pair.base_id),
            round=rounds.count(),
            trials=PAIRS,
            metrics=sorted({cp.series.metric for cp in group}),
        ),
        pair.commit_id,
        pair.machine,
    )
    for cp in group:
        cp.runs.add(run)
        ChangePoint.objects.filter(pk=cp.pk).update(status=Status.SETTLING)


def suite_of(cp: ChangePoint) -> Suite:
    """A suite with which the series was measured, so that the pairs measure the same thing."""
    measurements = Measurement.objects.filter(series=cp.series, accepted=True)
    return measurements.select_related("attempt__run__suite").latest("id").attempt.run.suite


def finished_runs() -> dict[Run, list[ChangePoint]]:
    """Paired runs that have ended, with the change points whose newest run they are."""
    waiting: dict[Run, list[ChangePoint]] = defaultdict(list)
    for cp in with_all(ChangePoint.objects.settling()):
        run = cp.runs.order_by("-id").first()
        if run and run.done:
            waiting[run].append(cp)
    return waiting


def judge(run: Run, waiting: list[ChangePoint]) -> list[tuple[ChangePoint, Pair]]:
    """Decide what a finished paired run says of each change point. Returns the pairs still to be measured."""
    if run.status != RunStatus.SUCCEEDED:
        return [(cp, pair) for cp in waiting if (pair := without(run, cp))]
    verdicts = compare_all(run, waiting)
    return [(cp, pair) for cp, verdict in zip(waiting, verdicts, strict=True) if (pair := conclude(cp, run, verdict))]


def without(run: Run, cp: ChangePoint) -> Pair | None:
    """A paired run that could not be measured: a bisection tries another commit, a confirmation is given up."""
    if run.reason == Reason.BISECT:
        return narrow(cp)
    cause = run.error.splitlines()[0] if run.error else run.status
    end(cp, Status.UNSETTLED, f"could not be measured again: {cause}")
    return None


def compare_all(run: Run, waiting: list[ChangePoint]) -> list[Comparison | None]:
    """Base against head for each change point, over all rounds so far.

    The level holds over all of them together (Benjamini-Hochberg); what it takes back is unknown, not same.
    """
    found = [compare_pairs(run, cp) for cp in waiting]
    kept = iter(benjamini_hochberg([v.p for v in found if v], LEVEL / LOOKS))
    return [v and (v if next(kept) or v.answer != Answer.DIFFERENT else unsure(v)) for v in found]


def unsure(verdict: Comparison) -> Comparison:
    return Comparison(**{**vars(verdict), "answer": Answer.UNKNOWN})


def rounds_of(run: Run, cp: ChangePoint) -> list[Run]:
    """The change point's measured runs of the same two commits, oldest first."""
    return list(cp.runs.filter(base=run.base, commit=run.commit, status=RunStatus.SUCCEEDED).order_by("id"))


def compare_pairs(run: Run, cp: ChangePoint) -> Comparison | None:
    """Base against head over all clean pairs; None when there is none."""
    rounds = rounds_of(run, cp)
    pairs = sample_pairs(rounds, cp.series)
    if not pairs:
        return None
    effect = suite_of(cp).smallest_effect(cp.metric.name, cp.metric.smallest_effect)
    look = min(len(rounds), LOOKS)
    return settle(pairs, smallest_effect=effect, level=LEVEL, looks=LOOKS, look=look, seed=cp.pk)


def flags_of(run: Run, cp: ChangePoint) -> str:
    """Which flags void the change point's metric in a run's trials, the most frequent first."""
    trials = Trial.objects.filter(attempt__run=run, attempt__token=run.lease_token, benchmark=cp.series.benchmark)
    count = Counter(flag for flags in trials.values_list("flags", flat=True) for flag in flags)
    found = [f"{flag} in {number} of them" for flag, number in count.most_common() if flag in cp.metric.voided_by]
    return ", ".join(found) or "their samples are not stored any more"


def conclude(cp: ChangePoint, run: Run, verdict: Comparison | None) -> Pair | None:
    """Write what the verdict means for the change point. Returns the pair to measure next, if any."""
    if verdict is None and run.reason == Reason.CONFIRM:
        # Each flagged trial was repeated already: more rounds on a machine like this would only keep it busy.
        end(cp, Status.UNSETTLED, f"no pair of trials is clean: {flags_of(run, cp)}")
        return None
    answer = verdict.answer if verdict else Answer.UNKNOWN
    if verdict and answer == Answer.UNKNOWN and len(rounds_of(run, cp)) < LOOKS:
        assert run.base_id is not None
        return Pair(run.base_id, run.commit_id, run.machine, Reason(run.reason))
    present = verdict is not None and answer == Answer.DIFFERENT and (verdict.ratio > 1) == (cp.ratio > 1)
    if verdict and run.reason == Reason.CONFIRM and not present:
        refute(cp, verdict)
        return None
    if answer == Answer.UNKNOWN:
        end(cp, Status.CONFIRMED, f"not narrowed further: {run.commit.short} could not be told from either side")
        return None
    move_range(cp, run, verdict if present else None)
    return narrow(cp)


def refute(cp: ChangePoint, verdict: Comparison) -> None:
    """The paired measurement did not show the change. What it showed is kept beside what the history had shown."""
    change = f"{verdict.ratio - 1:+.1%} [{verdict.low - 1:+.1%}, {verdict.high - 1:+.1%}]"
    end(cp, Status.REFUTED, f"measured again over {verdict.n[0]} pairs: {change}, p = {verdict.p:.2g}")


def move_range(cp: ChangePoint, run: Run, verdict: Comparison | None) -> None:
    """Halve the range by what a paired run showed: the change lies before its commit (with a verdict), or after."""
    if verdict is None:
        cp.before = run.commit
    else:
        cp.commit = run.commit
        cp.ratio, cp.low, cp.high = verdict.ratio, verdict.low, verdict.high
        cp.note = f"measured again over {verdict.n[0]} pairs, p = {verdict.p:.2g}"
    # Another change point that was refuted or seen at this very commit gives way to the one that was measured.
    ChangePoint.objects.filter(series=cp.series, branch=cp.branch, commit=cp.commit).exclude(pk=cp.pk).delete()
    cp.save(update_fields=["before", "commit", "ratio", "low", "high", "note"])


def narrow(cp: ChangePoint) -> Pair | None:
    """The next pair of the bisection; None, and the change point confirmed, when no commit is left to try.

    A force push may have taken the commits off the branch meanwhile: then nobody needs to hear of them.
    """
    if cp.branch.positions.filter(commit__in=[cp.before_id, cp.commit_id]).count() < 2:
        end(cp, Status.UNSETTLED, f"its commits are no longer on {cp.branch}")
        return None
    unmeasurable = Q(reason__in=PAIRED, status=RunStatus.FAILED)
    runs = Run.objects.filter(machine=cp.series.machine)
    same_as_parent = Q(runs__in=runs.exclude(linked=None))  # the change cannot be there
    unfit = Q(builds__succeeded=False) | Q(runs__in=runs.filter(unmeasurable)) | same_as_parent
    between = commits_between(cp.branch, cp.before_id, cp.commit_id)
    fit = list(between.exclude(unfit))
    if not between.exclude(same_as_parent).exists() and (last := between.last()):
        cp.before = last
        cp.save(update_fields=["before"])
    if not fit:
        end(cp, Status.CONFIRMED, cp.note)
        return None
    return Pair(cp.before_id, fit[len(fit) // 2].pk, cp.series.machine, Reason.BISECT)


def end(cp: ChangePoint, status: Status, note: str) -> None:
    cp.status, cp.note = status, note
    ChangePoint.objects.filter(pk=cp.pk).update(status=status, note=note, settled_at=Now())
