"""Has anything changed that a timeline shows? Far fewer facts decide that than the timeline has points."""

import hashlib
from functools import cache
from pathlib import Path

from speedtrack.web.pages.timeline.view import View

# Each version of a row has another pair of ``xmin`` and ``ctid``. Whoever accepts or flags measurements updates their
# series.
FACTS = """
    SELECT (SELECT string_agg(concat(s.id, s.xmin, s.ctid), ',' ORDER BY s.id)
              FROM runs_series s WHERE s.id = ANY(%(series)s)),
           (SELECT md5(string_agg(concat(c.id, c.xmin, c.ctid), ',' ORDER BY c.id))
              FROM alerts_changepoint c WHERE c.series_id = ANY(%(series)s)),
           (SELECT md5(string_agg(concat(r.id, r.status, r.attempt, ':', r.linked_id), ',' ORDER BY r.id))
              FROM runs_run r JOIN projects_position p ON p.commit_id = r.commit_id
             WHERE r.project_id = %(project)s AND r.machine_id + 0 = ANY(%(machines)s)
               AND r.base_id IS NULL AND r.canary_id IS NULL
               AND (r.status <> 'succeeded' OR r.linked_id IS NOT NULL)
               AND p.branch_id = %(branch)s AND p.number BETWEEN %(first)s AND %(last)s),
           (SELECT md5(string_agg(concat(t.name, ' ', t.sha), ',' ORDER BY t.id))
              FROM projects_tag t WHERE t.project_id = %(project)s)
"""


def etag_of(view: View, asked: str) -> str:
    """The version of a timeline in the form that was ``asked`` for."""
    machines = sorted({s.machine_id for s in view.series})
    facts = view.fetch(FACTS, series=[s.pk for s in view.series], machines=machines)
    state = (asked, code_version(), view.branch.pk, view.branch.head_id, view.first, view.last, facts)
    return f'"{hashlib.sha256(repr(state).encode()).hexdigest()[:32]}"'


@cache
def code_version() -> str:
    """A digest of the code of all pages: what another version of it shows may differ."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[2].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
