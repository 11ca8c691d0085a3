"""What a migration makes of rows that were there before it."""

from importlib import import_module

from django.db import connection

from speedtrack.projects.models import Delivery, Project

NAME = "one_waiting_delivery_per_body"


def test_of_equal_bodies_that_wait_since_different_days_the_newest_goes_on_waiting(project: Project) -> None:
    migration = import_module("speedtrack.projects.migrations.0002_failures_and_waiting_bodies")
    bodies = [("1", "a", "received"), ("2", "a", "received"), ("3", "a", "processed"), ("4", "b", "received")]
    with connection.cursor() as cursor:
        cursor.execute(f"DROP INDEX {NAME}")
        for id, digest, status in bodies:
            Delivery.objects.create(project=project, provider="github", delivery_id=id, event="push", headers={},
                                    body=b"", body_digest=digest, status=status)  # fmt: skip
        cursor.execute(migration.ONE_OF_EQUAL_BODIES_WAITS)
    waiting = Delivery.objects.filter(status="received")
    assert sorted(waiting.values_list("delivery_id", flat=True)) == ["2", "4"]
