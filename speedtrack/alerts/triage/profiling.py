"""Profiles for alerts: of both commits, under the benchmarks that got slower, on a machine that showed it."""

from django.db.models import Exists, OuterRef

from speedtrack.alerts.detection.history import why_not_measurable
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.pairs.pairing import suite_of
from speedtrack.benchmarks.storing import store_set
from speedtrack.runs.models import Reason, Run, Series
from speedtrack.runs.results import profiles

MOST_BENCHMARKS = 3  # of one alert, those that moved most: each takes some seconds of machine time


def plan_missing_profiles() -> int:
    """Queue a profile run for every confirmed alert without one. Return the number of runs."""
    has_one = Run.objects.filter(reason=Reason.PROFILE, base=OuterRef("before"), commit=OuterRef("commit"))
    alerts = Alert.objects.work().filter(~Exists(has_one), status=Alert.Status.CONFIRMED)
    count = 0
    for alert in alerts.select_related("project", "before", "commit"):
        with isolated(*Series.objects.filter(change_points__alert=alert).distinct()):
            count += plan_profile_of_alert(alert) is not None
    return count


def plan_profile_of_alert(alert: Alert, by_hand: bool = False) -> Run | None:
    """Queue the profile run of an alert, on the machine that shows it most of those that can measure it again.

    None if there is no such machine, or the alert has no change points left.
    """
    related = ("series__benchmark", "series__machine", "series__project")
    changes = ChangePoint.objects.filter(alert=alert).select_related(*related)
    worst_first = sorted(changes, key=lambda cp: cp.rank)
    machine = next((cp.series.machine for cp in worst_first if not why_not_measurable(cp.series)), None)
    if machine is None:
        return None
    here = [cp for cp in worst_first if cp.series.machine == machine]
    names = {cp.series.benchmark.name: cp.series.benchmark for cp in here}
    suite = suite_of(here[0])
    worst = store_set(suite, list(names.values())[:MOST_BENCHMARKS])
    question = profiles.profile_question(alert.before_id, alert.commit_id, machine, suite, worst)
    return profiles.plan_profile(question, by_hand)
