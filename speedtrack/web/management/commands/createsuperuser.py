"""``manage.py createsuperuser``: Django's; the account it makes is like those of ``manage.py user add --operator``."""

from typing import Any

from django.contrib.auth.management.commands import createsuperuser
from django.contrib.auth.models import User
from django.core.management.base import CommandError
from django.db import transaction

from speedtrack.accounts import audit, people


class Command(createsuperuser.Command):
    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> None:
        former_ids = set(User.objects.values_list("pk", flat=True))
        super().handle(*args, **options)
        for user in User.objects.exclude(pk__in=former_ids):
            if user.email and people.owner_of(user.email) not in (None, user):
                raise CommandError(f"another account has the address {user.email}")
            if user.email:
                people.set_address(user, user.email)
            audit.note(None, "account.add", user, changes={"operator": (None, True)})
