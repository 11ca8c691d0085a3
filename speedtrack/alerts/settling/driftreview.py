"""Judge confirmed drifts again whenever it becomes known how much of them single steps explain.

A drift is what is left once the steps between its ends are taken out. Steps may be confirmed after it, and may turn out
to be false or to lie elsewhere. Its pairs are kept, so that they can be judged again without measuring: if less than
the smallest effect is left, the drift is closed with a sentence that names the steps, and its alert joins theirs; if
more is left again later, it comes back.
"""

from collections.abc import Sequence

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet

from speedtrack.alerts.detection import driftsteps
from speedtrack.alerts.lines.effects import smallest_effect
from speedtrack.alerts.lines.known import PlacedStep
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, Verdict
from speedtrack.alerts.pairs.brackets import positions_of
from speedtrack.alerts.settling import verdicts
from speedtrack.alerts.triage.raising import lock_project, write_event
from speedtrack.benchmarks import numbers
from speedtrack.ground.postgres.preparedquery import RareRows
from speedtrack.runs.models import Reason
from speedtrack.stats.comparing.compare import Comparison

EventKind = AlertEvent.Kind
Status = ChangePoint.Status
WITHOUT = "; without the steps of "  # precedes the steps that were taken out, in a drift's note
EXPLAINED = "no drift: "  # begins the note of a drift that steps explain


def reviewed_drifts() -> QuerySet[ChangePoint]:
    """The confirmed drifts whose alert nobody has settled, and those that steps explain."""
    drifts = ChangePoint.objects.filter(kind=ChangePoint.Kind.DRIFT)
    unsettled = Q(alert=None) | Q(alert__merged_into=None, alert__status__in=Alert.OPEN)
    explained = Q(status=Status.REFUTED, note__startswith=EXPLAINED)
    return drifts.filter(Q(unsettled, status=Status.CONFIRMED) | explained)


REVIEWED_DRIFTS = RareRows(reviewed_drifts)


def review_drifts() -> None:
    """Judge again the drifts whose steps have changed, unless a person has settled their alert."""
    related = ("series__benchmark", "series__machine", "branch__project", "alert__project", "before", "commit")
    for cp in REVIEWED_DRIFTS.rows(*related):
        with isolated(cp.series):
            if len(positions_of(cp.branch, [cp.before_id, cp.commit_id])) == 2:
                review(cp)


def review(cp: ChangePoint) -> None:
    """Judge a drift by its pairs if its steps are not those that were taken out last time."""
    steps = [step for step in driftsteps.steps_in(cp) if step.status in (Status.CONFIRMED, Status.HISTORY)]
    step_names = steps_in_words(steps)
    is_wait = driftsteps.waits_for_a_step(cp) or waits_for_an_alert(steps)
    if step_names == cp.note.partition(WITHOUT)[2] or is_wait or is_settled_by_person(cp.alert):
        return
    run = cp.runs.filter(reason=Reason.CONFIRM, base=cp.before_id, commit=cp.commit_id).order_by("-id").first()
    comparison = verdicts.compare_ends(run, cp) if run else None
    if run is None or comparison is None:
        return  # retention has deleted the pairs
    is_left = is_drift(cp, comparison)
    answer = Verdict.Answer.DIFFERENT if is_left else Verdict.Answer.SAME
    verdict = verdicts.write_verdict(cp, (run.base_id, run.commit_id), answer, comparison)
    was_explained = cp.status == Status.REFUTED
    size = numbers.size(comparison.ratio, comparison.low, comparison.high)
    note = f"measured again over {verdict.pairs} pairs: {size}{WITHOUT}{step_names}" if step_names else size
    cp.status = Status.CONFIRMED if is_left else Status.REFUTED
    cp.ratio, cp.low, cp.high, cp.note = (
        comparison.ratio,
        comparison.low,
        comparison.high,
        note if is_left else EXPLAINED + note,
    )
    cp.save(update_fields=["status", "ratio", "low", "high", "note"])
    if is_left and was_explained:
        reopen(cp)
    elif not is_left and not was_explained:
        close(cp, steps, step_names)
    elif is_left and cp.alert:
        write_event(cp.alert, EventKind.NOTED, f"{name_of(cp)}: {size} is left of the drift{WITHOUT[1:]}{step_names}")


def steps_in_words(steps: Sequence[PlacedStep]) -> str:
    """The commits of steps, each with what it did to the series."""
    shas = {cp.pk: cp.commit.short for cp in changes_of(steps)}
    ordered = sorted(steps, key=lambda step: (step.last, step.id))
    return ", ".join(f"{shas[step.id]} ({numbers.change(step.ratio)})" for step in ordered)


def changes_of(steps: Sequence[PlacedStep]) -> list[ChangePoint]:
    return list(ChangePoint.objects.filter(pk__in=[step.id for step in steps]).select_related("commit"))


def name_of(cp: ChangePoint) -> str:
    return f"{cp.series.benchmark.name}, {cp.metric.title}"


def waits_for_an_alert(steps: Sequence[PlacedStep]) -> bool:
    """Return whether a confirmed step has no alert yet, which the drift's alert could join."""
    return any(cp.alert_id is None and cp.status == Status.CONFIRMED for cp in changes_of(steps))


def is_settled_by_person(alert: Alert | None) -> bool:
    """Return whether a person gave an alert its status, or merged it into another one."""
    if alert is None or (alert.merged_into_id is None and alert.status in Alert.OPEN):
        return False
    ends = Q(kind=EventKind.MERGED) | Q(after=alert.status)
    return alert.events.filter(ends).order_by("-pk").values_list("who", flat=True).first() is not None


def is_drift(cp: ChangePoint, comparison: Comparison) -> bool:
    """Return whether the remaining change is a drift, in the direction in which it was reported."""
    if comparison.low <= 1 <= comparison.high or abs(comparison.ratio - 1) < smallest_effect(cp.series):
        return False
    return cp.status == Status.REFUTED or (comparison.ratio > 1) == (cp.ratio > 1)


@transaction.atomic
def close(cp: ChangePoint, steps: Sequence[PlacedStep], step_names: str) -> None:
    """Close the alert of a drift that steps explain: it joins the alert of the largest of them.

    If it has other changes, only the drift leaves it.
    """
    alert = cp.alert
    if alert is None:
        return
    lock_project(alert.project)
    sentence = (
        f"{name_of(cp)}: no drift since {cp.reference}, it is explained by the steps of {step_names or 'no commit'}"
    )
    if alert.change_points.filter(status__in=(Status.CONFIRMED, Status.HISTORY)).exists():
        ChangePoint.objects.filter(pk=cp.pk).update(alert=None)
        write_event(alert, EventKind.NOTED, sentence)
    elif into := alert_of(steps, alert):
        Alert.objects.filter(pk=alert.pk).update(merged_into=into)
        write_event(alert, EventKind.MERGED, f"{sentence}; merged into alert {into.pk}")
        write_event(into, EventKind.NOTED, f"alert {alert.pk} was merged into it: {sentence}")
    elif Alert.objects.open().filter(pk=alert.pk).update(status=Alert.Status.INVALID):
        write_event(alert, EventKind.DECIDED, sentence, before=alert.status, after=Alert.Status.INVALID)


def alert_of(steps: Sequence[PlacedStep], own: Alert) -> Alert | None:
    """The alert of the largest step that has one."""
    standing = Alert.objects.standing().exclude(status=Alert.Status.INVALID).exclude(pk=own.pk)
    for step in sorted(steps, key=lambda step: -abs(step.ratio - 1)):
        if alert := standing.filter(change_points=step.id).first():
            return alert
    return None


def reopen(cp: ChangePoint) -> None:
    """Bring back the alert of a drift that steps explain no more; without one, an alert is raised as ever."""
    alert = cp.alert
    if alert is None:
        return
    before = alert.status
    try:
        with transaction.atomic():
            Alert.objects.filter(pk=alert.pk).update(status=Alert.Status.CONFIRMED, merged_into=None)
    except IntegrityError:
        return  # another open alert has its range
    alert.status, alert.merged_into = Alert.Status.CONFIRMED, None
    write_event(alert, EventKind.REOPENED, f"{name_of(cp)}: {cp.note}", before=before, after=alert.status)
