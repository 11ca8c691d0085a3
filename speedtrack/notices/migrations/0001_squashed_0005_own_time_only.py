"""The tables of this app as its migrations up to 0005 make them, for a database without it (docs/releasing.md)."""

import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import speedtrack.ground.postgres.wakeups
import speedtrack.ground.secrets.sealed
from django.conf import settings
from django.db import migrations, models
from speedtrack.ground.postgres.together import Together


class Migration(migrations.Migration):

    replaces = [
        ('notices', '0001_initial'),
        ('notices', '0002_alarms'),
        ('notices', '0003_token_mails'),
        ('notices', '0004_former_document'),
        ('notices', '0005_own_time_only'),
    ]

    initial = True

    dependencies = [
        ('accounts', '0005_limits_of_logins'),
        ('alerts', '0004_views_for_other_programs'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ('projects', '0001_initial'),
        ('runs', '0006_outside_results'),
    ]

    operations = [
        Together(
            [
                migrations.CreateModel(
                    name='Channel',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('kind', models.CharField(choices=[('webhook', 'Webhook'), ('slack', 'Slack'), ('matrix', 'Matrix'), ('teams', 'Microsoft Teams'), ('github', 'GitHub'), ('gitlab', 'GitLab'), ('gitea', 'Gitea or Forgejo')], max_length=20)),
                        ('name', models.CharField(max_length=100)),
                        ('url', speedtrack.ground.secrets.sealed.SealedField()),
                        ('origin', models.CharField(max_length=300)),
                        ('place', models.CharField(default='', help_text='a Matrix room, or a repository of a forge', max_length=300)),
                        ('secret', speedtrack.ground.secrets.sealed.SealedField(default=speedtrack.ground.secrets.sealed.Secret)),
                        ('former_secret', speedtrack.ground.secrets.sealed.SealedField(default=speedtrack.ground.secrets.sealed.Secret)),
                        ('improvements', models.BooleanField(default=False, help_text='also reports improvements')),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('paused_at', models.DateTimeField(null=True)),
                        ('paused_why', models.TextField(default='')),
                        ('tried_at', models.DateTimeField(null=True)),
                        ('delivered_at', models.DateTimeField(null=True)),
                        ('failures', models.PositiveIntegerField(default=0, help_text='failed deliveries since the last success')),
                        ('error', models.TextField(default='', help_text='why the last delivery failed')),
                        ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='channels', to='projects.project')),
                        ('former_document', models.BooleanField(default=False, help_text='a webhook gets speedtrack.alert/1')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='a_channel_once_per_project_and_name'), models.CheckConstraint(condition=models.Q(models.Q(('url', ''), _negated=True), models.Q(('origin', ''), _negated=True)), name='a_channel_has_an_address'), models.CheckConstraint(condition=models.Q(models.Q(('paused_at', None), ('paused_why', '')), models.Q(('paused_at__isnull', False), models.Q(('paused_why', ''), _negated=True)), _connector='OR'), name='a_paused_channel_has_a_reason')],
                    },
                ),
                migrations.CreateModel(
                    name='CommitStatus',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('state', models.CharField(choices=[('pending', 'Pending'), ('success', 'Success'), ('failure', 'Failure'), ('error', 'Error')], default='pending', max_length=20)),
                        ('description', models.CharField(default='', max_length=200)),
                        ('version', models.IntegerField(default=0)),
                        ('sent_version', models.IntegerField(default=0)),
                        ('look_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), null=True)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='statuses', to='notices.channel')),
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='projects.commit')),
                    ],
                    options={
                        'verbose_name_plural': 'commit statuses',
                        'indexes': [models.Index(condition=models.Q(('look_at__isnull', False)), fields=['look_at'], name='statuses_to_be_looked_at')],
                        'constraints': [models.UniqueConstraint(fields=('channel', 'commit'), name='a_status_once_per_channel_and_commit'), models.CheckConstraint(condition=models.Q(('sent_version__lte', models.F('version'))), name='a_forge_has_no_newer_status_than_there_is')],
                    },
                ),
                migrations.CreateModel(
                    name='Outbox',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('recipient', models.EmailField(help_text='empty: it goes to the channel', max_length=254)),
                        ('digest', models.BooleanField(default=False)),
                        ('event', models.CharField(max_length=40)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('not_before', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('attempts', models.IntegerField(default=0)),
                        ('sent_at', models.DateTimeField(null=True)),
                        ('given_up_at', models.DateTimeField(null=True)),
                        ('unanswered', models.IntegerField(default=0, help_text='attempts after which the receiver had the whole message but did not answer')),
                        ('error', models.TextField(default='')),
                        ('alert', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='outbox', to='alerts.alert')),
                        ('channel', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='outbox', to='notices.channel')),
                        ('commit_status', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='outbox', to='notices.commitstatus')),
                        ('machine_event', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='outbox', to='runs.machineevent')),
                        ('alarm', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='outbox', to='runs.alarm')),
                        ('token', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='outbox', to='accounts.persontoken')),
                    ],
                    options={
                        'indexes': [models.Index(condition=models.Q(('given_up_at', None), ('sent_at', None)), fields=['not_before'], name='outbox_waiting')],
                        'constraints': [models.UniqueConstraint(condition=models.Q(('channel', None)), fields=('recipient', 'alert', 'event'), name='a_mail_once_per_recipient_alert_event'), models.UniqueConstraint(fields=('recipient', 'machine_event'), name='a_mail_once_per_recipient_machine_event'), models.UniqueConstraint(fields=('channel', 'alert', 'event'), name='a_message_once_per_channel_alert_event'), models.UniqueConstraint(fields=('commit_status', 'event'), name='a_commit_status_once_per_version'), models.UniqueConstraint(condition=models.Q(('digest', True)), fields=('recipient', 'event'), name='a_digest_once_per_recipient'), speedtrack.ground.postgres.wakeups.Wakes(after='INSERT', name='a_mail_wakes', rows=''), models.UniqueConstraint(fields=('recipient', 'alarm', 'event'), name='a_mail_once_per_recipient_alarm_event'), models.UniqueConstraint(fields=('token', 'event'), name='a_mail_once_per_token_event'), models.CheckConstraint(condition=models.Q(models.Q(('alarm__isnull', True), ('alert__isnull', False), ('commit_status__isnull', True), ('digest', False), ('machine_event__isnull', True), ('token__isnull', True)), models.Q(('alarm__isnull', True), ('alert__isnull', True), ('commit_status__isnull', True), ('digest', False), ('machine_event__isnull', False), ('token__isnull', True)), models.Q(('alarm__isnull', False), ('alert__isnull', True), ('commit_status__isnull', True), ('digest', False), ('machine_event__isnull', True), ('token__isnull', True)), models.Q(('alarm__isnull', True), ('alert__isnull', True), ('commit_status__isnull', True), ('digest', False), ('machine_event__isnull', True), ('token__isnull', False)), models.Q(('alarm__isnull', True), ('alert__isnull', True), ('commit_status__isnull', False), ('digest', False), ('machine_event__isnull', True), ('token__isnull', True)), models.Q(('alarm__isnull', True), ('alert__isnull', True), ('commit_status__isnull', True), ('digest', True), ('machine_event__isnull', True), ('token__isnull', True)), _connector='OR'), name='a_message_tells_of_one_thing'), models.CheckConstraint(condition=models.Q(models.Q(('channel', None), ('commit_status', None), models.Q(('recipient', ''), _negated=True)), models.Q(('alarm', None), ('channel__isnull', False), ('digest', False), ('machine_event', None), ('recipient', ''), ('token', None)), _connector='OR'), name='a_message_goes_to_an_address_or_a_channel')],
                    },
                ),
                migrations.CreateModel(
                    name='PullComment',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('number', models.BigIntegerField(help_text='of the pull request, as people see it')),
                        ('comment_id', models.CharField(default='', help_text="the forge's id of it; empty: not made yet", max_length=40)),
                        ('text', models.TextField(default='', help_text='as the forge last accepted it')),
                        ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comments', to='notices.channel')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('channel', 'number'), name='one_comment_per_pull_request')],
                    },
                ),
                migrations.CreateModel(
                    name='Subscriber',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('email', models.EmailField(max_length=254)),
                        ('own_commits', models.BooleanField(default=True, help_text="notify at once about the person's own commits")),
                        ('follow_ups', models.BooleanField(default=True, help_text='notify about later events of such alerts')),
                        ('time_zone', models.CharField(default='UTC', max_length=64)),
                        ('quiet_from', models.TimeField(blank=True, null=True)),
                        ('quiet_until', models.TimeField(blank=True, null=True)),
                        ('digest_hour', models.PositiveSmallIntegerField(default=8)),
                        ('most_per_day', models.PositiveSmallIntegerField(default=20)),
                        ('user', models.OneToOneField(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='subscriber', to=settings.AUTH_USER_MODEL)),
                        ('own_time_only', models.BooleanField(default=False, help_text='such commits count even where the same instructions take other time')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('email'), name='a_subscriber_once_per_address'), models.CheckConstraint(condition=models.Q(models.Q(('quiet_from', None), ('quiet_until', None)), models.Q(('quiet_from__isnull', False), ('quiet_until__isnull', False), models.Q(('quiet_from', models.F('quiet_until')), _negated=True)), _connector='OR'), name='quiet_hours_have_two_ends'), models.CheckConstraint(condition=models.Q(('digest_hour__lte', 23)), name='a_digest_goes_out_at_an_hour_of_the_day'), models.CheckConstraint(condition=models.Q(('most_per_day__gte', 1)), name='at_least_one_mail_a_day')],
                    },
                ),
                migrations.CreateModel(
                    name='Subscription',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('branches', models.CharField(default='*', max_length=200)),
                        ('benchmarks', models.CharField(default='*', max_length=200)),
                        ('smallest_percent', models.FloatField(default=0)),
                        ('direction', models.CharField(choices=[('worse', 'slower'), ('both', 'slower or faster')], default='worse', max_length=10)),
                        ('pace', models.CharField(choices=[('now', 'at once'), ('daily', 'once a day, as a table'), ('weekly', 'on Mondays, as a table')], default='now', max_length=10)),
                        ('skip_same_instructions', models.BooleanField(default=False, help_text='a change of time does not match if the count of instructions stayed the same')),
                        ('project', models.ForeignKey(blank=True, help_text='null: all projects', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='projects.project')),
                        ('subscriber', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='subscriptions', to='notices.subscriber')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('subscriber', 'project', 'branches', 'benchmarks', 'direction'), name='a_subscription_once', nulls_distinct=False), models.CheckConstraint(condition=models.Q(('smallest_percent__gte', 0), ('smallest_percent__lte', 1000)), name='the_smallest_change_is_0_to_1000_percent'), models.CheckConstraint(condition=models.Q(('pace__in', ['now', 'daily', 'weekly'])), name='a_subscription_has_a_known_pace')],
                    },
                ),
                migrations.CreateModel(
                    name='Notice',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('own', models.BooleanField(default=False)),
                        ('pace', models.CharField(choices=[('now', 'at once'), ('daily', 'once a day, as a table'), ('weekly', 'on Mondays, as a table')], max_length=10)),
                        ('not_before', models.DateTimeField()),
                        ('event', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='alerts.alertevent')),
                        ('mail', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='notices.outbox')),
                        ('subscriber', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='notices.subscriber')),
                        ('subscription', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='notices', to='notices.subscription')),
                    ],
                    options={
                        'indexes': [models.Index(condition=models.Q(('mail', None)), fields=['not_before'], name='notices_waiting')],
                        'constraints': [models.UniqueConstraint(fields=('subscriber', 'event'), name='a_subscriber_is_told_once_of_an_event')],
                    },
                ),
            ],
        ),
    ]
