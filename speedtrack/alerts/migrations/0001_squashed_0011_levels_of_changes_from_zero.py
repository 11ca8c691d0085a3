"""The tables of this app as its migrations up to 0011 make them, for a database without it (docs/releasing.md)."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import speedtrack.ground.postgres.reals
import speedtrack.ground.postgres.wakeups
from django.conf import settings
from django.db import migrations, models
from speedtrack.ground.postgres.together import Together, operations_of


class Migration(migrations.Migration):

    replaces = [
        ('alerts', '0001_initial'),
        ('alerts', '0002_bisections'),
        ('alerts', '0003_longer_names_in_mutes'),
        ('alerts', '0004_views_for_other_programs'),
        ('alerts', '0005_measured_at_of_outside_points'),
        ('alerts', '0006_events_that_wait_for_a_run'),
        ('alerts', '0007_comparison_batches'),
        ('alerts', '0008_carry_comparisons'),
        ('alerts', '0009_remove_commit_comparisons'),
        ('alerts', '0010_hunk_trials'),
        ('alerts', '0011_levels_of_changes_from_zero'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('benchmarks', '0002_outside_metrics'),
        ('projects', '0004_carry_hook_secrets'),
        ('runs', '0011_hunk_runs'),
    ]

    operations = [
        Together(
            [
                migrations.CreateModel(
                    name='SeriesSensitivity',
                    fields=[
                        ('series', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='sensitivity', serialize=False, to='runs.series')),
                        ('position', models.IntegerField()),
                        ('points', models.IntegerField()),
                        ('between', models.FloatField(null=True)),
                        ('within', models.FloatField(null=True)),
                        ('modes', models.FloatField(null=True)),
                        ('visible', models.FloatField(null=True)),
                        ('visible_within', models.IntegerField(null=True)),
                        ('paired', models.FloatField(null=True)),
                        ('aa_runs', models.IntegerField(help_text='A/A runs with an answer')),
                        ('aa_different', models.IntegerField(help_text='those that found the same program different at 95%')),
                        ('smallest_effect', models.FloatField()),
                        ('causes', models.JSONField(default=list, help_text='of too much noise: pairs of a likely reason and a remedy')),
                    ],
                ),
                migrations.CreateModel(
                    name='Alert',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('status', models.CharField(choices=[('suspected', 'Suspected'), ('confirmed', 'Confirmed'), ('expected', 'Expected'), ('invalid', 'Invalid'), ('fixed', 'Fixed')], max_length=20)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('improvement', models.BooleanField(default=False)),
                        ('muted', models.BooleanField(default=False)),
                        ('part', models.PositiveIntegerField(default=0, help_text='above 0: a person split it off another alert of its range')),
                        ('placed', models.BooleanField(default=False, help_text='a person chose the commit')),
                        ('assignee', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('before', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('branch', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='projects.branch')),
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='alerts', to='projects.commit')),
                        ('fixed_by', models.ForeignKey(help_text='the commit that restored the old level', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('merged_into', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='merged', to='alerts.alert')),
                        ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='alerts', to='projects.project')),
                        ('reverted_by', models.ForeignKey(help_text='its message says that it reverts the cause', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                    ],
                    options={
                        'indexes': [models.Index(condition=models.Q(('merged_into', None), ('status__in', ['suspected', 'confirmed'])), fields=['project'], name='alerts_open')],
                        'constraints': [models.UniqueConstraint(condition=models.Q(('merged_into', None), ('status__in', ['suspected', 'confirmed'])), fields=('project', 'before', 'commit', 'part'), name='one_open_alert_per_project_and_range'), models.CheckConstraint(condition=models.Q(('merged_into', None), models.Q(('merged_into', models.F('id')), _negated=True), _connector='OR'), name='no_alert_is_merged_into_itself'), models.CheckConstraint(condition=models.Q(('fixed_by', None), ('status', 'fixed'), _connector='OR'), name='only_a_fixed_alert_names_who_fixed_it')],
                    },
                ),
                migrations.CreateModel(
                    name='AlertEvent',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('kind', models.CharField(choices=[('raised', 'Raised'), ('grew', 'Grew'), ('measured', 'Measured'), ('traced', 'Traced'), ('narrowed', 'Narrowed'), ('decided', 'Decided'), ('noted', 'Noted'), ('moved', 'Moved'), ('split', 'Split'), ('merged', 'Merged'), ('fixed', 'Fixed'), ('reopened', 'Reopened')], max_length=20)),
                        ('untold', models.BooleanField(default=True)),
                        ('past', models.BooleanField(default=False)),
                        ('improvement', models.BooleanField(default=False)),
                        ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('before', models.CharField(default='', max_length=20)),
                        ('after', models.CharField(default='', max_length=20)),
                        ('note', models.TextField(default='')),
                        ('alert', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='alerts.alert')),
                        ('who', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('run', models.ForeignKey(help_text='it is told when this is read', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='runs.run')),
                    ],
                    options={
                        'indexes': [models.Index(condition=models.Q(('untold', True)), fields=['id'], name='alert_events_untold')],
                        'constraints': [speedtrack.ground.postgres.wakeups.Wakes(after='INSERT', name='an_event_of_an_alert_wakes', rows='')],
                    },
                ),
                migrations.CreateModel(
                    name='BestLevel',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('level', models.FloatField()),
                        ('branch', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='projects.branch')),
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='projects.commit')),
                        ('series', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='runs.series')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('series', 'branch'), name='one_best_level_per_series_and_branch')],
                    },
                ),
                migrations.CreateModel(
                    name='ChangePoint',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('kind', models.CharField(choices=[('step', 'Step'), ('drift', 'Drift')], default='step', max_length=20)),
                        ('reference', models.CharField(default='', help_text='of a drift: what ``before`` is, in words', max_length=100)),
                        ('status', models.CharField(choices=[('suspected', 'Suspected'), ('settling', 'Settling'), ('confirmed', 'Confirmed'), ('refuted', 'Refuted'), ('unsettled', 'Unsettled'), ('history', 'History'), ('machine', 'Machine')], default='suspected', max_length=20)),
                        ('ratio', models.FloatField(help_text='new level / old level: by the history, then by pairs')),
                        ('low', models.FloatField(help_text="lower end of the ratio's 95% interval")),
                        ('high', models.FloatField()),
                        ('score', models.FloatField(help_text='the shift in the history / the threshold that it had to exceed')),
                        ('note', models.TextField(default='')),
                        ('past', models.BooleanField(default=False, help_text='suspected in old history: alerts/lines/past.py')),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('settled_at', models.DateTimeField(null=True)),
                        ('alert', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='change_points', to='alerts.alert')),
                        ('before', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('branch', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='change_points', to='projects.branch')),
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='change_points', to='projects.commit')),
                        ('returns_from', models.ForeignKey(help_text='the change that this one undoes', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='returns', to='alerts.changepoint')),
                        ('runs', models.ManyToManyField(help_text='the paired runs that settle it', related_name='change_points', to='runs.run')),
                        ('series', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='change_points', to='runs.series')),
                        ('spoken_for_by', models.ForeignKey(help_text='the clearest of many simultaneous changes, which is measured first', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='speaks_for', to='alerts.changepoint')),
                        ('from_zero', models.FloatField(help_text='the new level, where the old one is 0 and has no ratio', null=True)),
                    ],
                    options={
                        'indexes': [models.Index(condition=models.Q(('status__in', ['suspected', 'settling'])), fields=['status'], name='change_points_unsettled')],
                        'constraints': [models.UniqueConstraint(condition=models.Q(('status', 'suspected')), fields=('series', 'kind', 'before', 'commit'), name='one_suspicion_per_series_and_range')],
                    },
                ),
                migrations.CreateModel(
                    name='Mute',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('benchmark', models.CharField(blank=True, default='', max_length=200)),
                        ('metric', models.CharField(blank=True, default='', max_length=100)),
                        ('reason', models.TextField()),
                        ('until', models.DateTimeField()),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('ended_at', models.DateTimeField(help_text='when a person ended it early', null=True)),
                        ('ended_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('machine', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='mutes', to='runs.machine')),
                        ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='mutes', to='projects.project')),
                        ('who', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('benchmark', ''), _negated=True), ('machine__isnull', False), _connector='OR'), name='a_mute_names_a_benchmark_or_a_machine'), models.CheckConstraint(condition=models.Q(('metric', ''), models.Q(('benchmark', ''), _negated=True), _connector='OR'), name='a_mute_of_a_metric_names_its_benchmark'), models.CheckConstraint(condition=models.Q(('reason', ''), _negated=True), name='a_mute_has_a_reason'), models.CheckConstraint(condition=models.Q(('until__gt', models.F('created'))), name='a_mute_ends_after_it_began')],
                    },
                ),
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
                migrations.CreateModel(
                    name='Verdict',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('answer', models.CharField(choices=[('different', 'Different'), ('same', 'Same'), ('old', 'Old'), ('new', 'New'), ('unknown', 'Unknown')], max_length=20)),
                        ('ratio', models.FloatField(help_text='commit / base')),
                        ('low', models.FloatField(help_text="lower end of the ratio's 95% interval")),
                        ('high', models.FloatField()),
                        ('p', models.FloatField(help_text='of the null hypothesis; null where pairs placed a commit on a side', null=True)),
                        ('pairs', models.IntegerField()),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('base', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('change_point', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='verdicts', to='alerts.changepoint')),
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('change_point', 'base', 'commit', 'pairs'), name='a_verdict_once_per_number_of_pairs')],
                    },
                ),
                migrations.CreateModel(
                    name='Bisection',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('metric_name', models.CharField(max_length=100)),
                        ('path', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), size=None)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('stepped_at', models.DateTimeField(help_text='when its runs were last looked at', null=True)),
                        ('ended_at', models.DateTimeField(null=True)),
                        ('note', models.TextField(default='', help_text='why it ended, if not because all is known')),
                        ('asked_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('before', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('benchmark_set', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='benchmarks.benchmarkset')),
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('machine', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='runs.machine')),
                        ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='bisections', to='projects.project')),
                        ('runs', models.ManyToManyField(related_name='bisections', to='runs.run')),
                        ('suite', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='benchmarks.suite')),
                    ],
                    options={
                        'indexes': [models.Index(fields=['project', '-id'], name='bisections_of_project'), models.Index(condition=models.Q(('ended_at', None)), fields=['id'], name='bisections_measuring')],
                        'constraints': [models.UniqueConstraint(condition=models.Q(('ended_at', None)), fields=('before', 'commit', 'machine', 'benchmark_set', 'metric_name'), name='one_bisection_at_a_time_of_two_commits'), models.CheckConstraint(condition=models.Q(('before', models.F('commit')), _negated=True), name='a_bisection_has_two_commits'), speedtrack.ground.postgres.wakeups.Wakes(after='INSERT', name='a_new_bisection_wakes', rows='')],
                    },
                ),
                migrations.CreateModel(
                    name='BisectionAnswer',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('answer', models.CharField(choices=[('different', 'Different'), ('same', 'Same'), ('old', 'Old'), ('new', 'New'), ('unknown', 'Unknown'), ('undecided', 'Undecided'), ('failed', 'Failed')], max_length=9)),
                        ('ratio', models.FloatField(null=True)),
                        ('low', models.FloatField(null=True)),
                        ('high', models.FloatField(null=True)),
                        ('pairs', models.IntegerField(default=0)),
                        ('why', models.TextField(default='', help_text='why it could not be built or measured')),
                        ('benchmark', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='benchmarks.benchmark')),
                        ('bisection', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='answers', to='alerts.bisection')),
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('bisection', 'benchmark', 'commit'), name='a_bisection_answers_once_per_benchmark_and_commit')],
                    },
                ),
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
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comparisons', to='projects.commit')),
                    ],
                    options={
                        'verbose_name_plural': 'comparison batches',
                    },
                ),
                migrations.CreateModel(
                    name='HunkTrial',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('pieces', models.JSONField(null=True)),
                        ('texts', models.JSONField(default=dict)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('ended_at', models.DateTimeField(null=True)),
                        ('note', models.TextField(default='', help_text='why nothing can be counted')),
                        ('before', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('benchmark_set', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='benchmarks.benchmarkset')),
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('machine', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='runs.machine')),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='hunk_trials', to='projects.project')),
                        ('suite', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='benchmarks.suite')),
                    ],
                    options={
                        'indexes': [models.Index(fields=['project', '-id'], name='hunk_trials_of_project'), models.Index(condition=models.Q(('ended_at', None)), fields=['id'], name='hunk_trials_under_way')],
                        'constraints': [models.UniqueConstraint(fields=('before', 'commit', 'machine'), name='hunks_are_tried_once_per_machine')],
                    },
                ),
                migrations.CreateModel(
                    name='HunkStep',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('pieces', django.contrib.postgres.fields.ArrayField(base_field=models.IntegerField(), help_text='their indexes, ascending', size=None)),
                        ('growths', models.JSONField(null=True)),
                        ('refusal', models.TextField(default='', help_text='why it was not counted')),
                        ('commit', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('run', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='runs.run')),
                        ('trial', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='alerts.hunktrial')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('trial', 'commit'), name='a_commit_without_hunks_once_per_trial')],
                    },
                ),
            ],
        ),
        *operations_of("alerts.0004_views_for_other_programs"),
        *operations_of("alerts.0005_measured_at_of_outside_points"),
    ]
