"""The hashing of passwords."""

from django.contrib.auth.hashers import Argon2PasswordHasher
from django.core.exceptions import ValidationError

LONGEST = 4096


class Argon2(Argon2PasswordHasher):
    """Argon2id with the least memory that OWASP recommends: anybody may cause a few of these computations at once."""

    time_cost = 2
    memory_cost = 19 * 1024
    parallelism = 1


class LongestPassword:
    """A validator that refuses very long passwords: they are no safer, but take long to hash."""

    def validate(self, password: str, user: object = None) -> None:
        if len(password) > LONGEST:
            raise ValidationError(f"This password is too long: {LONGEST} characters are the most.")

    def get_help_text(self) -> str:
        return f"It has {LONGEST} characters at most."
