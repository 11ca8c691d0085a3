"""The smallest change of a metric that matters to a project: from its newest suite, else from the metric.

How steady instructions are depends on the processor. Those of a series whose A/A pairs show smaller changes than the
metric's are watched from there on. A counted series whose processes of one build differ by more than the metric's is
watched from that difference on.
"""

from collections.abc import Collection, Mapping
from functools import cached_property

from django.db.models import OuterRef, Subquery

from speedtrack.alerts.models import NoiseFloor
from speedtrack.benchmarks.metrics import METRICS, Metric, is_outside
from speedtrack.benchmarks.models import OutsideMetric, Suite
from speedtrack.runs.models import Run, Series

# Of the project of a series: what the suite of its newest run states of metrics. With "= project ORDER BY id"
# PostgreSQL would walk over the newest runs of all projects.
NEWEST_OVERRIDES = Subquery(
    Run.objects.own()
    .filter(project__gte=OuterRef("project"), project__lte=OuterRef("project"))
    .order_by("project", "-id")
    .values("suite__definition__metrics")[:1]
)


class SmallestEffects:
    """The smallest effects of a project, as ratios; they are read by one query when the first is needed."""

    def __init__(self, project_id: int) -> None:
        self.project_id = project_id

    @cached_property
    def suite(self) -> Suite:
        """The newest suite, with only the section that states smallest effects."""
        runs = Run.objects.own().filter(project=self.project_id).order_by("-id")
        overrides = runs.values_list("suite__definition__metrics", flat=True).first()
        return Suite(definition={"metrics": overrides or {}})

    @cached_property
    def of_outside(self) -> dict[str, float]:
        """By key: the smallest effects that the project states for metrics from outside."""
        stated = OutsideMetric.objects.filter(project=self.project_id, smallest_effect__isnull=False)
        return {key: effect for key, effect in stated.values_list("key", "smallest_effect") if effect is not None}

    def of(self, metric: str) -> float:
        return self.stated(metric, METRICS[metric].smallest_effect)

    def of_series(self, series: Series) -> float:
        return self.stated(series.metric, effect_unless_stated(series))

    def stated(self, metric: str, default: float) -> float:
        """The smallest effect that the project states for a metric, or the default."""
        if is_outside(metric):
            return self.of_outside.get(metric, default)
        return self.suite.smallest_effect(metric, default)


def smallest_effects(series: Collection[int]) -> dict[int, float]:
    """By series id: its smallest effect. At most three queries, of however many projects the series are."""
    if not series:
        return {}
    columns = ("pk", "project", "metric", "overrides")
    rows = list(Series.objects.filter(pk__in=series).annotate(overrides=NEWEST_OVERRIDES).values_list(*columns))
    of_outside = outside_effects({(project, metric) for _, project, metric, _ in rows if is_outside(metric)})
    unless = effects_unless_stated({pk: metric for pk, _, metric, _ in rows})
    return {
        pk: of_outside.get((project, metric), unless[pk])
        if is_outside(metric)
        else Suite(definition={"metrics": overrides or {}}).smallest_effect(metric, unless[pk])
        for pk, project, metric, overrides in rows
    }


def outside_effects(metrics: Collection[tuple[int, str]]) -> dict[tuple[int, str], float]:
    """By project and key: the smallest effects that projects state for metrics from outside."""
    if not metrics:
        return {}
    stated = OutsideMetric.objects.filter(
        project__in={project for project, _ in metrics},
        key__in={key for _, key in metrics},
        smallest_effect__isnull=False,
    )
    return {(row.project_id, row.key): row.smallest_effect for row in stated if row.smallest_effect is not None}


class EffectsOfProjects:
    """The smallest effects of several projects."""

    def __init__(self) -> None:
        self.projects: dict[int, SmallestEffects] = {}
        self.known: dict[int, float] = {}  # by series

    def of(self, series: Series) -> float:
        if series.pk not in self.known:
            project = self.projects.setdefault(series.project_id, SmallestEffects(series.project_id))
            self.known[series.pk] = project.of_series(series)
        return self.known[series.pk]


def smallest_effect(series: Series) -> float:
    """The smallest effect of one series."""
    return SmallestEffects(series.project_id).of_series(series)


def effects_unless_stated(metrics: Mapping[int, str]) -> dict[int, float]:
    """By series id: the smallest effect where no suite states one. ``metrics``: series id -> metric."""
    steady = [pk for pk, metric in metrics.items() if METRICS[metric].follows_floor]
    floors = NoiseFloor.objects.filter(series__in=steady, smallest__isnull=False).order_by("series", "-id")
    newest = dict(floors.distinct("series").values_list("series", "smallest")) if steady else {}
    return {pk: steady_effect(METRICS[metric], newest.get(pk)) for pk, metric in metrics.items()}


def effect_unless_stated(series: Series) -> float:
    """The smallest effect of a series whose suite does not state one."""
    metric = METRICS[series.metric]
    if not metric.follows_floor:
        return metric.smallest_effect
    floors = NoiseFloor.objects.filter(series=series, smallest__isnull=False).order_by("-id")
    return steady_effect(metric, floors.values_list("smallest", flat=True).first())


def steady_effect(metric: Metric, detectable: float | None) -> float:
    """The smallest effect of a metric on a machine.

    ``detectable``: the smallest change that A/A runs on the machine show, as a share; None if unknown.
    """
    if metric.counted:
        return max(metric.smallest_effect, detectable or 0.0)
    if metric.steady_effect is None or detectable is None:
        return metric.smallest_effect
    return min(metric.smallest_effect, max(metric.steady_effect, detectable))
