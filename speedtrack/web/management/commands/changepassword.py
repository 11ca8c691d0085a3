"""``manage.py changepassword``: Django's; as on the page, an entry is in the audit log, and all sessions end."""

import getpass
from typing import Any

from django.contrib.auth.management.commands import changepassword
from django.contrib.auth.models import User
from django.db import transaction

from speedtrack.accounts import audit
from speedtrack.accounts.logins import sessions


class Command(changepassword.Command):
    @transaction.atomic
    def handle(self, *args: Any, **options: Any) -> str | None:
        output = super().handle(*args, **options)
        user = User.objects.get(username=options["username"] or getpass.getuser())
        sessions.end_all(user)
        audit.note(None, "account.password", user)
        return output
