"""The smallest change of a metric that matters to a project: from its newest suite, else from the metric.

How steady instructions are depends on the processor. Those of a series whose A/A pairs show smaller changes than the
metric's are watched from there on. A counted series whose processes of one build differ by more than the metric's is
watched from that difference on.
"""

from collections.abc import Collection
from functools import cached_property

from django.db import connection
from django.db.models import Subquery

from speedtrack.alerts.models import NoiseFloor
from speedtrack.benchmarks.metrics import METRICS, Metric, is_outside
from speedtrack.benchmarks.models import OutsideMetric, Suite
from speedtrack.runs.models import Run, Series

# For a query that has ``watched``, series with their projects and metrics: what these projects state of these metrics.
# That of a metric from outside is its own, that of another one in the suite of the project's newest run. With
# "= project ORDER BY id" PostgreSQL would walk over the newest runs of all projects. A definition may have megabytes:
# only that of the run that is chosen is read.
STATED = """
    stated AS MATERIALIZED (
        SELECT k.project_id, k.metric,
               coalesce((SELECT max(o.smallest_effect) FROM benchmarks_outsidemetric o
                          WHERE o.project_id = k.project_id AND o.key = k.metric),
                        (suites.metrics -> k.metric ->> 'smallest_effect')::float8) AS effect
          FROM (SELECT p.id,
                       (SELECT suite.definition -> 'metrics'
                          FROM benchmarks_suite suite
                         WHERE suite.id = (SELECT r.suite_id
                                             FROM runs_run r
                                            WHERE r.project_id >= p.id AND r.project_id <= p.id
                                              AND r.base_id IS NULL AND r.canary_id IS NULL AND r.imported_id IS NULL
                                         ORDER BY r.project_id, r.id DESC LIMIT 1)) AS metrics
                  FROM (SELECT DISTINCT project_id AS id FROM watched) p OFFSET 0) suites
          JOIN (SELECT DISTINCT project_id, metric FROM watched) k ON k.project_id = suites.id)
"""
# Of series what ``effect_of`` needs: what its project states, and the newest change that A/A pairs show.
EFFECTS = f"""
      WITH watched AS MATERIALIZED (SELECT id, project_id, metric FROM runs_series WHERE id = ANY (%(series)s::int[])),
           {STATED}
    SELECT w.id, w.metric,
           (SELECT effect FROM stated WHERE stated.project_id = w.project_id AND stated.metric = w.metric),
           (SELECT (array_agg(f.smallest ORDER BY f.id DESC))[1]
              FROM alerts_noisefloor f WHERE f.series_id = w.id AND f.smallest IS NOT NULL)
      FROM watched w
"""  # noqa: S608 - constants


class SmallestEffects:
    """The smallest effects of a project, as ratios; they are read by one query when the first is needed."""

    def __init__(self, project_id: int) -> None:
        self.project_id = project_id

    @cached_property
    def suite(self) -> Suite:
        """The newest suite, with only the section that states smallest effects."""
        newest = Run.objects.own().newest_first(self.project_id).values("suite")[:1]
        overrides = Suite.objects.filter(pk=Subquery(newest)).values_list("definition__metrics", flat=True).first()
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
    """By series id: its smallest effect. At most one query, of however many projects the series are."""
    if not series:
        return {}
    with connection.cursor() as cursor:
        cursor.execute(EFFECTS, {"series": list(series)})
        return {pk: effect_of(METRICS[metric], *columns) for pk, metric, *columns in cursor}


def effect_of(metric: Metric, stated: float | None, detectable: float | None) -> float:
    """The smallest effect of a metric on a machine.

    ``stated``: that of its project; ``detectable``: as ``steady_effect`` has it.
    """
    return steady_effect(metric, detectable) if stated is None else stated


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
    return smallest_effects([series.pk])[series.pk]


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
