"""How much the runs of a line differ. A young line does not show that itself, so related series are used instead."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import median

from django.db import connection
from django.db.models import F, QuerySet

from speedtrack.alerts.lines import lines
from speedtrack.alerts.models import NoiseFloor
from speedtrack.ground.postgres.plainrows import among
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.runs.models import Series
from speedtrack.stats.levels import spread_between

OWN = 24  # points: from here on a line shows its spread itself

# For each series, the newest values of the nearest ones of its project with its metric: of the benchmark on this
# machine in another environment, of the benchmark on another machine, of other benchmarks on this machine. By commit,
# as the index is.
KIN = lines.sql("""
    SELECT s.id, kin.distance, ARRAY(
               SELECT m.value FROM runs_measurement m
                WHERE m.series_id = kin.id AND IS_CLEAN_POINT
             ORDER BY m.commit_id DESC LIMIT 60)
      FROM runs_series s
CROSS JOIN LATERAL (
        SELECT other.id, CASE WHEN other.benchmark_id <> s.benchmark_id THEN 3
                              WHEN other.machine_id <> s.machine_id THEN 2 ELSE 1 END AS distance
          FROM runs_series other
         WHERE other.project_id = s.project_id AND other.metric = s.metric AND other.id <> s.id
           AND (other.benchmark_id = s.benchmark_id OR other.machine_id = s.machine_id)
      ORDER BY distance, other.id DESC LIMIT 20) kin
     WHERE s.id = ANY (%(series)s)
""")


def spreads_of(measured_lines: Sequence[tuple[Series, Sequence[float], float]]) -> list[float]:
    """The relative standard deviation between runs of each line, from the line itself or from other series.

    A line is given as its series, the values of its points, and the smallest effect. The number of queries does not
    grow with the number of lines.
    """
    own = [spread_between(values) if len(values) >= OWN else None for _, values, _ in measured_lines]
    young = {
        series.pk: effect for (series, _, effect), spread in zip(measured_lines, own, strict=True) if spread is None
    }
    kin = spreads_of_kin(young) if young else {}
    return [
        kin[series.pk] if spread is None else spread for (series, _, _), spread in zip(measured_lines, own, strict=True)
    ]


def spreads_of_kin(smallest_effects: Mapping[int, float]) -> dict[int, float]:
    """By series id: the spread of the nearest related series, otherwise that of single trials in A/A runs.

    Runs differ more than trials. Without either, the smallest effect is used: a metric's smallest effect is set above
    its usual noise.
    """
    by_distance: dict[int, dict[int, list[float]]] = {pk: {} for pk in smallest_effects}
    with connection.cursor() as cursor:
        cursor.execute(KIN, {"series": list(smallest_effects)})
        for pk, distance, values in cursor:
            if (spread := spread_between(values)) is not None:
                by_distance[pk].setdefault(distance, []).append(spread)
    floors = newest_floors([pk for pk, spreads in by_distance.items() if not spreads])
    from_trials = {pk: floor.deviation / math.sqrt(2) for pk, floor in floors.items() if floor.deviation}
    nearest = {pk: median(spreads[min(spreads)]) for pk, spreads in by_distance.items() if spreads}
    return {**smallest_effects, **from_trials, **nearest}


def floors_of(series: list[int]) -> QuerySet[NoiseFloor]:
    floors = NoiseFloor.objects.filter(among("series_id", series), smallest__isnull=False)
    related = floors.select_related("run", "series__machine").defer("series__machine__facts")
    return related.order_by("series", F("id").desc()).distinct("series")


NEWEST_FLOORS = PreparedQuery(floors_of)


def newest_floors(series: Iterable[int]) -> dict[int, NoiseFloor]:
    """The current noise floor of each of these series, by id; absent if no A/A run had enough clean pairs."""
    return {floor.series_id: floor for floor in NEWEST_FLOORS.rows(series=list(series))}
