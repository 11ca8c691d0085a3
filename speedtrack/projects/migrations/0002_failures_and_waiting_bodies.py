import django.db.models.functions.datetime
from django.db import migrations, models


# Two equal bodies that wait since different days are one from now on: the look for the newer covers both.
ONE_OF_EQUAL_BODIES_WAITS = """
UPDATE projects_delivery older SET status = 'processed', outcome = 'an equal delivery that came later was waiting'
WHERE status = 'received' AND EXISTS (
    SELECT FROM projects_delivery newer
    WHERE newer.project_id = older.project_id AND newer.body_digest = older.body_digest
        AND newer.status = 'received' AND newer.id > older.id
)"""


class Migration(migrations.Migration):

    dependencies = [
        ('projects', '0001_initial'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='delivery',
            name='a_delivery_once_per_body_and_day',
        ),
        migrations.RemoveIndex(
            model_name='delivery',
            name='deliveries_waiting',
        ),
        migrations.RemoveField(
            model_name='delivery',
            name='received_on',
        ),
        migrations.AddField(
            model_name='project',
            name='failures',
            field=models.PositiveIntegerField(default=0, help_text='looks that failed since the last one that did not'),
        ),
        migrations.AddField(
            model_name='project',
            name='left_out',
            field=models.JSONField(default=dict, help_text='branches and tags that could not be fetched: reference name -> {sha, why}'),
        ),
        migrations.AlterField(
            model_name='delivery',
            name='received_at',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='when it, or an equal one, last came'),
        ),
        migrations.RunSQL(ONE_OF_EQUAL_BODIES_WAITS, migrations.RunSQL.noop),
        migrations.AddConstraint(
            model_name='delivery',
            constraint=models.UniqueConstraint(condition=models.Q(('status', 'received')), fields=('project', 'body_digest'), name='one_waiting_delivery_per_body'),
        ),
    ]
