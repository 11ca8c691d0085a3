import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0005_limits_of_logins'),
        ('alerts', '0004_views_for_other_programs'),
        ('notices', '0002_alarms'),
        ('runs', '0006_outside_results'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='outbox',
            name='a_message_tells_of_one_thing',
        ),
        migrations.RemoveConstraint(
            model_name='outbox',
            name='a_message_goes_to_an_address_or_a_channel',
        ),
        migrations.AddField(
            model_name='outbox',
            name='token',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='outbox', to='accounts.persontoken'),
        ),
        migrations.AddConstraint(
            model_name='outbox',
            constraint=models.UniqueConstraint(fields=('token', 'event'), name='a_mail_once_per_token_event'),
        ),
        migrations.AddConstraint(
            model_name='outbox',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('alarm__isnull', True), ('alert__isnull', False), ('commit_status__isnull', True), ('digest', False), ('machine_event__isnull', True), ('token__isnull', True)), models.Q(('alarm__isnull', True), ('alert__isnull', True), ('commit_status__isnull', True), ('digest', False), ('machine_event__isnull', False), ('token__isnull', True)), models.Q(('alarm__isnull', False), ('alert__isnull', True), ('commit_status__isnull', True), ('digest', False), ('machine_event__isnull', True), ('token__isnull', True)), models.Q(('alarm__isnull', True), ('alert__isnull', True), ('commit_status__isnull', True), ('digest', False), ('machine_event__isnull', True), ('token__isnull', False)), models.Q(('alarm__isnull', True), ('alert__isnull', True), ('commit_status__isnull', False), ('digest', False), ('machine_event__isnull', True), ('token__isnull', True)), models.Q(('alarm__isnull', True), ('alert__isnull', True), ('commit_status__isnull', True), ('digest', True), ('machine_event__isnull', True), ('token__isnull', True)), _connector='OR'), name='a_message_tells_of_one_thing'),
        ),
        migrations.AddConstraint(
            model_name='outbox',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('channel', None), ('commit_status', None), models.Q(('recipient', ''), _negated=True)), models.Q(('alarm', None), ('channel__isnull', False), ('digest', False), ('machine_event', None), ('recipient', ''), ('token', None)), _connector='OR'), name='a_message_goes_to_an_address_or_a_channel'),
        ),
    ]
