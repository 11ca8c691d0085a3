"""Encrypt the secrets of webhooks, which were plain texts, and note the sizes of the calls that are stored."""

import zlib
from typing import Any

from django.db import migrations

from speedtrack.ground.secrets.sealed import Secret


def seal(apps: Any, schema_editor: Any) -> None:
    projects = apps.get_model("projects", "Project").objects
    for pk, plain in projects.values_list("pk", "hook_secret"):
        projects.filter(pk=pk).update(hook_secret=Secret.of(plain.token))  # what is read as encrypted is the text itself


def unseal(apps: Any, schema_editor: Any) -> None:
    projects = apps.get_model("projects", "Project").objects
    for pk, sealed in projects.values_list("pk", "hook_secret"):
        projects.filter(pk=pk).update(hook_secret=Secret(sealed.reveal()))


def note_sizes(apps: Any, schema_editor: Any) -> None:
    deliveries = apps.get_model("projects", "Delivery").objects
    for pk in list(deliveries.filter(size=0).values_list("pk", flat=True)):  # a body may have 25 MB: one at a time
        body = deliveries.values_list("packed_body", flat=True).get(pk=pk)
        deliveries.filter(pk=pk).update(size=len(zlib.decompress(body)))


class Migration(migrations.Migration):
    dependencies = [("projects", "0003_credentials_pulls_refusals")]

    operations = [
        migrations.RunPython(seal, unseal),
        migrations.RunPython(note_sizes, migrations.RunPython.noop),
    ]
