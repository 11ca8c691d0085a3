"""``measured_at`` of a point from outside: what it says of itself, not when it was sent (docs/sql.md)."""

from django.db import migrations

POINTS = """
CREATE OR REPLACE VIEW export_points AS
  SELECT pr.slug AS project, pr.is_public, be.name AS benchmark, be.digest AS benchmark_digest, se.metric,
         ma.name AS machine, en.digest AS environment, br.name AS branch, po.number AS position, co.sha AS commit,
         co.committed_at, me.value, me.low, me.high, me.n, me.flags, at.run_id AS run, {measured_at} AS measured_at,
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
    JOIN projects_commit co ON co.id = me.commit_id
    LEFT JOIN runs_origin ori ON ori.measurement_id = me.id;
"""


class Migration(migrations.Migration):
    dependencies = [("alerts", "0004_views_for_other_programs"), ("runs", "0006_outside_results")]
    operations = [
        migrations.RunSQL(
            POINTS.format(measured_at="coalesce(ori.measured_at, at.ended_at)"), POINTS.format(measured_at="at.ended_at")
        )
    ]
