"""What releases with a row for each commit of each branch had, in a table ``former_position``, as lines and segments.

A branch's own line has the commits that no branch before it has; the default branch is the first one.
"""

INTO_LINES = """
CREATE TEMPORARY TABLE owned ON COMMIT DROP AS
  SELECT DISTINCT ON (po.commit_id) po.commit_id, po.number, po.branch_id
    FROM former_position po
    JOIN projects_branch b ON b.id = po.branch_id
    JOIN projects_project pr ON pr.id = b.project_id
   ORDER BY po.commit_id, b.name <> pr.default_branch, b.id;
CREATE TEMPORARY TABLE owners ON COMMIT DROP AS
  SELECT id AS branch_id, nextval(pg_get_serial_sequence('projects_line', 'id')) AS line_id
    FROM projects_branch WHERE id IN (SELECT branch_id FROM owned) ORDER BY id;
INSERT INTO projects_line (id, project_id)
  SELECT o.line_id, b.project_id FROM owners o JOIN projects_branch b ON b.id = o.branch_id;
INSERT INTO projects_place (line_id, number, commit_id)
  SELECT line_id, number, commit_id FROM owned JOIN owners USING (branch_id) ORDER BY line_id, number;
ANALYZE projects_place;
INSERT INTO projects_segment (branch_id, line_id, first, last)
  SELECT po.branch_id, pl.line_id, min(pl.number), max(pl.number)
    FROM former_position po JOIN projects_place pl ON pl.commit_id = po.commit_id
   GROUP BY po.branch_id, pl.line_id ORDER BY po.branch_id, pl.line_id;
ANALYZE projects_line, projects_segment;
DROP TABLE owned, owners;
"""
