"""The first sentences on the page of an alert: how certain it is, and what to do."""

from collections.abc import Sequence

from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, Verdict
from speedtrack.alerts.pairs.counts import FunctionTable
from speedtrack.alerts.triage.restorations import restoration_in_words
from speedtrack.benchmarks import numbers

Status = Alert.Status


def certainty(points: Sequence[ChangePoint], ends: Verdict | None, steps: int) -> list[str]:
    """Sentences on how certain an alert is. ``steps``: how many commits were measured to narrow the range."""
    sentences = []
    if ends:
        p = f" (p = {ends.p:.2g})" if ends.p is not None else ""
        sentences.append(f"{ends.pairs} pairs, measured again and interleaved, differ{p}.")
    elif points:
        sentences.append("No pairs of both sides have confirmed it.")
    confirmed = [cp for cp in points if cp.status == ChangePoint.Status.CONFIRMED]
    machines = {cp.series.machine_id for cp in confirmed}
    if len(points) > 1:
        on = f" on {len(machines)} machines" if len(machines) > 1 else ""
        sentences.append(f"{len(confirmed)} of {len(points)} series confirmed{on}.")
    if steps > 2:
        sentences.append(f"The range was narrowed by measuring {steps - 2} commits in between.")
    return sentences


def what_to_do(
    alert: Alert, tables: Sequence[FunctionTable], not_fixed_on: Sequence[str], events: Sequence[AlertEvent]
) -> list[str]:
    """Sentences on what to do about an alert."""
    if alert.status == Status.FIXED:
        missing = f"Bring the fix to {', '.join(not_fixed_on)}." if not_fixed_on else ""
        return [missing or "Nothing: a later commit restored the speed."]
    if restoration := restoration_in_words(events):
        return [f"{restoration[0].upper()}{restoration[1:]}.", whose_turn(alert)]
    if alert.status in (Status.EXPECTED, Status.INVALID):
        return [closing_words(alert, events)]
    if alert.status == Status.SUSPECTED and by_history_alone(alert):
        return ["Measure both sides where these results come from, then decide: nothing is measured again here."]
    if alert.status == Status.SUSPECTED:
        return ["Wait: it is not confirmed yet. Both sides are measured again by themselves."]
    if alert.improvement:
        return ["Nothing has to be done: it got better. Close it as expected, with a note of what did it."]
    return [*where_to_look(alert, tables), whose_turn(alert)]


def by_history_alone(alert: Alert) -> bool:
    """Return whether none of the changes can be measured again."""
    statuses = set(alert.change_points.values_list("status", flat=True))
    return statuses == {ChangePoint.Status.HISTORY}


def closing_words(alert: Alert, events: Sequence[AlertEvent]) -> str:
    """Who closed the alert, and why, in words."""
    decision = next((event for event in reversed(events) if event.after == alert.status), None)
    if decision is None:
        return f"Nothing: it was closed as {alert.status}."
    decider = decision.who.username if decision.who else "SpeedTrack"
    return f"Nothing: {decider} closed it as {alert.status}{': ' + decision.note if decision.note else '.'}"


def where_to_look(alert: Alert, tables: Sequence[FunctionTable]) -> list[str]:
    if alert.reverted_by:
        return ["A commit says that it reverts the cause: the next measurements will show whether it is fixed."]
    sentences = []
    if alert.width > 1 and not alert.drift:
        sentences.append(f"Find out which of the {alert.width} commits it was, and say so.")
    dearest = next(((table, function) for table in tables for function in table.functions if function.growth > 0), None)
    if dearest:
        table, function = dearest
        begin = f"Begin with the function {function.name}: {numbers.signed(function.growth)} instructions per request."
        sentences.append(table.remark or begin)
    return sentences


def whose_turn(alert: Alert) -> str:
    if alert.assignee:
        return f"{alert.assignee.username} looks at it."
    return "Nobody has taken it: assign it, or close it as expected, invalid or fixed."
