"""Find out whether anything that a timeline shows has changed, from far fewer facts than it has points."""

import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from speedtrack.web.pages.timeline.overlay import Overlay
from speedtrack.web.pages.timeline.points import Gaps, ShownChange

# Each version of a row has another pair of ``xmin`` and ``ctid``. Whoever accepts or flags measurements updates their
# series.
FACTS = """
    SELECT (SELECT string_agg(concat(s.id, s.xmin, s.ctid), ',' ORDER BY s.id)
              FROM runs_series s WHERE s.id = ANY(%(series)s)),
           (SELECT md5(string_agg(concat(t.name, ' ', t.sha), ',' ORDER BY t.id))
              FROM projects_tag t WHERE t.project_id = ANY(%(projects)s)),
           (SELECT md5(string_agg(concat(a.id, a.xmin, a.ctid), ',' ORDER BY a.id))
              FROM projects_annotation a WHERE a.project_id = ANY(%(projects)s) OR a.project_id IS NULL)
"""


def etag_of(overlay: Overlay, gaps: Gaps, changes: Sequence[ShownChange], form: str) -> str:
    """The version of a timeline in this ``form``. ``gaps``, ``changes``: of the overlay."""
    facts = overlay.fetch(FACTS, series=[series.pk for line in overlay.shown for series in line.series])
    paths = [(path.branch.pk, path.branch.head_id, path.first, path.last) for path in overlay.paths]
    lines = [(line.name, line.base) for line in overlay.shown]
    state = (form, code_version(), paths, lines, overlay.problems, facts, gaps, changes)
    return f'"{hashlib.sha256(repr(state).encode()).hexdigest()[:32]}"'


@cache
def code_version() -> str:
    """A digest of the code of all pages: what another version of it shows may differ."""
    digest = hashlib.sha256()
    for file in sorted(Path(__file__).parents[2].rglob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()
