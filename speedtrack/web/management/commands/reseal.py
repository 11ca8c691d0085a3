"""``manage.py reseal``: encrypt all stored secrets with the newest key."""

from typing import Any

from django.core.management.base import CommandError

from speedtrack.ground.secrets.sealed import KeyLost
from speedtrack.operations import installation
from speedtrack.operations.performing import Actor
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Encrypt all stored secrets with the first of SPEEDTRACK_ENCRYPTION_KEYS, else with SECRET_KEY."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(installation.encrypt_anew(Actor(), None).sentence)
        except KeyLost as e:
            raise CommandError(f"{e}; nothing was changed") from e
