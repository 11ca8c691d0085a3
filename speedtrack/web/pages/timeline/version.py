"""Find out whether anything that a timeline shows has changed, from far fewer facts than it has points."""

import hashlib
from functools import cache
from pathlib import Path

from speedtrack.web.pages.timeline.overlay import Overlay

# Each version of a row has another pair of ``xmin`` and ``ctid``. Whoever accepts or flags measurements updates their
# series.
FACTS = """
    SELECT (SELECT string_agg(concat(s.id, s.xmin, s.ctid), ',' ORDER BY s.id)
              FROM runs_series s WHERE s.id = ANY(%(series)s)),
           (SELECT md5(string_agg(concat(c.id, c.xmin, c.ctid, a.status), ',' ORDER BY c.id))
              FROM alerts_changepoint c LEFT JOIN alerts_alert a ON a.id = c.alert_id
             WHERE c.series_id = ANY(%(series)s)),
           (SELECT md5(string_agg(concat(r.id, r.status, r.attempt, ':', r.linked_id), ',' ORDER BY r.id))
              FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
                   AS path (project_id, branch_id, first, last)
              JOIN projects_position p ON p.branch_id = path.branch_id AND p.number BETWEEN path.first AND path.last
              JOIN runs_run r ON r.commit_id = p.commit_id AND r.project_id = path.project_id
             WHERE r.machine_id + 0 = ANY(%(machines)s) AND r.base_id IS NULL AND r.canary_id IS NULL
               AND (r.status <> 'succeeded' OR r.linked_id IS NOT NULL)),
           (SELECT md5(string_agg(concat(d.id, d.xmin, d.ctid), ',' ORDER BY d.id))
              FROM runs_deferral d WHERE d.branch_id = ANY(%(branches)s)),
           (SELECT md5(string_agg(concat(t.name, ' ', t.sha), ',' ORDER BY t.id))
              FROM projects_tag t WHERE t.project_id = ANY(%(projects)s)),
           (SELECT md5(string_agg(concat(a.id, a.xmin, a.ctid), ',' ORDER BY a.id))
              FROM projects_annotation a WHERE a.project_id = ANY(%(projects)s) OR a.project_id IS NULL)
"""


def etag_of(overlay: Overlay, asked: str) -> str:
    """The version of a timeline in the form that was ``asked`` for."""
    series = [one for line in overlay.shown for one in line.series]
    machines = sorted({one.machine_id for one in series})
    facts = overlay.fetch(FACTS, series=[one.pk for one in series], machines=machines)
    paths = [(path.branch.pk, path.branch.head_id, path.first, path.last) for path in overlay.paths]
    shown = [(line.name, line.base) for line in overlay.shown]
    state = (asked, code_version(), paths, shown, overlay.problems, facts)
    return f'"{hashlib.sha256(repr(state).encode()).hexdigest()[:32]}"'


@cache
def code_version() -> str:
    """A digest of the code of all pages: what another version of it shows may differ."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[2].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
