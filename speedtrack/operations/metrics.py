"""What a person changes of metrics from outside, by command alone: smallest effect, name, existence."""

from speedtrack.alerts.models import Alert, Mute
from speedtrack.benchmarks.metrics import LONGEST_KEY, METRICS, outside_key
from speedtrack.benchmarks.models import OutsideMetric
from speedtrack.ground.texts.text import UNSEEN
from speedtrack.operations.performing import Actor, BadInput, Done, operation
from speedtrack.outside.readers.measures import LONGEST_METRIC
from speedtrack.runs.models import Measurement, Series


@operation("metric.change")
def set_smallest_effect(actor: Actor, metric: OutsideMetric, effect: float) -> Done:
    """Set the smallest change of a metric that matters, as a ratio."""
    before, metric.smallest_effect = metric.smallest_effect, effect
    metric.save(update_fields=["smallest_effect"])
    return Done(f"changes of {metric} matter from {effect:.3g} on", metric, {"smallest_effect": (before, effect)})


@operation("metric.rename")
def rename(actor: Actor, metric: OutsideMetric, name: str) -> Done:
    """Give a metric another name, with all its history: its old name is free then. Raises BadInput."""
    before, old_key = metric.name, metric.key
    if OutsideMetric.objects.filter(project=metric.project, name=name).exists():
        raise BadInput(f"{metric.project} has a metric {name!r} already: delete or rename that one first", "name")
    metric.first_key = metric.first_key or old_key
    metric.name, metric.key = name, outside_key(name, metric.metric.unit, metric.metric.better)
    if name in METRICS:
        raise BadInput(f"{name} is a metric of runners: choose another name", "name")
    if not name.strip() or UNSEEN.search(name) or len(name) > LONGEST_METRIC or len(metric.key) > LONGEST_KEY:
        limits = f"1 to {LONGEST_METRIC} visible characters, with its unit up to {LONGEST_KEY}"
        raise BadInput(f"the name of a metric has {limits}", "name")
    metric.save(update_fields=["name", "key", "first_key"])
    Series.objects.filter(project=metric.project, metric=old_key).update(metric=metric.key)
    Mute.objects.filter(project=metric.project, metric=old_key).update(metric=metric.key)
    return Done(f"{before} is {name} now: results that are sent must name it so", metric, {"name": (before, name)})


@operation("metric.delete")
def delete(actor: Actor, metric: OutsideMetric) -> Done:
    """Delete a metric with all its measurements and changes. Files that have them can be imported again."""
    series = Series.objects.filter(project=metric.project, metric=metric.key)
    count = Measurement.objects.filter(series__in=series).count()
    alerts = [*Alert.objects.filter(change_points__series__in=series).values_list("pk", flat=True).distinct()]
    series.delete()
    Alert.objects.filter(pk__in=alerts, change_points=None).delete()
    Mute.objects.filter(project=metric.project, metric=metric.key).delete()
    metric.delete()
    return Done(f"{metric} is deleted with {count:,} measurements", metric.project, {"metric": (metric.name, None)})
