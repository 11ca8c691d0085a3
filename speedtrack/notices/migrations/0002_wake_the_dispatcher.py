from django.db import migrations

# As in projects 0002: a mail to be sent wakes the dispatcher.
TRIGGER = (
    "CREATE TRIGGER a_mail_wakes AFTER INSERT ON notices_outbox"
    " FOR EACH STATEMENT EXECUTE FUNCTION wake_the_dispatcher()"
)


class Migration(migrations.Migration):

    dependencies = [
        ('notices', '0001_initial'),
        ('projects', '0002_wake_the_dispatcher'),
    ]

    operations = [
        migrations.RunSQL(TRIGGER, "DROP TRIGGER a_mail_wakes ON notices_outbox"),
    ]
