"""The tables of this app as its migrations up to 0002 make them, for a database without it (docs/releasing.md)."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models
from speedtrack.ground.postgres.together import Together, operations_of


class Migration(migrations.Migration):

    replaces = [
        ('calls', '0001_answers_and_allowances'),
        ('calls', '0002_kept_answers_know_the_rights_they_need'),
    ]

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        Together(
            [
                migrations.CreateModel(
                    name='Allowance',
                    fields=[
                        ('caller', models.CharField(max_length=80, primary_key=True, serialize=False)),
                        ('whole_at', models.DateTimeField()),
                    ],
                    options={
                        'indexes': [models.Index(fields=['whole_at'], name='allowances_by_time')],
                    },
                ),
                migrations.CreateModel(
                    name='KeptAnswer',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('key', models.CharField(max_length=255)),
                        ('request_digest', models.CharField(help_text='of method, address and body', max_length=64)),
                        ('status', models.SmallIntegerField()),
                        ('document', models.JSONField(null=True)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('token', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.persontoken')),
                        ('rights', models.JSONField(help_text='what the request needed; null: an older version kept the answer', null=True)),
                    ],
                    options={
                        'indexes': [models.Index(fields=['created'], name='answers_by_time')],
                        'constraints': [models.UniqueConstraint(fields=('token', 'key'), name='an_answer_once_per_key')],
                    },
                ),
            ],
        ),
        operations_of("calls.0001_answers_and_allowances")[-1],
    ]
