"""How much the runs of a line differ. A young line does not show it itself, so other series are asked."""

import math
from collections.abc import Sequence
from statistics import median
from typing import Any

from django.db import connection

from speedtrack.alerts import floors, lines
from speedtrack.runs.models import Series
from speedtrack.stats.levels import spread_between

OWN = 24  # points: from here on a line shows its spread itself

# The newest values of the nearest series of the project with this metric: of the benchmark on this machine in another
# environment, of the benchmark on another machine, of other benchmarks on this machine. By commit, as the index is.
KIN = lines.sql("""
    SELECT CASE WHEN benchmark_id <> %(benchmark)s THEN 3 WHEN machine_id <> %(machine)s THEN 2 ELSE 1 END AS distance,
           ARRAY(SELECT m.value FROM runs_measurement m
                  WHERE m.series_id = s.id AND IS_CLEAN_POINT
               ORDER BY m.commit_id DESC LIMIT 60)
      FROM runs_series s
     WHERE project_id = %(project)s AND metric = %(metric)s AND id <> %(series)s
       AND (benchmark_id = %(benchmark)s OR machine_id = %(machine)s)
  ORDER BY distance, id DESC LIMIT 20
""")


def spread_of(series: Series, values: Sequence[float], smallest_effect: float) -> float:
    """The relative standard deviation between runs: by the line itself, or else by other series."""
    own = spread_between(values) if len(values) >= OWN else None
    return own if own is not None else spread_of_kin(series, smallest_effect)


def spread_of_kin(series: Series, smallest_effect: float) -> float:
    """That of the nearest related series; else that of single trials in A/A runs, since runs differ more than trials.

    Without either: the smallest effect, since a metric's threshold is set above its usual noise.
    """
    asked: dict[str, Any] = {
        "project": series.project_id,
        "metric": series.metric,
        "series": series.pk,
        "benchmark": series.benchmark_id,
        "machine": series.machine_id,
    }
    known: dict[int, list[float]] = {}
    with connection.cursor() as cursor:
        cursor.execute(KIN, asked)
        for distance, values in cursor:
            if (spread := spread_between(values)) is not None:
                known.setdefault(distance, []).append(spread)
    if known:
        return median(known[min(known)])
    floor = floors.newest_floors([series.pk]).get(series.pk)
    return floor.deviation / math.sqrt(2) if floor and floor.deviation else smallest_effect
