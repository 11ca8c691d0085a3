"""The tables of this app as its migrations up to 0007 make them, for a database without it (docs/releasing.md)."""

import django.contrib.postgres.fields
import django.db.models.constraints
import django.db.models.deletion
import django.db.models.functions.datetime
from django.conf import settings
from django.db import migrations, models
from speedtrack.ground.postgres.together import Together, operations_of


class Migration(migrations.Migration):

    replaces = [
        ('accounts', '0001_initial'),
        ('accounts', '0002_invitations'),
        ('accounts', '0003_owners'),
        ('accounts', '0004_links_for_the_first_owner'),
        ('accounts', '0005_limits_of_logins'),
        ('accounts', '0006_one_name_per_operation'),
        ('accounts', '0007_pins_of_people'),
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
                    name='PersonToken',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(help_text='what it is for', max_length=100)),
                        ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[('read', 'Read'), ('triage', 'Triage'), ('runs', 'Runs'), ('results', 'Results'), ('settings', 'Settings')], max_length=20), size=None)),
                        ('key', models.CharField(max_length=12, unique=True)),
                        ('digest', models.CharField(max_length=64)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('expires_at', models.DateTimeField(null=True)),
                        ('revoked_at', models.DateTimeField(null=True)),
                        ('last_used_at', models.DateTimeField(null=True)),
                        ('last_used_from', models.GenericIPAddressField(help_text='of an IPv6 address only the network', null=True)),
                        ('project', models.ForeignKey(help_text='null: in all projects', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='projects.project')),
                        ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'constraints': [models.CheckConstraint(condition=models.Q(('scopes', []), _negated=True), name='a_token_has_a_scope')],
                    },
                ),
                migrations.CreateModel(
                    name='AuditEntry',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('name', models.CharField(help_text='of the user at that time; of a command the one of the system', max_length=150)),
                        ('door', models.CharField(choices=[('page', 'Page'), ('api', 'Api'), ('command', 'Command')], max_length=10)),
                        ('action', models.CharField(help_text='noun and verb, such as `alert.decide`', max_length=60)),
                        ('target', models.CharField(help_text='what was changed, in words', max_length=300)),
                        ('changes', models.JSONField(default=dict, help_text='field -> [before, after]')),
                        ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='projects.project')),
                        ('user', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('token', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.persontoken')),
                    ],
                    options={
                        'indexes': [models.Index(fields=['project', 'id'], name='audit_of_a_project')],
                    },
                ),
                migrations.CreateModel(
                    name='Membership',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('role', models.CharField(choices=[('reader', 'Reader'), ('triager', 'Triager'), ('maintainer', 'Maintainer'), ('owner', 'Owner')], max_length=20)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('project', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='projects.project')),
                        ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('project', 'user'), name='one_role_per_person_and_project')],
                    },
                ),
                migrations.CreateModel(
                    name='WrongInvitation',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('address', models.GenericIPAddressField(null=True)),
                        ('at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                    ],
                ),
                migrations.CreateModel(
                    name='Invitation',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('role', models.CharField(choices=[('reader', 'Reader'), ('triager', 'Triager'), ('maintainer', 'Maintainer'), ('owner', 'Owner')], max_length=20)),
                        ('digest', models.CharField(max_length=64, unique=True)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                        ('expires_at', models.DateTimeField()),
                        ('most_uses', models.PositiveIntegerField(default=1)),
                        ('uses', models.PositiveIntegerField(default=0)),
                        ('revoked_at', models.DateTimeField(null=True)),
                        ('made_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('project', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to='projects.project')),
                    ],
                    options={
                        'constraints': [models.CheckConstraint(condition=models.Q(('uses__lte', models.F('most_uses'))), name='an_invitation_is_not_used_more_often')],
                    },
                ),
                migrations.CreateModel(
                    name='OwnerLink',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('digest', models.CharField(max_length=64, unique=True)),
                        ('created', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
                    ],
                ),
                migrations.CreateModel(
                    name='Pin',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('address', models.CharField(help_text='path and query on this site, in ASCII', max_length=1500)),
                        ('place', models.PositiveSmallIntegerField(help_text='on the board, from 0')),
                        ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='pins', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'constraints': [models.CheckConstraint(condition=models.Q(('place__lt', 20)), name='a_board_has_20_places'), models.UniqueConstraint(deferrable=django.db.models.constraints.Deferrable['DEFERRED'], fields=('user', 'place'), name='one_pin_per_place_of_a_board'), models.UniqueConstraint(fields=('user', 'address'), name='an_address_is_pinned_once')],
                    },
                ),
            ],
        ),
        # A database may have people and projects before it has this app.
        *operations_of("accounts.0003_owners"),
        *operations_of("accounts.0005_limits_of_logins"),
    ]
