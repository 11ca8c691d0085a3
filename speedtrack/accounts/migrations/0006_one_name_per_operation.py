"""Rename entries of the audit log, because pages, API and commands named the same operation differently."""

from django.db import migrations

RENAMED = {
    "annotation.add": "annotation.create",
    "machine.drain": "machine.pause",
    "machine.shares": "machine.plan",
    "machine.windows": "machine.plan",
    "mute.make": "mute.create",
    "project.end-former-secret": "hook.end",
    "runs.queue": "run.queue",
}


def rename(apps, schema_editor):
    entries = apps.get_model("accounts", "AuditEntry").objects.using(schema_editor.connection.alias)
    for former, name in RENAMED.items():
        entries.filter(action=former).update(action=name)
    # The command that sets a canary had the name under which pages measure one.
    entries.filter(action="machine.canary", door="command").update(action="machine.freeze")


class Migration(migrations.Migration):
    dependencies = [("accounts", "0005_limits_of_logins")]
    operations = [migrations.RunPython(rename, migrations.RunPython.noop)]
