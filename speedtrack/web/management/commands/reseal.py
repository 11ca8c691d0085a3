"""``manage.py reseal``: encrypt all stored secrets with the newest key."""

from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from speedtrack.accounts.logins import second_step
from speedtrack.ground.secrets.sealed import KeyLost, reseal
from speedtrack.web.management.plaincommand import PlainCommand


class Command(PlainCommand):
    help = "Encrypt all stored secrets with the first of SPEEDTRACK_ENCRYPTION_KEYS, else with SECRET_KEY."
    quoted = ()

    def change(self, options: dict[str, Any]) -> str:
        return "secrets.reseal"

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with transaction.atomic():
                count = reseal() + second_step.reseal()
            self.stdout.write(f"{count} secrets are encrypted with the newest key")
        except KeyLost as e:
            raise CommandError(f"{e}; nothing was changed") from e
