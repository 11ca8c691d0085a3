
import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0002_canary'),
        ('runs', '0008_aa_looked_at'),
    ]

    operations = [
        migrations.CreateModel(
            name='NoiseFloor',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pairs', models.IntegerField()),
                ('deviation', models.FloatField(null=True)),
                ('ratio', models.FloatField(null=True)),
                ('low', models.FloatField(help_text="lower end of the ratio's 95% interval", null=True)),
                ('high', models.FloatField(null=True)),
                ('smallest', models.FloatField(null=True)),
                ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='floors', to='runs.run')),
                ('series', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='floors', to='runs.series')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('run', 'series'), name='a_noise_floor_once_per_run_and_series')],
            },
        ),
    ]
