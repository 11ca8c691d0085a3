"""The secrets of a project's webhook, and counts of refused calls.

Two secrets are valid while the forge gets the new one.
"""

import base64
import binascii
from datetime import UTC, datetime, timedelta

from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.ground.secrets.sealed import Secret
from speedtrack.projects.forges.signing import KEY_PREFIX, BadSignature, HookCall
from speedtrack.projects.models import Project, Refusal, new_hook_id, new_hook_secret

FORMER_DAYS = 7  # a replaced secret stays valid for so long
MOST_DAYS = 90
SHORTEST, LONGEST = 16, 200  # characters of a secret that a forge has made
COUNTED = 1000  # refused calls per hour and reason; further ones cause no write


class UnfitSecret(Exception):
    """An invalid secret, or an invalid time for the former one; the message names the remedy."""


def rotate(project: Project, days: int = FORMER_DAYS, forge_secret: str = "") -> str:
    """Give the webhook a new secret and return it. ``forge_secret``: the secret, if the forge has made it.

    The present secret stays valid for so many days (0: not at all); an older one ends. Raises UnfitSecret.
    """
    if not 0 <= days <= MOST_DAYS:
        raise UnfitSecret(f"the former secret stays valid for 0 to {MOST_DAYS} days, not {days}")
    new = Secret.of(fit_secret(forge_secret)) if forge_secret else new_hook_secret()
    with transaction.atomic():
        now = Project.objects.select_for_update().get(pk=project.pk)
        changes = {
            "hook_secret": new,
            "former_hook_secret": now.hook_secret if days else Secret(),
            "former_hook_secret_until": timezone.now() + timedelta(days=days) if days else None,
        }
        Project.objects.filter(pk=project.pk).update(**changes)
    project.refresh_from_db(fields=list(changes))
    return new.reveal()


def fit_secret(secret: str) -> str:
    """The secret unchanged. Raises UnfitSecret if it is unsuitable."""
    if not (SHORTEST <= len(secret) <= LONGEST and secret.isascii() and secret.isprintable() and " " not in secret):
        raise UnfitSecret(f"a secret has {SHORTEST} to {LONGEST} characters of ASCII, and no blanks")
    if secret.startswith(KEY_PREFIX):
        try:
            base64.b64decode(secret.removeprefix(KEY_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            raise UnfitSecret(f"after {KEY_PREFIX} comes base64: copy the whole token from the forge") from None
    return secret


def end_former(project: Project) -> bool:
    """End the validity of the former secret. False if there is none."""
    if not former_is_valid(project):
        return False
    forget_former(project)
    return True


def forget_former(project: Project) -> None:
    changes = {"former_hook_secret": Secret(), "former_hook_secret_until": None}
    Project.objects.filter(pk=project.pk).update(**changes)
    project.refresh_from_db(fields=list(changes))


def renew_all(project: Project) -> None:
    """Give the webhook another address and secret, so that the old ones are refused."""
    Project.objects.filter(pk=project.pk).update(hook_id=new_hook_id(), hook_secret=new_hook_secret())
    forget_former(project)
    project.refresh_from_db(fields=["hook_id", "hook_secret"])


def former_is_valid(project: Project) -> bool:
    until = project.former_hook_secret_until
    return bool(project.former_hook_secret) and until is not None and until > timezone.now()


def valid_secrets(project: Project) -> list[str]:
    """The secret, and the former one while it is valid. Raises KeyLost."""
    secrets = [project.hook_secret, *([project.former_hook_secret] if former_is_valid(project) else [])]
    return [secret.reveal() for secret in secrets]


def note_refusal(project: Project, call: HookCall, event: str, error: BadSignature) -> None:
    """Count a refused call. Beyond COUNTED per hour nothing is written, so a flood costs only reads."""
    hour = datetime.fromtimestamp(call.now, UTC).replace(minute=0, second=0, microsecond=0)
    row = {"project": project, "hour": hour, "reason": error.fault.value}
    if Refusal.objects.filter(**row, count__lt=COUNTED).update(count=F("count") + 1, last_at=Now()):
        return
    Refusal.objects.bulk_create([Refusal(**row, event=event, size=call.body.size)], ignore_conflicts=True)
