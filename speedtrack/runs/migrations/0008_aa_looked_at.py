
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0007_canary'),
    ]

    operations = [
        migrations.AddField(
            model_name='machine',
            name='aa_looked_at',
            field=models.DateTimeField(help_text='when it was last asked whether an A/A run is due', null=True),
        ),
    ]
