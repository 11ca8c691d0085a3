from django.conf import settings
from django.db import migrations


def keep_what_people_could_do(apps, schema_editor):
    """Until now every account could change everything: make each an owner of each project.

    Machines, suites and tracking were everybody's, too: without any operator, all become operators.
    """
    User = apps.get_model("auth", "User")
    Project = apps.get_model("projects", "Project")
    Membership = apps.get_model("accounts", "Membership")
    people = list(User.objects.filter(is_active=True))
    projects = list(Project.objects.values_list("pk", flat=True))
    Membership.objects.bulk_create(
        [Membership(project_id=project, user_id=person.pk, role="owner") for project in projects for person in people],
        ignore_conflicts=True,
    )
    if not User.objects.filter(is_superuser=True, is_active=True).exists():
        User.objects.filter(is_active=True).update(is_superuser=True)


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_invitations"),
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [migrations.RunPython(keep_what_people_could_do, migrations.RunPython.noop)]
