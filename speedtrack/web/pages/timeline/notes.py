"""The annotations of a path of commits, each at the commit that it is about or that followed its moment."""

from typing import Any, NamedTuple

import numpy as np
from django.db import connection

from speedtrack.markdown import plain_of
from speedtrack.projects.models import Branch

MOST = 500  # the newest
LONGEST = 500  # characters of a text
# The annotations, and if some have a moment the times of the commits of the path and of those next to it: what happened
# before the one or after the other is out of sight.
ANNOTATIONS = """
    WITH notes AS MATERIALIZED (
        SELECT a.id, a.text, coalesce(u.username, '') AS author, p.number,
               extract(epoch FROM a.moment)::float8 AS moment
          FROM projects_annotation a
          LEFT JOIN auth_user u ON u.id = a.author_id
          LEFT JOIN projects_position p ON p.commit_id = a.commit_id AND p.branch_id = %(branch)s
         WHERE (a.project_id = %(project)s OR a.project_id IS NULL)
           AND (a.moment IS NOT NULL OR p.number BETWEEN %(first)s AND %(last)s)
      ORDER BY a.id DESC LIMIT %(most)s
    ), times AS (
        SELECT p.number, extract(epoch FROM c.committed_at)::float8 AS at
          FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
         WHERE EXISTS (SELECT FROM notes WHERE moment IS NOT NULL)
           AND p.branch_id = %(branch)s AND p.number BETWEEN %(first)s - 1 AND %(last)s + 1
    )
    SELECT (SELECT coalesce(json_agg(json_build_array(id, text, author, moment, number) ORDER BY id), '[]') FROM notes),
           (SELECT array_agg(number ORDER BY number) FROM times),
           (SELECT array_agg(at ORDER BY number) FROM times)
"""


class Note(NamedTuple):
    """``moment``: in seconds since 1970; of a commit the ``number`` of its position instead."""

    id: int
    text: str
    author: str
    moment: float | None
    number: int | None


def annotations_on(branch: Branch, first: int, last: int) -> list[dict[str, Any]]:
    """The annotations from position ``first`` to ``last``, in the order of their places, which count from ``first``."""
    asked = {"project": branch.project_id, "branch": branch.pk, "first": first, "last": last, "most": MOST}
    with connection.cursor() as cursor:
        cursor.execute(ANNOTATIONS, asked)
        rows, numbers, times = cursor.fetchone()
    notes = [Note(*row) for row in rows]
    positions = place_moments([note.moment for note in notes if note.moment is not None], numbers or [], times or [])
    shown = []
    for note in notes:
        position = note.number if note.moment is None else positions[note.moment]
        if position is not None and first <= position <= last:
            text = shortened(plain_of(note.text))
            shown.append({"at": position - first, "text": text, "id": note.id, "author": note.author})
    return sorted(shown, key=lambda one: one["at"])


def place_moments(moments: list[float], numbers: list[int], times: list[float]) -> dict[float, int | None]:
    """The position of the first commit at or after each moment; of a moment after all of them, the last one's.

    None for a moment before the first of them. A commit that is older than one before it does not count: dates may go
    back.
    """
    latest = np.maximum.accumulate(np.array(times, np.float64))
    found = np.searchsorted(latest, moments).tolist()
    positions = [*numbers, *numbers[-1:]]
    return {moment: positions[place] if place else None for moment, place in zip(moments, found, strict=True)}


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
