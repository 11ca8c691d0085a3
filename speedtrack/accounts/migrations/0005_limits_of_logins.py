from django.db import migrations


class Migration(migrations.Migration):
    """The table of django.core.cache's database backend, as `createcachetable` would make it."""

    dependencies = [("accounts", "0004_links_for_the_first_owner")]

    operations = [
        migrations.RunSQL(
            """
            CREATE TABLE limits_of_logins (
                cache_key varchar(255) NOT NULL PRIMARY KEY,
                value text NOT NULL,
                expires timestamptz NOT NULL
            );
            CREATE INDEX limits_of_logins_expires ON limits_of_logins (expires);
            """,
            "DROP TABLE limits_of_logins",
        )
    ]
