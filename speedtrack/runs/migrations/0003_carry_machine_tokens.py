"""Give each machine's token, which was two columns of the machine, a row of its own: runners keep the token they have.

A piece of a log gets the time at which its attempt ended: when it arrived was not stored.
"""

from typing import Any

from django.db import migrations

LOG_TIMES = """
    UPDATE runs_logchunk c SET at = coalesce(a.ended_at, a.started_at) FROM runs_attempt a WHERE a.id = c.attempt_id
"""


def carry(apps: Any, schema_editor: Any) -> None:
    machines, tokens = apps.get_model("runs", "Machine"), apps.get_model("runs", "MachineToken")
    tokens.objects.bulk_create(
        tokens(machine=machine, key=machine.token_id, digest=machine.token_digest, created=machine.created)
        for machine in machines.objects.only("token_id", "token_digest", "created")
    )


class Migration(migrations.Migration):
    dependencies = [("runs", "0002_tokens_pools_policies_alarms")]

    operations = [
        migrations.RunPython(carry),
        migrations.RunSQL(LOG_TIMES, migrations.RunSQL.noop),
    ]
