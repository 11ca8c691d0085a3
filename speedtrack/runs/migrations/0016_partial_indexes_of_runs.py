import django.db.models.deletion
from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models

from speedtrack.ground.postgres.together import Together


class Migration(migrations.Migration):
    atomic = False  # an index that is made concurrently stops no claim, and cannot be made in a transaction

    dependencies = [
        ('runs', '0014_alarms_of_gone_branches'),
    ]

    operations = [
        Together(
            [
                AddIndexConcurrently(
                    model_name='run',
                    index=models.Index(condition=models.Q(('base__isnull', False)), fields=['base'], name='runs_of_a_base'),
                ),
                AddIndexConcurrently(
                    model_name='run',
                    index=models.Index(condition=models.Q(('canary__isnull', False)), fields=['canary'], name='runs_of_a_canary'),
                ),
                AddIndexConcurrently(
                    model_name='run',
                    index=models.Index(condition=models.Q(('linked__isnull', False)), fields=['linked'], name='runs_linked_to_a_run'),
                ),
            ],
        ),
        # Apart: an index that goes with a field takes those along that its model does not have yet.
        Together(
            [
                migrations.AlterField(
                    model_name='run',
                    name='base',
                    field=models.ForeignKey(db_index=False, help_text='the other side of a paired run', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit'),
                ),
                migrations.AlterField(
                    model_name='run',
                    name='canary',
                    field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='runs', to='runs.canary'),
                ),
                migrations.AlterField(
                    model_name='run',
                    name='linked',
                    field=models.ForeignKey(db_index=False, help_text='the run that measured the identical program', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='runs.run'),
                ),
            ],
        ),
    ]
