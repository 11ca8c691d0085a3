"""Settle suspicions by measuring both sides again, interleaved on the same machine, and narrow them to one commit.

``step`` does whatever is next. It may run at any time, any number of times:

1. A ripe suspicion (no commit in its range still waits to be measured) gets a ``confirm`` run of the two ends
   of its bracket. Suspicions of one place on one machine share the run. Where another series has named a commit in
   the bracket, that commit and the one before it are measured first.
2. A finished confirming run is judged by all pairs of its two commits so far. Different: the change is confirmed to
   lie in the bracket. Same: refuted. Unknown: another round of as many pairs as will probably be enough; after 80 pairs
   it is unsettled, and 80 more are measured when the machine has nothing else to do (``measure_further``). A suite may
   say instead how long pairs are measured.
3. As long as commits lie in the range that can be built, a ``bisect`` run of the middle one against the last of the old
   level asks on which side of half of the change it runs. Change points of one range narrow together.
4. Confirmed changes of one range become one alert. If it names a commit, every benchmark of the suite is measured for
   that (``whole``). The alert is fixed when a later commit brings the old level back.
"""

from collections import defaultdict

from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from speedtrack.alerts.detection import causes, common_mode, driftsteps, history
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.pairs import brackets, pairing, sizes
from speedtrack.alerts.pairs.brackets import Bracket
from speedtrack.alerts.settling import driftreview, splitting, verdicts, whole
from speedtrack.alerts.triage import raising, resolving
from speedtrack.benchmarks import numbers
from speedtrack.ground.observing import failpoints
from speedtrack.ground.postgres.pgvalues import CompiledQuery
from speedtrack.projects.models import Commit
from speedtrack.runs.models import SETTLING, Machine, Reason, Run
from speedtrack.runs.models import Status as RunStatus
from speedtrack.runs.planning.questions import plan_pairs
from speedtrack.stats.comparing import bisect
from speedtrack.stats.comparing.bisect import CommitRange
from speedtrack.stats.comparing.narrow import MOST

STEP_LOCK = 0x5338  # advisory: one step at a time

Answer = Verdict.Answer
Status = ChangePoint.Status
RELATED = ("series__benchmark", "series__machine", "series__project", "branch", "before", "commit")


def returns_in_vain() -> QuerySet[ChangePoint]:
    """Suspicions of a return from a change that was not confirmed."""
    vain = (Status.REFUTED, Status.UNSETTLED)
    return ChangePoint.objects.filter(status=Status.SUSPECTED, returns_from__status__in=vain)


RETURNS_IN_VAIN = CompiledQuery(returns_in_vain)
RIPE_SUSPICIONS = CompiledQuery(lambda: ChangePoint.objects.ripe())
SETTLING_CHANGES = CompiledQuery(lambda: ChangePoint.objects.settling())


@transaction.atomic
def step() -> None:
    """Take the next step of every unsettled change point. Returns at once if another step is under way."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s, 0)", [STEP_LOCK])
        if not cursor.fetchone()[0]:
            return
    drop_returns()
    common_mode.sort_out()
    open_brackets()
    judge_finished()
    narrow_confirmed()
    driftreview.review_drifts()
    raising.raise_alerts()
    whole.cancel_unwanted()
    whole.ask()
    whole.read_ended()
    resolving.resolve_alerts()
    failpoints.reach("confirm.before_commit")


def drop_returns() -> None:
    """Delete suspicions of a return from a change that was not confirmed: both belong to a spike of the machine."""
    if not RETURNS_IN_VAIN.ids():
        return
    returns = returns_in_vain()
    for spike in with_related(ChangePoint.objects.filter(pk__in=returns.values("returns_from"))):
        if history.why_not_measurable(spike.series):
            history.refute_spike(spike)
    returns.delete()


def open_brackets() -> None:
    """Queue pairs for every ripe suspicion; suspicions of one place share their runs."""
    suspicions: list[tuple[ChangePoint, Bracket]] = []
    trying_cause: set[int] = set()
    for cp in RIPE_SUSPICIONS.rows(*RELATED):
        with isolated(cp.series):
            if not brackets.ensure_branch(cp):
                end_settling(cp, Status.UNSETTLED, f"its commits are no longer on {cp.branch}")
            elif why := history.why_not_measurable(cp.series):
                leave_to_history(cp, why)
            elif cp.kind == ChangePoint.Kind.DRIFT and driftsteps.is_explained(cp):
                cp.delete()
            elif driftsteps.waits_for_a_step(cp):
                continue
            elif pairing.same_binary(cp):
                end_settling(
                    cp, Status.REFUTED, "both commits build the same server, so this is the machine's own noise"
                )
            elif runs := runs_that_tell(cp):
                settle_by(cp, runs)
            else:
                bracket = brackets.bracket_of(cp)
                if cause := causes.untried_cause(cp, bracket):
                    trying_cause.add(cp.pk)
                suspicions.append((cp, cause or bracket))
    for bracket, group in brackets.shared_brackets(suspicions):
        with isolated(*[cp.series for cp in group]):
            ends, pairs = (bracket.base_id, bracket.commit_id), verdicts.usual_budget(group[0]).first
            run = plan_pairs(pairing.question_of(group, *ends, Reason.CONFIRM, pairs))
            for cp in group:
                settle_by(cp, [run], keep_range=cp.pk in trying_cause)


def runs_that_tell(cp: ChangePoint) -> list[Run]:
    """Paired runs of another suspicion that also decide this step. None for a drift: it has its own two commits."""
    if cp.kind == ChangePoint.Kind.DRIFT:
        return []
    return [run for run in brackets.paired_runs_around(cp) if verdicts.may_tell(run, cp)]


def leave_to_history(cp: ChangePoint, why: str) -> None:
    """End a suspicion that cannot be measured again: by the history if that shows the change, else as unsettled."""
    if not history.take_over(cp, why):
        end_settling(cp, Status.UNSETTLED, f"could not be measured again: {why}")


def with_related(change_points: QuerySet[ChangePoint]) -> list[ChangePoint]:
    return list(change_points.select_related(*RELATED).order_by("id"))


def settle_by(cp: ChangePoint, runs: list[Run], keep_range: bool = False) -> None:
    """Use these paired runs of two commits to settle the change point; these commits become its range.

    ``keep_range``: they do not.
    """
    cp.runs.add(*runs)
    if not keep_range:
        cp.before_id, cp.commit_id = runs[0].base_id or cp.before_id, runs[0].commit_id
    ChangePoint.objects.filter(pk=cp.pk).update(
        status=Status.SETTLING, before=cp.before_id, commit=cp.commit_id, note=""
    )


def judge_finished() -> None:
    """Judge each ended confirming run for the change points whose newest run it is."""
    finished: dict[Run, list[ChangePoint]] = defaultdict(list)
    for cp in SETTLING_CHANGES.rows(*RELATED):
        run = cp.runs.order_by("-id").first()
        if run and run.done:
            finished[run].append(cp)
    for run, suspicions in finished.items():
        if run.reason == Reason.CONFIRM:
            judge_confirmation(run, [cp for cp in suspicions if not is_narrowing(cp)])


def is_narrowing(cp: ChangePoint) -> bool:
    """Return whether the change is confirmed to lie in its range, so that only the range is narrowed now."""
    return cp.verdicts.filter(answer=Answer.DIFFERENT).exists()


def judge_confirmation(run: Run, suspicions: list[ChangePoint]) -> None:
    """Decide each suspicion by the pairs of its bracket, and plan another round for those that stay unknown."""
    open_still: list[tuple[ChangePoint, Verdict]] = []
    for cp, verdict in verdicts.judge_rounds(run, suspicions):
        with isolated(cp.series):
            is_settled = verdict is not None and verdict.answer != Answer.UNKNOWN
            if not is_settled and not verdicts.measured_all(run, cp):
                cause = run.error.splitlines()[0] if run.error else run.status
                leave_to_history(cp, f"{cause}; before that: {pairs_in_words(verdict)}" if verdict else cause)
            elif verdict is None:
                # Flagged trials have been repeated already: more rounds on such a machine would only keep it busy.
                end_settling(cp, Status.UNSETTLED, f"no pair of trials is clean: {verdicts.flags_of(run, cp)}")
            elif conclude(cp, verdict):
                open_still.append((cp, verdict))
            elif cp.kind == ChangePoint.Kind.DRIFT and cp.status == Status.SETTLING:
                end_settling(cp, Status.CONFIRMED, cp.note)
    again = [cp for cp, verdict in open_still if not left_to_another(cp, verdict)]
    if again:
        with isolated(*[cp.series for cp in again]):
            plan_further_round(run, again)


def plan_further_round(run: Run, group: list[ChangePoint]) -> None:
    """Measure the two commits of a confirming run once more for these change points."""
    assert run.base_id is not None
    pairs = verdicts.next_round(run, group)
    further_run = plan_pairs(pairing.question_of(group, run.base_id, run.commit_id, Reason.CONFIRM, pairs))
    for cp in group:
        cp.runs.add(further_run)


@transaction.atomic
def measure_further(machine: Machine) -> int:
    """Plan the last round for the newest suspicion that pairs left open, on a machine without other work.

    Suspicions of the same two commits share it. Returns the number of runs that were planned.
    """
    for cp in reversed(open_to_further(machine)):
        run = cp.runs.filter(reason=Reason.CONFIRM, status=RunStatus.SUCCEEDED).latest("id")
        if brackets.ensure_branch(cp):
            alike = [suspicion for suspicion in open_to_further(machine) if suspicion.runs.filter(pk=run.pk).exists()]
            plan_further_round(run, alike)
            ChangePoint.objects.filter(pk__in=[suspicion.pk for suspicion in alike]).update(status=Status.SETTLING)
            return 1
    return 0


def open_to_further(machine: Machine) -> list[ChangePoint]:
    """Suspicions of the last weeks on this machine that the first rounds of pairs left open, oldest first."""
    suspicions: list[ChangePoint] = []
    for is_counted, budget in ((False, verdicts.PAIRS), (True, verdicts.COUNTS)):
        open_still = ChangePoint.objects.open_to_further(machine, budget.usual, budget.most)
        suspicions += [cp for cp in with_related(open_still) if cp.metric.counted == is_counted and not is_timed(cp)]
    return sorted(suspicions, key=lambda cp: cp.pk)


def is_timed(cp: ChangePoint) -> bool:
    """Return whether the suite limits how long a suspicion is measured, also on idle machines."""
    return pairing.suite_of(cp).settling_s is not None


def left_to_another(cp: ChangePoint, verdict: Verdict) -> bool:
    """Leave a suspicion unsettled if another metric of its benchmark shows the change. Return whether that was done.

    More pairs would add nothing.
    """
    for change in with_related(ChangePoint.objects.settling().overlapping(cp)):
        same_cause = (
            change.kind == cp.kind and change.series.benchmark_id == cp.series.benchmark_id and follows(change, cp)
        )
        if same_cause and is_narrowing(change):
            end_settling(
                cp, Status.UNSETTLED, f"not known: {pairs_in_words(verdict)}; {change.metric.title} shows the change"
            )
            return True
    return False


def pairs_in_words(verdict: Verdict) -> str:
    size = numbers.size(verdict.ratio, verdict.low, verdict.high)
    return f"measured again over {verdict.pairs} pairs: {size}, p = {verdict.p:.2g}"


def conclude(cp: ChangePoint, verdict: Verdict) -> bool:
    """Write what the pairs of the bracket show about a suspicion. Return whether it needs another round."""
    evidence = pairs_in_words(verdict)
    if verdict.answer == Answer.UNKNOWN:
        ends = (verdict.base_id, verdict.commit_id)
        budget, spent = verdicts.budget_of(cp, *ends), verdicts.pairs_spent(cp, *ends)
        if spent < budget.usual:
            return True
        state = "not known yet" if spent < budget.most else "not known"
        if budget.timed:
            state = f"unknown after {numbers.duration(verdicts.seconds_spent(cp, *ends))}"
        end_settling(cp, Status.UNSETTLED, f"{state}: {evidence}")
    elif verdict.answer == Answer.DIFFERENT and (verdict.ratio > 1) == (cp.ratio > 1):
        cp.ratio, cp.low, cp.high, cp.note = verdict.ratio, verdict.low, verdict.high, evidence
        cp.before_id, cp.commit_id = verdict.base_id, verdict.commit_id
        cp.save(update_fields=["ratio", "low", "high", "note", "before", "commit"])
    elif (verdict.base_id, verdict.commit_id) != (cp.before_id, cp.commit_id):  # only a named cause was tried
        ChangePoint.objects.filter(pk=cp.pk).update(status=Status.SUSPECTED)
    else:
        end_settling(cp, Status.REFUTED, evidence)
    return False


def narrow_confirmed() -> None:
    """Bring every confirmed change nearer to its commit: read the finished pairs, then plan those of the next commit.

    Among change points whose ranges overlap on one machine the clearest leads: it chooses the commit to measure next,
    and the others read the same pairs. One that comes while these are measured waits, as they may name its commit.
    """
    narrowing: list[ChangePoint] = []
    under_way: list[ChangePoint] = []
    needed: dict[int, int] = {}
    for cp in SETTLING_CHANGES.rows(*RELATED):
        with isolated(cp.series):
            if cp.kind != ChangePoint.Kind.STEP or not is_narrowing(cp):
                continue
            if is_being_measured(cp):
                under_way.append(cp)
            else:
                verdicts.read_pairs_of_others(cp)
                read_sides(cp)
                needed[cp.pk] = verdicts.pairs_to_place(cp)
                narrowing.append(cp)
    led: set[int] = set()
    for leader in sorted(narrowing, key=lambda cp: (needed[cp.pk], cp.pk)):
        if leader.pk not in led and leader.status == Status.SETTLING and not waits(leader, under_way):
            followers = [cp for cp in narrowing if cp.pk not in led and cp != leader and follows(cp, leader)]
            led.update(cp.pk for cp in (leader, *followers))
            with isolated(*[cp.series for cp in (leader, *followers)]):
                narrow(leader, followers)


def is_being_measured(cp: ChangePoint) -> bool:
    return Run.objects.unfinished().filter(change_points=cp).exists()


def follows(cp: ChangePoint, leader: ChangePoint) -> bool:
    """Return whether two change points may have one cause: the same machine, the same direction, overlapping ranges."""
    if cp.status != Status.SETTLING or cp.series.machine_id != leader.series.machine_id:
        return False
    one_way = cp.is_slowdown == leader.is_slowdown
    return one_way and ChangePoint.objects.filter(pk=cp.pk).overlapping(leader).exists()


def waits(cp: ChangePoint, under_way: list[ChangePoint]) -> bool:
    """Return whether a change that is being measured may have the same cause; if so, link the change point to its runs.

    Without that link the dispatcher would ask for a round of settling at every tick.
    """
    leader = next((change for change in under_way if follows(cp, change)), None)
    if leader is None:
        return False
    cp.runs.add(*Run.objects.unfinished().filter(change_points=leader))
    return True


def read_sides(cp: ChangePoint) -> None:
    """Narrow the range to the commits whose side the pairs have shown."""
    while verdict := verdicts.read_side(cp):
        if verdict.answer == Answer.NEW:
            cp.before, cp.commit = verdict.base, verdict.commit
        else:
            cp.before = verdict.commit
        cp.save(update_fields=["before", "commit"])


def narrow(leader: ChangePoint, followers: list[ChangePoint]) -> None:
    """Measure the next commit of the leader's range for all these change points.

    If no commit is left to try, the leader is confirmed. A run counts instructions or measures pairs: change points
    that the leader's run does not decide wait for it. If a force push took the commits off the branch meanwhile, nobody
    needs the answer.
    """
    if not brackets.ensure_branch(leader):
        end_settling(leader, Status.UNSETTLED, f"its commits are no longer on {leader.branch}")
        return
    ends = next_ends(leader)
    if ends is None:
        if verdicts.is_left_over(leader) and not verdicts.shows_change(leader):
            name_no_commit(leader)
        splitting.split_off_rest(leader)
        end_settling(leader, Status.CONFIRMED, leader.note)
        for cp in followers:
            if cp.series.benchmark_id == leader.series.benchmark_id:
                adopt_range(cp, leader)
        return
    group = [leader, *followers]
    pairs = max(verdicts.pairs_to_place(leader), verdicts.trials_spent(leader, *ends))
    alike = [cp for cp in group if cp.metric.counted == leader.metric.counted]
    run = plan_pairs(pairing.question_of(alike, *ends, Reason.BISECT, pairs))
    for cp in group:
        cp.runs.add(run)


def name_no_commit(cp: ChangePoint) -> None:
    """Set the range of a change to its whole bracket: no single commit of it shows the change."""
    bracket = sizes.bracket_verdict(cp)
    cp.before, cp.commit = bracket.base, bracket.commit
    cp.note += "; no commit of the range shows it by itself"
    cp.save(update_fields=["before", "commit"])


def next_ends(cp: ChangePoint) -> tuple[int, int] | None:
    """The ids of the two commits to measure next; None if no commit is left to try.

    They are a cause that another series has named and the commit before it; otherwise the last commit of the old level
    and the middle one of the range. A commit that is left because all others were passed is measured itself before it
    is blamed.
    """
    numbers = brackets.positions_of(cp.branch, [cp.before_id, cp.commit_id])
    first, last = numbers[cp.before_id], numbers[cp.commit_id]
    cause = causes.untried_cause(cp, Bracket(cp.before_id, cp.commit_id, first, last, first, last))
    if cause and last - first > 1:
        return cause.base_id, cause.commit_id
    if middle := next_commit(cp):
        return cp.before_id, middle.pk
    is_untold = verdicts.is_left_over(cp) and not verdicts.trials_spent(cp, cp.before_id, cp.commit_id)
    return (cp.before_id, cp.commit_id) if is_untold else None


def next_commit(cp: ChangePoint) -> Commit | None:
    """The middle one of the commits in the range that can be measured; None if none is left.

    A commit with the same build as its parent cannot be the cause: the range shrinks past it.
    """
    runs = Run.objects.filter(machine=cp.series.machine)
    same_as_parent = Q(runs__in=runs.exclude(linked=None))
    unfit = Q(builds__succeeded=False) | Q(runs__in=runs.filter(reason__in=SETTLING, status=RunStatus.FAILED))
    between = brackets.commits_between(cp.branch, cp.before_id, cp.commit_id)
    fit = list(between.exclude(unfit | same_as_parent))
    if not between.exclude(same_as_parent).exists() and (last := between.last()):
        cp.before = last
        cp.save(update_fields=["before"])
    nearest = bisect.middles(range(1, len(fit) + 1), CommitRange(0, len(fit) + 1))
    middle = fit[nearest[-1] - 1] if nearest else None
    if middle and verdicts.trials_spent(cp, cp.before_id, middle.pk) >= MOST:
        cp.note += f"; not narrowed further: pairs did not show on which side {middle.short} is"
        return None
    return middle


def adopt_range(cp: ChangePoint, leader: ChangePoint) -> None:
    """Confirm a change point at the range of the clearest one of its benchmark and machine: they have one cause."""
    cp.before, cp.commit = leader.before, leader.commit
    cp.save(update_fields=["before", "commit"])
    splitting.split_off_rest(cp)
    end_settling(cp, Status.CONFIRMED, f"{cp.note}; placed with {leader.metric.title}, which shows it more clearly")


def end_settling(cp: ChangePoint, status: Status, note: str) -> None:
    cp.status, cp.note = status, note
    ChangePoint.objects.filter(pk=cp.pk).update(status=status, note=note, settled_at=Now())
