"""What is written at the commits of a timeline: their tags, and the annotations of the page's own path.

An annotation stands at the commit that it is about, or at the one that followed its moment.
"""

from typing import Any

from speedtrack.ground.texts.markdown import plain_of
from speedtrack.web.pages.timeline.overlay import Overlay

MOST = 500  # the newest
LONGEST = 500  # characters of a text
# A moment belongs to the first commit at or after it, or to the last one if it is after all of them. For moments, the
# commits next to the path are read as well: what happened before the one or after the other is out of sight. A commit
# that is older than one before it does not count: dates may go back.
NOTES = """
    WITH notes AS MATERIALIZED (
        SELECT * FROM (
            SELECT a.id, a.text, coalesce(u.username, '') AS author, extract(epoch FROM a.moment)::float8 AS moment,
                   (SELECT number FROM projects_position p
                     WHERE p.commit_id = a.commit_id AND p.branch_id = %(branch)s) AS number
              FROM projects_annotation a LEFT JOIN auth_user u ON u.id = a.author_id
             WHERE a.project_id = %(project)s OR a.project_id IS NULL) found
         WHERE moment IS NOT NULL OR number BETWEEN %(first)s AND %(last)s
      ORDER BY id DESC LIMIT %(most)s
    ), times AS MATERIALIZED (
        SELECT p.number, extract(epoch FROM c.committed_at)::float8 AS at
          FROM projects_position p JOIN projects_commit c ON c.id = p.commit_id
         WHERE EXISTS (SELECT FROM notes WHERE moment IS NOT NULL)
           AND p.branch_id = %(branch)s AND p.number BETWEEN %(first)s - 1 AND %(last)s + 1
    ), ends AS (
        SELECT min(number) AS begin, max(number) AS last FROM times
    ), following AS (
        SELECT id, min(number) OVER (ORDER BY at DESC) AS number
          FROM (SELECT NULL AS id, number, at FROM times
                 UNION ALL
                SELECT id, NULL, moment FROM notes WHERE moment IS NOT NULL) each
    ), placed AS (
        SELECT n.id, n.text, n.author,
               CASE WHEN n.moment IS NULL THEN n.number
                    WHEN f.number IS NULL THEN ends.last
                    WHEN f.number > ends.begin THEN f.number END AS number
          FROM notes n CROSS JOIN ends LEFT JOIN following f ON f.id = n.id
    ), tags AS (
        SELECT asked.place, p.number, t.name
          FROM unnest(%(projects)s::bigint[], %(branches)s::bigint[], %(firsts)s::int[], %(lasts)s::int[])
               WITH ORDINALITY AS asked (project_id, branch_id, first, last, place)
          JOIN projects_tag t ON t.project_id = asked.project_id
          JOIN projects_commit c ON c.project_id = t.project_id AND c.sha = t.sha
          JOIN projects_position p ON p.commit_id = c.id AND p.branch_id = asked.branch_id
         WHERE p.number BETWEEN asked.first AND asked.last
    )
    SELECT (SELECT coalesce(json_agg(json_build_array(place - 1, number, name) ORDER BY place, number, name), '[]')
              FROM tags),
           (SELECT coalesce(json_agg(json_build_array(number, text, id, author) ORDER BY number, id), '[]')
              FROM placed WHERE number BETWEEN %(first)s AND %(last)s)
"""

#: By path: its tags in the order of their commits.
Tags = list[list[dict[str, Any]]]


def notes_on(overlay: Overlay) -> tuple[Tags, list[dict[str, Any]]]:
    """The tags of all paths, and the annotations along the first one; their places count from the first of the path."""
    page = overlay.paths[0]
    parameters = {"project": page.branch.project_id, "branch": page.branch.pk, "first": page.first, "last": page.last}
    ((tagged, annotated),) = overlay.fetch(NOTES, **parameters, most=MOST)
    tags: Tags = [[] for _ in overlay.paths]
    for path, number, name in tagged:
        tags[path].append({"at": number - overlay.paths[path].first, "name": name})
    annotations = [
        {"at": number - page.first, "text": shortened(plain_of(text)), "id": pk, "author": author}
        for number, text, pk, author in annotated
    ]
    return tags, annotations


def shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
