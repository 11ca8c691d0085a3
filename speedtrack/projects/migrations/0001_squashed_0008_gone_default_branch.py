"""The tables of this app as its migrations up to 0008 make them, for a database without it (docs/releasing.md)."""

import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.datetime
import speedtrack.ground.postgres.wakeups
import speedtrack.ground.secrets.sealed
import speedtrack.projects.models
from django.conf import settings
from django.db import migrations, models
from speedtrack.ground.postgres.together import Together

POSITIONS = """
CREATE VIEW projects_position AS
  SELECT s.branch_id, p.number, p.commit_id
    FROM projects_segment s JOIN projects_chaincommit p ON p.chain_id = s.chain_id AND p.number <= s.last
"""


class Migration(migrations.Migration):

    replaces = [
        ('projects', '0001_initial'),
        ('projects', '0002_project_is_public'),
        ('projects', '0003_credentials_pulls_refusals'),
        ('projects', '0004_carry_hook_secrets'),
        ('projects', '0005_positions_without_ids'),
        ('projects', '0006_lines_and_segments'),
        ('projects', '0007_chains'),
        ('projects', '0008_gone_default_branch'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        # Each of their steps takes long once many models refer to users.
        ('auth', '0012_alter_user_first_name_max_length'),
        ('axes', '0010_accessattemptexpiration'),
        ('mfa', '0003_authenticator_type_uniq'),
        ('socialaccount', '0006_alter_socialaccount_extra_data'),
        ('usersessions', '0001_initial'),
    ]

    operations = [
        Together(
            [
                migrations.CreateModel(
                    name='Commit',
                    fields=[
                        ('id', models.AutoField(primary_key=True, serialize=False)),
                        ('sha', models.CharField(max_length=64)),
                        ('parents', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), default=list, size=None)),
                        ('author_name', models.CharField(max_length=200)),
                        ('author_email', models.CharField(max_length=254)),
                        ('authored_at', models.DateTimeField()),
                        ('committed_at', models.DateTimeField()),
                        ('subject', models.CharField(max_length=500)),
                        ('reverts', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), default=list, help_text='ids, perhaps abbreviated, that its message reverts', size=None)),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='commits', to='projects.project')),
                        ('unreachable_since', models.DateTimeField(help_text='since when no tracked branch and no tag leads to it, after a forced push or a deletion', null=True)),
                    ],
                    options={
                        'indexes': [models.Index(condition=models.Q(('reverts', []), _negated=True), fields=['project'], name='commits_that_revert'), models.Index(fields=['project', 'committed_at'], name='commits_by_date'), models.Index(condition=models.Q(('unreachable_since__isnull', False)), fields=['project'], name='unreachable_commits')],
                        'constraints': [models.UniqueConstraint(fields=('project', 'sha'), name='a_commit_once_per_project')],
                    },
                ),
                migrations.CreateModel(
                    name='Project',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('slug', models.SlugField(unique=True)),
                        ('name', models.CharField(max_length=100)),
                        ('url', models.CharField(max_length=500)),
                        ('default_branch', models.CharField(max_length=250)),
                        ('branch_patterns', models.CharField(blank=True, default='', help_text='such as `8.* release/*`: new branches that match are tracked', max_length=200)),
                        ('suite', models.CharField(help_text='name of a suite', max_length=100)),
                        ('hook_id', models.CharField(default=speedtrack.projects.models.new_hook_id, max_length=40, unique=True)),
                        ('hook_secret', speedtrack.ground.secrets.sealed.SealedField(default=speedtrack.projects.models.new_hook_secret)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('untracked_at', models.DateTimeField(help_text='since when its repository is not looked at; what was measured stays', null=True)),
                        ('polled_at', models.DateTimeField(null=True)),
                        ('poll_jitter', models.FloatField(default=0)),
                        ('synced_at', models.DateTimeField(null=True)),
                        ('error', models.TextField(blank=True, default='', help_text='why the last look at the repository failed')),
                        ('failures', models.PositiveIntegerField(default=0, help_text='failed looks since the last one that succeeded')),
                        ('mail_history_verdicts', models.BooleanField(default=False, help_text='alert for slowdowns found in the history alone, where measuring again is impossible')),
                        ('left_out', models.JSONField(default=dict, help_text='branches and tags that could not be fetched: reference name -> {sha, why}')),
                        ('is_public', models.BooleanField(default=True, help_text='everybody may see it; else its members only')),
                        ('cancel_unreachable', models.BooleanField(default=True, help_text='cancel waiting runs of commits that no branch or tag has any more')),
                        ('former_hook_secret', speedtrack.ground.secrets.sealed.SealedField(default=speedtrack.ground.secrets.sealed.Secret, help_text='also valid while the forge gets the new one')),
                        ('former_hook_secret_until', models.DateTimeField(null=True)),
                        ('lag_alarm_hours', models.PositiveIntegerField(default=24, help_text='after how long an unmeasured head of a branch is an alarm; 0: never')),
                        ('lag_looked_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='when its branches were last asked for unmeasured heads')),
                        ('machine_policy', models.CharField(choices=[('each', 'each of its machines'), ('one', 'one machine of each pool')], default='each', help_text='which of its machines measure a commit', max_length=10)),
                        ('renamed_at', models.DateTimeField(null=True)),
                        ('renamed_to', models.CharField(default='', help_text='its new name, as its forge told', max_length=300)),
                        ('submodule_urls', models.TextField(blank=True, default='', help_text='repositories, one a line, that submodules may be fetched from')),
                        ('branch_gone_at', models.DateTimeField(help_text='when its default branch was found deleted', null=True)),
                        ('successor', models.CharField(default='', help_text="the repository's branch since then, which contains the last commit", max_length=250)),
                    ],
                ),
                migrations.CreateModel(
                    name='Branch',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=250)),
                        ('deleted_at', models.DateTimeField(help_text='when the branch was found deleted; its history stays', null=True)),
                        ('tracked', models.BooleanField(default=True, help_text='its new commits are measured; without, its history stays')),
                        ('first_commits', models.PositiveIntegerField(default=0, help_text='how many of its newest commits the first look at it queues')),
                        ('head', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='projects.commit')),
                        ('commits', models.ManyToManyField(related_name='branches', through='projects.Position', to='projects.commit')),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='branches', to='projects.project')),
                        ('awaited_number', models.IntegerField(help_text='position that is to be measured: the head, when it was seen', null=True)),
                        ('awaited_since', models.DateTimeField(help_text='since when it is; null: the head is measured', null=True)),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='a_branch_once_per_project')],
                    },
                ),
                migrations.CreateModel(
                    name='Position',
                    fields=[
                        ('number', models.IntegerField()),
                        ('branch', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='positions', to='projects.branch')),
                        ('commit', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='positions', to='projects.commit')),
                        ('pk', models.CompositePrimaryKey('branch_id', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('branch', 'commit'), name='one_position_per_commit')],
                        'managed': False,
                    },
                ),
                migrations.CreateModel(
                    name='Delivery',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('provider', models.CharField(max_length=20)),
                        ('delivery_id', models.CharField(max_length=100)),
                        ('event', models.CharField(max_length=50)),
                        ('headers', models.JSONField()),
                        ('packed_body', models.BinaryField(help_text='zlib')),
                        ('body_digest', models.CharField(help_text='of the body as it arrived', max_length=64)),
                        ('received_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='when it, or an equal one, last arrived')),
                        ('status', models.CharField(choices=[('received', 'Received'), ('processed', 'Processed'), ('ignored', 'Ignored')], default='received', max_length=20)),
                        ('outcome', models.TextField(default='', help_text='what followed, or why it was ignored')),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='projects.project')),
                        ('copies', models.PositiveIntegerField(default=1, help_text='how often it arrived or was replayed')),
                        ('size', models.PositiveIntegerField(default=0, help_text='of the body as it arrived, in bytes')),
                        ('summary', models.CharField(default='', help_text='what its body says, in words', max_length=300)),
                        ('with_former', models.BooleanField(default=False, help_text='it was signed with the former secret')),
                    ],
                    options={
                        'indexes': [models.Index(fields=['project', 'id'], name='deliveries_of_a_project')],
                        'constraints': [models.UniqueConstraint(fields=('project', 'delivery_id'), name='a_delivery_once_per_id'), models.UniqueConstraint(condition=models.Q(('status', 'received')), fields=('project', 'body_digest'), name='one_waiting_delivery_per_body'), speedtrack.ground.postgres.wakeups.Wakes(after='INSERT OR UPDATE OF status', name='a_delivery_wakes', rows='')],
                    },
                ),
                migrations.CreateModel(
                    name='Annotation',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('moment', models.DateTimeField(help_text='when something happened that no commit did', null=True)),
                        ('text', models.TextField()),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('changed', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('commit', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='annotations', to='projects.commit')),
                        ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='annotations', to='projects.project')),
                    ],
                    options={
                        'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('commit', None), ('moment__isnull', False)), models.Q(('commit__isnull', False), ('moment', None), ('project__isnull', False)), _connector='OR'), name='an_annotation_has_a_moment_or_a_commit_of_its_project'), models.CheckConstraint(condition=models.Q(('text', ''), _negated=True), name='an_annotation_says_something')],
                    },
                ),
                migrations.CreateModel(
                    name='Tag',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=250)),
                        ('sha', models.CharField(help_text='the commit it points at', max_length=64)),
                        ('is_new', models.BooleanField(default=False, help_text='made or moved after the first look at the repository')),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tags', to='projects.project')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('project', 'name'), name='a_tag_once_per_project')],
                    },
                ),
                migrations.CreateModel(
                    name='Credential',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('kind', models.CharField(choices=[('token', 'Access token (https)'), ('key', 'Deploy key (ssh)')], max_length=10)),
                        ('origin', models.CharField(help_text='the server it was entered for: scheme, host and port', max_length=300)),
                        ('user', models.CharField(default='', help_text='the name that goes with a token', max_length=100)),
                        ('secret', speedtrack.ground.secrets.sealed.SealedField(help_text='the token, or the private key')),
                        ('known_hosts', models.TextField(default='', help_text='lines of known_hosts that hold the keys of the ssh server')),
                        ('public_key', models.TextField(default='', help_text='the public part of a deploy key')),
                        ('changed', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('project', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='credential', to='projects.project')),
                    ],
                    options={
                        'constraints': [models.CheckConstraint(condition=models.Q(('secret', ''), _negated=True), name='a_credential_has_a_secret'), models.CheckConstraint(condition=models.Q(('kind', 'token'), models.Q(('known_hosts', ''), _negated=True), _connector='OR'), name='a_key_comes_with_known_hosts')],
                    },
                ),
                migrations.CreateModel(
                    name='PullRequest',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('number', models.BigIntegerField(help_text='as people see it')),
                        ('title', models.CharField(default='', max_length=300)),
                        ('head_sha', models.CharField(help_text='perhaps abbreviated, by Bitbucket Cloud', max_length=64)),
                        ('head_ref', models.CharField(default='', help_text='the branch that it comes from', max_length=250)),
                        ('head_repository', models.CharField(default='', help_text='owner/name; empty: the forge names none', max_length=250)),
                        ('base_ref', models.CharField(help_text='the branch that it is for', max_length=250)),
                        ('from_fork', models.BooleanField(default=True, help_text='its commits lie in another repository')),
                        ('state', models.CharField(choices=[('open', 'Open'), ('closed', 'Closed'), ('merged', 'Merged')], default='open', max_length=20)),
                        ('updated_at', models.DateTimeField(help_text="by the forge's clock; an older report changes nothing")),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='pull_requests', to='projects.project')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('project', 'number'), name='a_pull_request_once_per_number'), models.CheckConstraint(condition=models.Q(('number__gt', 0), models.Q(('head_sha', ''), _negated=True), models.Q(('base_ref', ''), _negated=True)), name='a_pull_request_has_a_head_and_a_base')],
                    },
                ),
                migrations.CreateModel(
                    name='Refusal',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('hour', models.DateTimeField()),
                        ('reason', models.CharField(choices=[('unsigned', 'not signed'), ('sha1', 'signed with SHA-1 only'), ('wrong', 'signed with another secret, or altered on the way'), ('time', 'signed too long ago, or ahead of time')], max_length=20)),
                        ('count', models.PositiveIntegerField(default=1)),
                        ('last_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('event', models.CharField(default='', help_text='of the first one, as it said', max_length=50)),
                        ('size', models.PositiveIntegerField(default=0, help_text="of the first one's body, in bytes")),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='refusals', to='projects.project')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('project', 'hour', 'reason'), name='refusals_once_per_hour_and_reason')],
                    },
                ),
                migrations.CreateModel(
                    name='Chain',
                    fields=[
                        ('id', models.AutoField(primary_key=True, serialize=False)),
                        ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='chains', to='projects.project')),
                    ],
                ),
                migrations.CreateModel(
                    name='ChainCommit',
                    fields=[
                        ('pk', models.CompositePrimaryKey('chain_id', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                        ('number', models.IntegerField()),
                        ('commit', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='projects.commit')),
                        ('chain', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='commits', to='projects.chain')),
                    ],
                ),
                migrations.CreateModel(
                    name='Segment',
                    fields=[
                        ('pk', models.CompositePrimaryKey('branch_id', 'chain_id', blank=True, editable=False, primary_key=True, serialize=False)),
                        ('first', models.IntegerField()),
                        ('last', models.IntegerField()),
                        ('branch', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='segments', to='projects.branch')),
                        ('chain', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='segments', to='projects.chain')),
                    ],
                    options={
                        'indexes': [models.Index(fields=['chain', 'last'], name='segments_of_a_chain')],
                        'constraints': [models.CheckConstraint(condition=models.Q(('first__lte', models.F('last'))), name='a_segment_has_a_commit')],
                    },
                ),
            ],
        ),
        migrations.RunSQL(POSITIONS, "DROP VIEW projects_position"),
    ]
