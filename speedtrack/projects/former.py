"""What releases with a row for each commit of each branch had, in a table ``former_position``, as chains and segments.

A branch's own chain has the commits that no branch before it has; the default branch is the first one.
"""


def into_chains(chains: str = "projects_chain", commits: str = "projects_chaincommit", key: str = "chain_id") -> str:
    """The statements. ``chains``, ``commits`` and ``key``: the tables and their column, which had other names once."""
    return f"""
CREATE TEMPORARY TABLE owned ON COMMIT DROP AS
  SELECT DISTINCT ON (po.commit_id) po.commit_id, po.number, po.branch_id
    FROM former_position po
    JOIN projects_branch b ON b.id = po.branch_id
    JOIN projects_project pr ON pr.id = b.project_id
   ORDER BY po.commit_id, b.name <> pr.default_branch, b.id;
CREATE TEMPORARY TABLE owners ON COMMIT DROP AS
  SELECT id AS branch_id, nextval(pg_get_serial_sequence('{chains}', 'id')) AS {key}
    FROM projects_branch WHERE id IN (SELECT branch_id FROM owned) ORDER BY id;
INSERT INTO {chains} (id, project_id)
  SELECT o.{key}, b.project_id FROM owners o JOIN projects_branch b ON b.id = o.branch_id;
INSERT INTO {commits} ({key}, number, commit_id)
  SELECT {key}, number, commit_id FROM owned JOIN owners USING (branch_id) ORDER BY {key}, number;
ANALYZE {commits};
INSERT INTO projects_segment (branch_id, {key}, first, last)
  SELECT po.branch_id, cc.{key}, min(cc.number), max(cc.number)
    FROM former_position po JOIN {commits} cc ON cc.commit_id = po.commit_id
   GROUP BY po.branch_id, cc.{key} ORDER BY po.branch_id, cc.{key};
ANALYZE {chains}, projects_segment;
DROP TABLE owned, owners;
"""  # noqa: S608 - names of tables
