from django.db import migrations

# As in projects 0002: an event of an alert, of which somebody may want to hear, wakes the dispatcher.
TRIGGER = (
    "CREATE TRIGGER an_event_of_an_alert_wakes AFTER INSERT ON alerts_alertevent"
    " FOR EACH STATEMENT EXECUTE FUNCTION wake_the_dispatcher()"
)


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0001_initial'),
        ('projects', '0002_wake_the_dispatcher'),
    ]

    operations = [
        migrations.RunSQL(TRIGGER, "DROP TRIGGER an_event_of_an_alert_wakes ON alerts_alertevent"),
    ]
