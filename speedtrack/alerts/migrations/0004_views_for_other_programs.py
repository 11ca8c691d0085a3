"""Views for other programs (docs/sql.md). Their columns stay; a later migration may only add to them.

PostgreSQL changes the type of no column that a view shows: a migration that does drops the views, and makes them again.
"""

from django.db import migrations

VIEWS = """
CREATE VIEW export_commits AS
  SELECT pr.slug AS project, pr.is_public, br.name AS branch, po.number AS position, co.sha, co.committed_at,
         co.authored_at, co.author_name AS author, co.subject
    FROM projects_position po
    JOIN projects_branch br ON br.id = po.branch_id
    JOIN projects_project pr ON pr.id = br.project_id
    JOIN projects_commit co ON co.id = po.commit_id;

CREATE VIEW export_points AS
  SELECT pr.slug AS project, pr.is_public, be.name AS benchmark, be.digest AS benchmark_digest, se.metric,
         ma.name AS machine, en.digest AS environment, br.name AS branch, po.number AS position, co.sha AS commit,
         co.committed_at, me.value, me.low, me.high, me.n, me.flags, at.run_id AS run, at.ended_at AS measured_at,
         me.id AS measurement
    FROM runs_series se
    JOIN projects_project pr ON pr.id = se.project_id
    JOIN benchmarks_benchmark be ON be.id = se.benchmark_id
    JOIN runs_machine ma ON ma.id = se.machine_id
    JOIN runs_environment en ON en.id = se.environment_id
    JOIN runs_measurement me ON me.series_id = se.id AND me.accepted AND NOT me.paired
    JOIN runs_attempt at ON at.id = me.attempt_id
    JOIN projects_position po ON po.commit_id = me.commit_id
    JOIN projects_branch br ON br.id = po.branch_id
    JOIN projects_commit co ON co.id = me.commit_id;

CREATE VIEW export_samples AS
  SELECT sa.measurement_id AS measurement, one.trial - 1 AS trial, one.value,
         coalesce((one.trial - 1) = ANY (sa.flagged), false) AS flagged
    FROM runs_samples sa CROSS JOIN LATERAL unnest(sa.values) WITH ORDINALITY AS one (value, trial)
   WHERE one.value IS NOT NULL;

CREATE VIEW export_change_points AS
  SELECT pr.slug AS project, pr.is_public, be.name AS benchmark, se.metric, ma.name AS machine, br.name AS branch,
         older.sha AS before_commit, newer.sha AS commit, newer.committed_at, newer.subject, cp.kind, cp.status,
         cp.ratio, cp.low, cp.high, cp.created, cp.settled_at, cp.alert_id AS alert
    FROM alerts_changepoint cp
    JOIN runs_series se ON se.id = cp.series_id
    JOIN projects_project pr ON pr.id = se.project_id
    JOIN benchmarks_benchmark be ON be.id = se.benchmark_id
    JOIN runs_machine ma ON ma.id = se.machine_id
    JOIN projects_branch br ON br.id = cp.branch_id
    JOIN projects_commit older ON older.id = cp.before_id
    JOIN projects_commit newer ON newer.id = cp.commit_id;

CREATE VIEW export_alerts AS
  SELECT pr.slug AS project, pr.is_public, al.id AS alert, br.name AS branch, older.sha AS before_commit,
         newer.sha AS commit, newer.committed_at, newer.subject, al.status, al.improvement, al.muted, al.created,
         fix.sha AS fixed_by
    FROM alerts_alert al
    JOIN projects_project pr ON pr.id = al.project_id
    JOIN projects_branch br ON br.id = al.branch_id
    JOIN projects_commit older ON older.id = al.before_id
    JOIN projects_commit newer ON newer.id = al.commit_id
    LEFT JOIN projects_commit fix ON fix.id = al.fixed_by_id
   WHERE al.merged_into_id IS NULL;
"""
NAMES = ("alerts", "change_points", "samples", "points", "commits")


class Migration(migrations.Migration):
    dependencies = [
        ("alerts", "0003_longer_names_in_mutes"),
        ("runs", "0006_outside_results"),
        ("benchmarks", "0002_outside_metrics"),
        ("projects", "0004_carry_hook_secrets"),
    ]
    operations = [migrations.RunSQL(VIEWS, "".join(f"DROP VIEW export_{name};" for name in NAMES))]
