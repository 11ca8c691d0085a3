import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

import speedtrack.ground.postgres.reals


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0006_events_that_wait_for_a_run'),
        ('projects', '0004_carry_hook_secrets'),
        ('runs', '0010_random_layouts'),
    ]

    operations = [
        migrations.CreateModel(
            name='ComparisonBatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('series', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
                ('distances', django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), size=None)),
                ('old', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=None)),
                ('ratios', django.contrib.postgres.fields.ArrayField(base_field=speedtrack.ground.postgres.reals.RealField(), size=None)),
                ('lows', django.contrib.postgres.fields.ArrayField(base_field=speedtrack.ground.postgres.reals.RealField(), size=None)),
                ('highs', django.contrib.postgres.fields.ArrayField(base_field=speedtrack.ground.postgres.reals.RealField(), size=None)),
                ('answers', models.TextField()),
                ('commit', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='projects.commit')),
            ],
            options={
                'verbose_name_plural': 'comparison batches',
            },
        ),
    ]
