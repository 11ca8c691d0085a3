"""The measured releases that a timeline's values are compared with, wherever they lie on their branch or beside it."""

import math
from collections import defaultdict
from typing import Any

from speedtrack.alerts.lines.lines import sql
from speedtrack.projects.releases import RELEASE
from speedtrack.web.pages.timeline.overlay import Overlay

# Of another branch than the default one, only the releases that lie on it.
MEASURED = sql("""
      WITH path AS MATERIALIZED (
        SELECT asked.place, array_agg(c.id) AS commits
          FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[])
               WITH ORDINALITY AS asked (project_id, branch_id, place)
          JOIN projects_project o ON o.id = asked.project_id
          JOIN projects_branch b ON b.id = asked.branch_id
          JOIN projects_tag t ON t.project_id = o.id AND t.name ~ %(release)s
          JOIN projects_commit c ON c.project_id = o.id AND c.sha = t.sha
         WHERE b.name = o.default_branch
            OR EXISTS (SELECT FROM projects_position p WHERE p.branch_id = b.id AND p.commit_id = c.id)
      GROUP BY asked.place)
    SELECT path.place - 1, s.id, t.name, extract(epoch FROM c.committed_at)::bigint, m.value, m.low, m.high
      FROM path
      JOIN unnest(%(series)s::bigint[], %(places)s::bigint[]) AS s (id, place) ON s.place = path.place
CROSS JOIN LATERAL (
        SELECT * FROM runs_measurement m
         WHERE m.series_id = s.id AND m.commit_id = ANY (path.commits) AND IS_CLEAN_POINT OFFSET 0) m
      JOIN projects_commit c ON c.id = m.commit_id
      JOIN projects_tag t ON t.project_id = c.project_id AND t.sha = c.sha AND t.name ~ %(release)s
  ORDER BY c.committed_at, string_to_array(substring(t.name FROM %(release)s), '.')::numeric[], m.attempt_id
""")

#: By path and series: the releases in the order of their commits' times.
Releases = dict[tuple[int, int], list[dict[str, Any]]]


def releases_of(overlay: Overlay) -> Releases:
    """By path and series: its measured releases. If a commit has several measurements or tags, the last one counts."""
    each = [(series, number) for number, along in enumerate(overlay.along, 1) for series in along]
    series, numbers = [series_id for series_id, _ in each], [number for _, number in each]
    rows = overlay.fetch(MEASURED, series=series, places=numbers, release=f"^{RELEASE.pattern}$")
    releases: Releases = defaultdict(list)
    for path, pk, name, time, *estimate in rows:
        if all(map(math.isfinite, estimate)):
            value, low, high = estimate
            releases[path, pk].append({"name": name, "time": time, "value": value, "low": low, "high": high})
    return releases
