"""The tables of this app as its migrations up to 0002 make them, for a database without it (docs/releasing.md)."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models
from speedtrack.ground.postgres.together import Together


class Migration(migrations.Migration):

    replaces = [
        ('benchmarks', '0001_initial'),
        ('benchmarks', '0002_outside_metrics'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('projects', '0002_project_is_public'),
    ]

    operations = [
        Together(
            [
                migrations.CreateModel(
                    name='Suite',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=100)),
                        ('digest', models.CharField(max_length=80, unique=True)),
                        ('definition', models.JSONField()),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                    ],
                ),
                migrations.CreateModel(
                    name='Benchmark',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=200)),
                        ('digest', models.CharField(max_length=80)),
                        ('definition', models.JSONField()),
                        ('why', models.TextField(default='')),
                        ('ladder', models.CharField(default='', help_text='the ladder that it is a rung of', max_length=100)),
                        ('axis', models.CharField(default='', help_text='the setting that differs from rung to rung', max_length=20)),
                        ('rung', models.FloatField(help_text='its value of that setting', null=True)),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='benchmarks', to='projects.project')),
                        ('rate_from', models.ForeignKey(help_text='the benchmark whose first throughput on a machine sets the rate of this one there', null=True, on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='benchmarks.benchmark')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('project', 'name', 'digest'), name='a_benchmark_once_per_definition'), models.CheckConstraint(condition=models.Q(models.Q(('axis', ''), ('ladder', ''), ('rung', None)), models.Q(('rung__isnull', False), models.Q(('ladder', ''), _negated=True), models.Q(('axis', ''), _negated=True)), _connector='OR'), name='a_rung_has_a_ladder_an_axis_and_a_value')],
                    },
                ),
                migrations.CreateModel(
                    name='BenchmarkSet',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('digest', models.CharField(help_text='over the names and digests of its benchmarks', max_length=80)),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='benchmark_sets', to='projects.project')),
                        ('benchmarks', models.ManyToManyField(related_name='sets', through='benchmarks.SetMember', to='benchmarks.benchmark')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('project', 'digest'), name='a_benchmark_set_once_per_project')],
                    },
                ),
                migrations.CreateModel(
                    name='SetMember',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('benchmark', models.ForeignKey(on_delete=django.db.models.deletion.RESTRICT, related_name='+', to='benchmarks.benchmark')),
                        ('benchmark_set', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='members', to='benchmarks.benchmarkset')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('benchmark_set', 'benchmark'), name='a_benchmark_once_in_a_set')],
                    },
                ),
                migrations.CreateModel(
                    name='SuiteEdit',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=100)),
                        ('number', models.PositiveIntegerField(help_text='counts the edits of the suite from 1')),
                        ('text', models.TextField(null=True)),
                        ('file_digest', models.CharField(blank=True, default='', max_length=80)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('name', 'number'), name='an_edit_once_per_number')],
                    },
                ),
                migrations.CreateModel(
                    name='OutsideMetric',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=60)),
                        ('key', models.CharField(max_length=100)),
                        ('smallest_effect', models.FloatField(help_text='as a ratio; null: that of all metrics from outside', null=True)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='outside_metrics', to='projects.project')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='an_outside_metric_once_per_project'), models.CheckConstraint(condition=models.Q(('smallest_effect', None), models.Q(('smallest_effect__gt', 0), ('smallest_effect__lt', 1)), _connector='OR'), name='a_smallest_effect_is_a_ratio')],
                    },
                ),
            ],
        ),
    ]
