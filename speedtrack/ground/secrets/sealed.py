"""Secrets in the database: encrypted at rest, and never shown by accident.

A ``Secret`` holds the encrypted text. Only ``reveal`` decrypts it; in print, logs and templates it is a row of dots.
Keys are derived from SPEEDTRACK_ENCRYPTION_KEYS (the first one encrypts, all decrypt) and from SECRET_KEY.
"""

import base64
from typing import TYPE_CHECKING, Any

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.apps import apps
from django.conf import settings
from django.db import models, transaction

DOTS = "••••••••"
PURPOSE = b"speedtrack: secrets in the database"  # of the derived keys; another purpose has other keys


class KeyLost(Exception):
    """None of the present keys decrypts this secret."""


class Secret:
    """An encrypted text; false if there is none."""

    __slots__ = ("token",)

    def __init__(self, token: str = "") -> None:
        self.token = token

    @classmethod
    def of(cls, text: str) -> "Secret":
        """Encrypt a text."""
        return cls(keys().encrypt(text.encode()).decode() if text else "")

    def reveal(self) -> str:
        """The text itself. Raises KeyLost."""
        if not self.token:
            return ""
        try:
            return keys().decrypt(self.token.encode()).decode()
        except InvalidToken:
            raise KeyLost(
                "a stored secret cannot be decrypted: put the key that encrypted it (or the former SECRET_KEY) at the "
                "end of SPEEDTRACK_ENCRYPTION_KEYS, or enter the secret again"
            ) from None

    def resealed(self) -> "Secret":
        """The same text, encrypted with the present first key. Raises KeyLost."""
        return Secret.of(self.reveal())

    def __bool__(self) -> bool:
        return bool(self.token)

    def __str__(self) -> str:
        return DOTS if self.token else ""

    def __repr__(self) -> str:
        return f"<Secret {self}>"


def keys() -> MultiFernet:
    return MultiFernet([Fernet(derived(key)) for key in [*settings.SPEEDTRACK_ENCRYPTION_KEYS, settings.SECRET_KEY]])


def derived(key: str) -> bytes:
    return base64.urlsafe_b64encode(HKDF(SHA256(), 32, salt=None, info=PURPOSE).derive(key.encode()))


if TYPE_CHECKING:
    TextOfSecrets = models.TextField[Secret, Secret]
else:
    TextOfSecrets = models.TextField


class SealedField(TextOfSecrets):
    """A column for a Secret. Only a Secret can be stored, so no plain text gets there by mistake."""

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> Secret:
        return Secret(value or "")

    def to_python(self, value: Any) -> Secret:
        return value if isinstance(value, Secret) else Secret(str(value or ""))

    def get_prep_value(self, value: Any) -> str:
        if value == "":
            return ""  # for conditions of constraints
        if not isinstance(value, Secret):
            raise TypeError(f"{self.name} holds a Secret: give Secret.of(text)")
        return value.token


@transaction.atomic
def reseal() -> int:
    """Encrypt all stored secrets with the present first key. Return their number. Raises KeyLost."""
    count = 0
    for model in apps.get_models():
        names = [f.name for f in model._meta.get_fields() if isinstance(f, SealedField)]
        for row in model._default_manager.select_for_update() if names else ():
            resealed = {name: secret.resealed() for name in names if (secret := getattr(row, name))}
            count += len(resealed)
            model._default_manager.filter(pk=row.pk).update(**resealed)
    return count
