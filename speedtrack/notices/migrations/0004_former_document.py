from django.db import migrations, models


class Migration(migrations.Migration):
    """Channels that exist go on getting the former document, new ones do not."""

    dependencies = [("notices", "0003_token_mails")]

    operations = [
        migrations.AddField(
            model_name="channel",
            name="former_document",
            field=models.BooleanField(default=True),
        ),
        migrations.AlterField(
            model_name="channel",
            name="former_document",
            field=models.BooleanField(default=False, help_text="a webhook gets speedtrack.alert/1"),
        ),
    ]
