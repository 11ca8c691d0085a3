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
from django.db.models import QuerySet

from speedtrack.alerts.detection import causes, common_mode, driftsteps, history
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import ChangePoint, Verdict
from speedtrack.alerts.pairs import brackets, pairing
from speedtrack.alerts.pairs.brackets import Bracket
from speedtrack.alerts.settling import driftreview, narrowing, verdicts, whole
from speedtrack.alerts.settling.unsettled import RELATED, SETTLING_CHANGES, end_settling
from speedtrack.alerts.triage import raising, resolving
from speedtrack.benchmarks import numbers
from speedtrack.ground.observing import failpoints
from speedtrack.ground.postgres.preparedquery import RareRows
from speedtrack.runs.models import SETTLING, Machine, Reason, Run
from speedtrack.runs.models import Status as RunStatus
from speedtrack.runs.planning.questions import plan_pairs
from speedtrack.runs.queue import queue

STEP_LOCK = 0x5338  # advisory: one step at a time

Answer = Verdict.Answer
Status = ChangePoint.Status


def returns_in_vain() -> QuerySet[ChangePoint]:
    """Suspicions of a return from a change that was not confirmed."""
    vain = (Status.REFUTED, Status.UNSETTLED)
    return ChangePoint.objects.filter(status=Status.SUSPECTED, returns_from__status__in=vain)


RETURNS_IN_VAIN = RareRows(returns_in_vain)
RIPE_SUSPICIONS = RareRows(lambda: ChangePoint.objects.ripe())


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
    cancel_unmeasurable()
    judge_finished()
    narrowing.narrow_confirmed()
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


def cancel_unmeasurable() -> None:
    """Cancel the waiting runs that can no longer be measured, so that what waits for them ends."""
    alike = {(cp.series.project_id, cp.series.machine_id): cp.series for cp in SETTLING_CHANGES.rows(*RELATED)}
    for (project, machine), series in alike.items():
        if why := history.why_not_measurable(series):
            waiting_runs = Run.objects.filter(project=project, machine=machine, reason__in=SETTLING)
            queue.cancel_waiting(waiting_runs.filter(bisections=None), why)


def judge_finished() -> None:
    """Judge each ended confirming run for the change points whose newest run it is."""
    finished: dict[Run, list[ChangePoint]] = defaultdict(list)
    for cp in SETTLING_CHANGES.rows(*RELATED):
        run = cp.runs.order_by("-id").first()
        if run and run.done:
            finished[run].append(cp)
    for run, suspicions in finished.items():
        if run.reason == Reason.CONFIRM:
            judge_confirmation(run, [cp for cp in suspicions if not narrowing.is_narrowing(cp)])


def judge_confirmation(run: Run, suspicions: list[ChangePoint]) -> None:
    """Decide each suspicion by the pairs of its bracket, and plan another round for those that stay unknown."""
    open_still: list[tuple[ChangePoint, Verdict]] = []
    for cp, verdict in verdicts.judge_rounds(run, suspicions):
        with isolated(cp.series):
            is_settled = verdict is not None and verdict.answer != Answer.UNKNOWN
            if not is_settled and tried_only_cause(cp, run) and not (verdict and verdicts.measured_all(run, cp)):
                suspect_again(cp)
            elif not is_settled and not verdicts.measured_all(run, cp):
                cause = run.error.splitlines()[0] if run.error else why_not_measured(cp, run)
                leave_to_history(cp, f"{cause}; before that: {pairs_in_words(verdict)}" if verdict else cause)
            elif verdict is None:
                # Flagged trials have been repeated already: more rounds on such a machine would only keep it busy.
                end_settling(cp, Status.UNSETTLED, f"no pair of trials is clean: {verdicts.flags_of(run, cp)}")
            elif conclude(cp, verdict):
                open_still.append((cp, verdict))
            elif cp.kind == ChangePoint.Kind.DRIFT and cp.status == Status.SETTLING:
                end_settling(cp, Status.CONFIRMED, cp.note)
    again: list[ChangePoint] = []
    for cp, verdict in open_still:
        with isolated(cp.series):
            if why := history.why_not_measurable(cp.series):
                leave_to_history(cp, f"{why}; before that: {pairs_in_words(verdict)}")
            elif not left_to_another(cp, verdict):
                again.append(cp)
    if again:
        with isolated(*[cp.series for cp in again]):
            plan_further_round(run, again)


def why_not_measured(cp: ChangePoint, run: Run) -> str:
    """Why a run without an error has not measured a suspicion."""
    return history.why_not_measurable(cp.series) or run.status


def tried_only_cause(cp: ChangePoint, pairs: Run | Verdict) -> bool:
    """Return whether these pairs measured a commit that another series names, and not the suspicion's own bracket."""
    return (pairs.base_id, pairs.commit_id) != (cp.before_id, cp.commit_id)


def suspect_again(cp: ChangePoint) -> None:
    """Let the suspicion's own bracket be measured, which pairs of a named cause say nothing of."""
    ChangePoint.objects.filter(pk=cp.pk).update(status=Status.SUSPECTED)


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
        if brackets.ensure_branch(cp) and not history.why_not_measurable(cp.series):
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
            change.kind == cp.kind
            and change.series.benchmark_id == cp.series.benchmark_id
            and narrowing.goes_along(change, cp)
        )
        if same_cause and narrowing.is_narrowing(change):
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
        if tried_only_cause(cp, verdict):
            suspect_again(cp)
            return False
        state = "not known yet" if spent < budget.most else "not known"
        if budget.timed:
            state = f"unknown after {numbers.duration(verdicts.seconds_spent(cp, *ends))}"
        end_settling(cp, Status.UNSETTLED, f"{state}: {evidence}")
    elif verdict.answer == Answer.DIFFERENT and (verdict.ratio > 1) == (cp.ratio > 1):
        cp.ratio, cp.low, cp.high, cp.note = verdict.ratio, verdict.low, verdict.high, evidence
        cp.before_id, cp.commit_id = verdict.base_id, verdict.commit_id
        cp.save(update_fields=["ratio", "low", "high", "note", "before", "commit"])
    elif tried_only_cause(cp, verdict):
        suspect_again(cp)
    else:
        end_settling(cp, Status.REFUTED, evidence)
    return False
