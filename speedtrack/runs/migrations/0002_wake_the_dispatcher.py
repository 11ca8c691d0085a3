from django.db import migrations

# As in projects 0002: what may be work for somebody wakes the dispatcher. A run that is claimed is work for nobody.
TRIGGERS = {
    "a_new_run_wakes": "AFTER INSERT ON runs_run FOR EACH STATEMENT",
    "a_run_that_waits_or_has_ended_wakes":
        "AFTER UPDATE OF status ON runs_run FOR EACH ROW WHEN (NEW.status NOT IN ('leased', 'running'))",
    "new_measurements_wake":
        "AFTER UPDATE OF undetected_since ON runs_series FOR EACH ROW WHEN (NEW.undetected_since IS NOT NULL)",
    "a_resumed_machine_wakes": "AFTER UPDATE OF paused, quarantined_at ON runs_machine FOR EACH STATEMENT",
    "an_untold_event_wakes": "AFTER INSERT ON runs_machineevent FOR EACH ROW WHEN (NEW.untold)",
}
CREATES = [f"CREATE TRIGGER {name} {when} EXECUTE FUNCTION wake_the_dispatcher()" for name, when in TRIGGERS.items()]
DROPS = [f"DROP TRIGGER {name} ON {when.split(' ON ')[1].split()[0]}" for name, when in TRIGGERS.items()]


class Migration(migrations.Migration):

    dependencies = [
        ('projects', '0002_wake_the_dispatcher'),
        ('runs', '0001_initial'),
    ]

    operations = [
        migrations.RunSQL(CREATES, DROPS),
    ]
