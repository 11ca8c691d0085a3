"""Channels for tests."""

from typing import Any

from django.db import connection

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.notices.models import Channel
from speedtrack.projects.models import Project

SECRET = "a secret of the receiver and of us"


def channel(project: Project, kind: str, url: str, place: str = "", **fields: Any) -> Channel:
    given = {"name": f"{kind} of a test", "secret": Secret.of(SECRET), **fields}
    return Channel.objects.create(project=project, kind=kind, url=Secret.of(url), origin=url, place=place, **given)


def make_due() -> None:
    """Let the pauses of all rows be over."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE notices_outbox SET not_before = now() - interval '1 second'")
        cursor.execute(
            "UPDATE notices_commitstatus SET look_at = now() - interval '1 second' WHERE look_at IS NOT NULL"
        )
