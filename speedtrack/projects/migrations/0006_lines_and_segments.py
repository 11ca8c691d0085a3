"""A commit is stored once on its line, and a branch as segments of lines; ``projects_position`` becomes a view of both."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q

from speedtrack.projects.former import into_chains

# Views for other programs read the former table by its number, and the new view once they are made again.
REDIRECT = """
DO $$
DECLARE reader record;
BEGIN
  CREATE TEMPORARY TABLE readers ON COMMIT DROP AS
    SELECT DISTINCT r.ev_class::regclass::text AS name, pg_get_viewdef(r.ev_class) AS definition
      FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid
     WHERE d.classid = 'pg_rewrite'::regclass AND d.refobjid = 'projects_position'::regclass
       AND r.ev_class <> 'projects_position'::regclass;
  {exchange}
  FOR reader IN SELECT * FROM readers LOOP
    EXECUTE format('CREATE OR REPLACE VIEW %s AS %s', reader.name, reader.definition);
  END LOOP;
  DROP TABLE readers;
END $$;
"""
VIEW = """
CREATE VIEW projects_position AS
  SELECT s.branch_id, p.number, p.commit_id
    FROM projects_segment s JOIN projects_place p ON p.line_id = s.line_id AND p.number <= s.last;
"""
FORWARD = (
    REDIRECT.format(exchange=f"ALTER TABLE projects_position RENAME TO former_position; {VIEW}")
    + into_chains("projects_line", "projects_place", "line_id")
    + "DROP TABLE former_position;"
)
EMPTY = """
ALTER VIEW projects_position RENAME TO new_position;
CREATE TABLE projects_position (number integer NOT NULL, branch_id bigint NOT NULL, commit_id integer NOT NULL);
"""
BACK = (
    REDIRECT.format(exchange=EMPTY)
    + """
INSERT INTO projects_position (branch_id, number, commit_id)
  SELECT branch_id, number, commit_id FROM new_position ORDER BY branch_id, number;
DROP VIEW new_position;
ALTER TABLE projects_position
  ADD CONSTRAINT projects_position_pkey PRIMARY KEY (branch_id, number),
  ADD CONSTRAINT one_position_per_commit UNIQUE (branch_id, commit_id),
  ADD CONSTRAINT projects_position_branch_id_2fded07c_fk_projects_branch_id
      FOREIGN KEY (branch_id) REFERENCES projects_branch DEFERRABLE INITIALLY DEFERRED,
  ADD CONSTRAINT projects_position_commit_id_e73ba87c_fk_projects_commit_id
      FOREIGN KEY (commit_id) REFERENCES projects_commit DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX projects_position_commit_id_e73ba87c ON projects_position (commit_id);
"""
)


def foreign(model: str, **options: object) -> models.ForeignKey:
    return models.ForeignKey(to=f"projects.{model}", on_delete=django.db.models.deletion.CASCADE, **options)


def key(*fields: str) -> models.CompositePrimaryKey:
    return models.CompositePrimaryKey(*fields, blank=True, editable=False, primary_key=True, serialize=False)


class Migration(migrations.Migration):
    dependencies = [("projects", "0005_positions_without_ids")]

    operations = [
        migrations.CreateModel(
            "Line",
            [
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("project", foreign("project", related_name="lines")),
            ],
        ),
        migrations.CreateModel(
            "Place",
            [
                ("pk", key("line_id", "number")),
                ("number", models.IntegerField()),
                (
                    "commit",
                    models.OneToOneField(
                        "projects.commit", on_delete=django.db.models.deletion.CASCADE, related_name="+"
                    ),
                ),
                ("line", foreign("line", related_name="places", db_index=False)),
            ],
        ),
        migrations.CreateModel(
            "Segment",
            [
                ("pk", key("branch_id", "line_id")),
                ("first", models.IntegerField()),
                ("last", models.IntegerField()),
                ("branch", foreign("branch", related_name="segments", db_index=False)),
                ("line", foreign("line", related_name="segments", db_index=False)),
            ],
            {
                "indexes": [models.Index(fields=["line", "last"], name="segments_of_a_line")],
                "constraints": [
                    models.CheckConstraint(condition=Q(first__lte=F("last")), name="a_segment_has_a_commit")
                ],
            },
        ),
        migrations.RunSQL(
            FORWARD, BACK, state_operations=[migrations.AlterModelOptions("position", {"managed": False})]
        ),
    ]
