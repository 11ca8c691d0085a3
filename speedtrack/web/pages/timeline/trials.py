"""The single trials behind the points of a timeline, and the runs that measured them."""

from dataclasses import dataclass, field

from speedtrack.alerts.lines.lines import sql
from speedtrack.web.pages.timeline.overlay import Overlay
from speedtrack.web.pages.timeline.view import rows_of

MOST_POINTS = 400

TRIALS = sql("""
    SELECT asked.path, m.series_id, p.number, a.run_id, s.values, s.flagged
      FROM unnest(%(paths)s::int[], %(series)s::bigint[], %(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
           AS asked (path, series_id, branch_id, first, last)
CROSS JOIN LATERAL (
        SELECT m.* FROM runs_measurement m
         WHERE m.series_id = asked.series_id
           AND m.commit_id = ANY(ARRAY(SELECT commit_id FROM projects_position
                                        WHERE branch_id = asked.branch_id
                                          AND number BETWEEN asked.first AND asked.last))
           AND IS_POINT OFFSET 0) m
      JOIN projects_position p ON p.branch_id = asked.branch_id AND p.commit_id = m.commit_id
      JOIN runs_attempt a ON a.id = m.attempt_id
 LEFT JOIN runs_samples s ON s.measurement_id = m.id
  ORDER BY m.attempt_id
""")


@dataclass
class PointTrials:
    """``run``: the newest run of the point. ``values`` and ``void``: its trials that count, and those that do not.

    Both are empty where the samples have been deleted.
    """

    run: int
    values: list[float] = field(default_factory=list)
    void: list[float] = field(default_factory=list)


#: By path, series and position.
Trials = dict[tuple[int, int, int], PointTrials]


def trials_of(overlay: Overlay, points: int) -> tuple[Trials, list[str]]:
    """The trials of all points, and sentences why there are none. ``points``: the number of points."""
    if points > MOST_POINTS:
        return {}, [f"Single trials are shown for at most {MOST_POINTS} points, and these are {points}: zoom in."]
    each = [(number, pk, path) for number, path in enumerate(overlay.paths) for pk in overlay.along[number]]
    rows = rows_of(
        TRIALS,
        paths=[number for number, _, _ in each],
        series=[pk for _, pk, _ in each],
        branches=[path.branch.pk for _, _, path in each],
        firsts=[path.first for _, _, path in each],
        lasts=[path.last for _, _, path in each],
    )
    trials: Trials = {}
    for path, series, number, run, values, flagged in rows:
        point = trials.setdefault((path, series, number), PointTrials(run))
        point.run = run
        for trial, value in enumerate(values or ()):
            if value is not None:
                (point.void if trial in (flagged or ()) else point.values).append(value)
    return trials, []
