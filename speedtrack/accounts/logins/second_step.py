"""The second step of a login: codes of an app, and recovery codes for when the app is lost."""

from typing import Any

from allauth.mfa.models import Authenticator
from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction

from speedtrack.accounts.logins import sessions
from speedtrack.ground.secrets.sealed import Secret


def is_required(user: User) -> bool:
    """Return whether REQUIRE_MFA requires the second step of this person."""
    return settings.REQUIRE_MFA == "everybody" or (settings.REQUIRE_MFA == "operators" and user.is_superuser)


def is_set_up(user: User) -> bool:
    return bool(Authenticator.objects.filter(user=user, type=Authenticator.Type.TOTP).exists())


@transaction.atomic
def reset(user: User) -> bool:
    """Remove the second step of somebody who has lost phone and codes, and end the sessions.

    Returns whether there was one.
    """
    count, _ = Authenticator.objects.filter(user=user).delete()
    sessions.end_all(user)
    return bool(count)


@transaction.atomic
def reseal() -> int:
    """Encrypt the secrets of all apps and codes with the newest key. Return their number. Raises KeyLost."""
    count = 0
    for row in Authenticator.objects.select_for_update():
        sealed: dict[str, Any] = {name: row.data[name] for name in ("secret", "seed") if row.data.get(name)}
        row.data |= {name: Secret(token).resealed().token for name, token in sealed.items()}
        row.save(update_fields=["data"])
        count += len(sealed)
    return count
