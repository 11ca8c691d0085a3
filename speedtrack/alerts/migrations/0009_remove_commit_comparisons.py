import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('alerts', '0008_carry_comparisons'),
    ]

    operations = [
        migrations.DeleteModel(
            name='CommitComparison',
        ),
        migrations.AlterField(
            model_name='comparisonbatch',
            name='commit',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='comparisons', to='projects.commit'),
        ),
    ]
