from django.db import migrations

# Whoever inserts or changes a row of which work may follow wakes the dispatcher (speedtrack/dispatch.py) with his
# commit. A database trigger, so that no writer can forget it. PostgreSQL sends equal notifications of one transaction
# once. NOTIFY holds a lock until the commit, so nothing that is written for every sample may have such a trigger.
FUNCTION = """
CREATE FUNCTION wake_the_dispatcher() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN NOTIFY speedtrack_work; RETURN NULL; END $$
"""
TRIGGERS = [
    FUNCTION,
    "CREATE TRIGGER a_delivery_wakes AFTER INSERT OR UPDATE OF status ON projects_delivery"
    " FOR EACH STATEMENT EXECUTE FUNCTION wake_the_dispatcher()",
]
DROPS = ["DROP TRIGGER a_delivery_wakes ON projects_delivery", "DROP FUNCTION wake_the_dispatcher()"]


class Migration(migrations.Migration):

    dependencies = [
        ('projects', '0001_initial'),
    ]

    operations = [
        migrations.RunSQL(TRIGGERS, DROPS),
    ]
