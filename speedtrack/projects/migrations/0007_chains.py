"""What was called a line and its places is a chain and its commits."""

from collections.abc import Iterable

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import F, Q

def foreign(model: str, **options: object) -> models.ForeignKey:
    return models.ForeignKey(to=f"projects.{model}", on_delete=django.db.models.deletion.CASCADE, **options)


def key(*fields: str) -> models.CompositePrimaryKey:
    return models.CompositePrimaryKey(*fields, blank=True, editable=False, primary_key=True, serialize=False)


# In names of constraints and indexes: the former part, and the new one. Numbers are Django's digests of table and column.
PARTS = (
    ("projects_place", "projects_chaincommit"),
    ("projects_line", "projects_chain"),
    ("line_id", "chain_id"),
    ("of_a_line", "of_a_chain"),
    ("6fd0738d", "ed559c1c"),
    ("214404da", "c861df32"),
    ("a8c97975", "07e9bfed"),
    ("cccd5044", "877c201d"),
)
RENAME_THE_REST = """
DO $$
DECLARE
  found record;
  part text[];
  name text;
BEGIN
  FOR found IN
    SELECT conrelid::regclass AS owner, conname AS former, true AS is_constraint
      FROM pg_constraint WHERE conrelid = ANY ('{{{chain}, {commits}, projects_segment}}'::regclass[])
     UNION ALL
    SELECT indexrelid::regclass, relname, false
      FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
     WHERE indrelid = ANY ('{{{chain}, {commits}, projects_segment}}'::regclass[])
       AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype IN ('p', 'u'))
  LOOP
    name := found.former;
    FOREACH part SLICE 1 IN ARRAY ARRAY[{parts}] LOOP
      name := replace(name, part[1], part[2]);
    END LOOP;
    IF name <> found.former AND found.is_constraint THEN
      EXECUTE format('ALTER TABLE %s RENAME CONSTRAINT %I TO %I', found.owner, found.former, name);
    ELSIF name <> found.former THEN
      EXECUTE format('ALTER INDEX %s RENAME TO %I', found.owner, name);
    END IF;
  END LOOP;
END $$;
"""
FORWARD = """
ALTER TABLE projects_line RENAME TO projects_chain;
ALTER TABLE projects_place RENAME TO projects_chaincommit;
ALTER SEQUENCE projects_line_id_seq RENAME TO projects_chain_id_seq;
ALTER TABLE projects_chaincommit RENAME COLUMN line_id TO chain_id;
ALTER TABLE projects_segment RENAME COLUMN line_id TO chain_id;
"""
BACK = """
ALTER TABLE projects_segment RENAME COLUMN chain_id TO line_id;
ALTER TABLE projects_chaincommit RENAME COLUMN chain_id TO line_id;
ALTER SEQUENCE projects_chain_id_seq RENAME TO projects_line_id_seq;
ALTER TABLE projects_chaincommit RENAME TO projects_place;
ALTER TABLE projects_chain RENAME TO projects_line;
"""


def rename_the_rest(chain: str, commits: str, parts: Iterable[tuple[str, str]]) -> str:
    return RENAME_THE_REST.format(
        chain=chain, commits=commits, parts=", ".join(f"['{former}', '{name}']" for former, name in parts)
    )


class Migration(migrations.Migration):
    dependencies = [("projects", "0006_lines_and_segments")]

    operations = [
        migrations.RunSQL(
            FORWARD + rename_the_rest("projects_chain", "projects_chaincommit", PARTS),
            BACK + rename_the_rest("projects_line", "projects_place", ((name, former) for former, name in PARTS)),
            state_operations=[
                migrations.DeleteModel("Segment"),
                migrations.DeleteModel("Place"),
                migrations.DeleteModel("Line"),
                migrations.CreateModel(
                    "Chain",
                    [
                        ("id", models.AutoField(primary_key=True, serialize=False)),
                        ("project", foreign("project", related_name="chains")),
                    ],
                ),
                migrations.CreateModel(
                    "ChainCommit",
                    [
                        ("pk", key("chain_id", "number")),
                        ("number", models.IntegerField()),
                        (
                            "commit",
                            models.OneToOneField(
                                "projects.commit", on_delete=django.db.models.deletion.CASCADE, related_name="+"
                            ),
                        ),
                        ("chain", foreign("chain", related_name="commits", db_index=False)),
                    ],
                ),
                migrations.CreateModel(
                    "Segment",
                    [
                        ("pk", key("branch_id", "chain_id")),
                        ("first", models.IntegerField()),
                        ("last", models.IntegerField()),
                        ("branch", foreign("branch", related_name="segments", db_index=False)),
                        ("chain", foreign("chain", related_name="segments", db_index=False)),
                    ],
                    {
                        "indexes": [models.Index(fields=["chain", "last"], name="segments_of_a_chain")],
                        "constraints": [
                            models.CheckConstraint(condition=Q(first__lte=F("last")), name="a_segment_has_a_commit")
                        ],
                    },
                ),
            ],
        ),
    ]
