
from django.db import migrations, models

#: Until now a side was known by its commit.
BASES = """
    UPDATE {table} AS one SET side = 'base'
      FROM runs_attempt AS a JOIN runs_run AS r ON r.id = a.run_id
     WHERE a.id = one.attempt_id AND r.base_id = one.commit_id
"""


class Migration(migrations.Migration):

    dependencies = [
        ('benchmarks', '0001_initial'),
        ('projects', '0001_initial'),
        ('runs', '0003_reference_rates'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='build',
            name='a_build_once_per_attempt_and_commit',
        ),
        migrations.RemoveConstraint(
            model_name='measurement',
            name='a_measurement_once_per_attempt',
        ),
        migrations.RemoveConstraint(
            model_name='trial',
            name='a_trial_once_per_attempt',
        ),
        migrations.AddField(
            model_name='build',
            name='side',
            field=models.CharField(choices=[('head', 'Head'), ('base', 'Base')], default='head', max_length=4),
        ),
        migrations.AddField(
            model_name='measurement',
            name='side',
            field=models.CharField(choices=[('head', 'Head'), ('base', 'Base')], default='head', max_length=4),
        ),
        migrations.AddField(
            model_name='measurement',
            name='stopping',
            field=models.JSONField(help_text='why its trials ended: docs/result-format.md', null=True),
        ),
        migrations.AddField(
            model_name='trial',
            name='pairing',
            field=models.JSONField(help_text='its block, slot and slices, where both sides were up at once', null=True),
        ),
        migrations.AddField(
            model_name='trial',
            name='side',
            field=models.CharField(choices=[('head', 'Head'), ('base', 'Base')], default='head', max_length=4),
        ),
        migrations.AlterField(
            model_name='run',
            name='reason',
            field=models.CharField(choices=[('push', 'Push'), ('backfill', 'Backfill'), ('confirm', 'Confirm'), ('bisect', 'Bisect'), ('manual', 'Manual'), ('canary', 'Canary'), ('aa', 'A/A')], max_length=20),
        ),
        *(
            migrations.RunSQL(BASES.format(table=table), migrations.RunSQL.noop)
            for table in ('runs_build', 'runs_measurement', 'runs_trial')
        ),
        migrations.AddConstraint(
            model_name='build',
            constraint=models.UniqueConstraint(fields=('attempt', 'side'), name='a_build_once_per_attempt_and_side'),
        ),
        migrations.AddConstraint(
            model_name='measurement',
            constraint=models.UniqueConstraint(fields=('attempt', 'series', 'side'), name='a_measurement_once_per_attempt'),
        ),
        migrations.AddConstraint(
            model_name='trial',
            constraint=models.UniqueConstraint(fields=('attempt', 'benchmark', 'side', 'number'), name='a_trial_once_per_attempt'),
        ),
    ]
