"""How a machine shows who it is: tokens, and the codes by which a new one is enrolled."""

import hashlib
import hmac
import json
import re
from datetime import timedelta
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Least, Now
from django.utils import timezone

from speedtrack.ground.postgres.pgvalues import first_row_of_request, partial_row
from speedtrack.ground.secrets.tokentexts import MACHINE, NotAToken, TokenText
from speedtrack.runs.models.machines import SEEN_EVERY, Machine

OVERLAP = timedelta(minutes=10)  # how long the token before stays valid once its successor was used
FRESH_SHARE = 2 / 3  # of a token's life, after which its runner is asked to replace it
MOST_DAYS = 3650
FORMER = re.compile(r"strn_([0-9a-f]{12})_([0-9A-Za-z_-]{43})")  # as release 1.0 made them
LOOKED_UP = ("id", "name", "last_seen_at", "runner_version", "runner_protocol")
# SQL, because every call of a runner begins with it. The machine's columns are those that most calls read.
TOKEN = """
SELECT t.digest, t.revoked_at, coalesce(t.expires_at <= statement_timestamp(), false),
       coalesce(t.rotate_at <= statement_timestamp(), false), t.id, t.days, t.last_used_at,
       LOOKED_UP, m.runner_said::text
  FROM runs_machinetoken t JOIN runs_machine m ON m.id = t.machine_id WHERE t.key = %(key)s
""".replace("LOOKED_UP", ", ".join(f"m.{name}" for name in LOOKED_UP))


class UnknownMachineToken(Exception):
    """No machine has this token, or it is no longer valid."""


class FormerText(TokenText):
    """A token of release 1.0: without a check sum, and with a digest of its secret alone."""

    @property
    def digest(self) -> str:
        secret = self.text.removeprefix(f"{MACHINE}_{self.key}_")
        return hashlib.sha256(secret.encode()).hexdigest()


class MachineTokenQuerySet(models.QuerySet["MachineToken"]):
    def valid(self) -> "MachineTokenQuerySet":
        return self.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), revoked_at=None)


class MachineToken(models.Model):
    """A token of a machine. Two may be valid at once: the runner gets a new one while it works with the old one."""

    machine = models.ForeignKey(Machine, models.CASCADE, related_name="tokens")
    key = models.CharField(max_length=12, unique=True)
    digest = models.CharField(max_length=64)
    created = models.DateTimeField(db_default=Now())
    days = models.PositiveIntegerField(null=True, help_text="how long it is valid, and its successor; null: for ever")
    expires_at = models.DateTimeField(null=True)
    rotate_at = models.DateTimeField(null=True, help_text="from when on its runner is asked to replace it")
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)
    last_used_from = models.GenericIPAddressField(null=True, help_text="of an IPv6 address only the network")

    rotation_due: bool = False  #: known of one that ``of`` returns

    objects: ClassVar = MachineTokenQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(days=None) | Q(days__gte=1, days__lte=MOST_DAYS), name="a_token_lives_a_day_to_ten_years"
            ),
        ]

    @staticmethod
    def new_text() -> TokenText:
        return TokenText.new(MACHINE)

    @staticmethod
    def parse(text: str) -> TokenText:
        """The parts of a machine's token. Raises UnknownMachineToken if the text is not a complete token."""
        try:
            return TokenText.parse(text, MACHINE)
        except NotAToken as e:
            raise UnknownMachineToken(
                "this is no machine token, or a part of one: copy it again, or give the machine a new one"
            ) from e

    @staticmethod
    def parse_used(text: str) -> TokenText:
        """The parts of a token that a runner has sent.

        Like ``parse``, but a token of release 1.0, which has no check sum, stays valid until it is replaced.
        """
        former = FORMER.fullmatch(text)
        return FormerText(text, former[1]) if former else MachineToken.parse(text)

    @staticmethod
    def store(machine: Machine, token: TokenText, days: int | None = None) -> "MachineToken":
        life = timedelta(days=days) if days else None
        return MachineToken.objects.create(
            machine=machine,
            key=token.key,
            digest=token.digest,
            days=days,
            expires_at=Now() + life if life else None,
            rotate_at=Now() + life * FRESH_SHARE if life else None,
        )

    @staticmethod
    def of(text: str) -> "MachineToken":
        """The token with its machine. Raises UnknownMachineToken that says why it is refused."""
        token = MachineToken.parse_used(text)
        row = first_row_of_request(TOKEN, {"key": token.key})
        if row is None or not hmac.compare_digest(row[0], token.digest):
            raise UnknownMachineToken("unknown machine token: add the machine, or give it a new token")
        _, revoked_at, is_over, rotation_due, pk, days, last_used_at, *columns, statement = row
        machine = partial_row(
            Machine, **dict(zip(LOOKED_UP, columns, strict=True)), runner_said=json.loads(statement or "null")
        )
        if revoked_at or is_over:
            why = "was revoked" if revoked_at else "has expired"
            raise UnknownMachineToken(f"this token of machine {machine} {why}: give it a new one, or enrol it anew")
        valid = partial_row(MachineToken, id=pk, machine_id=machine.pk, days=days, last_used_at=last_used_at)
        valid.machine, valid.rotation_due = machine, rotation_due
        return valid

    def note_call(self, address: str | None) -> None:
        """Store when and from which address the runner has called, at most once every few seconds.

        The first call with a new token ends the tokens before it after OVERLAP: from now on the runner has the new one.
        """
        self.machine.note_call()
        if self.last_used_at is None:
            older = MachineToken.objects.valid().filter(machine=self.machine_id, pk__lt=self.pk)
            older.update(expires_at=Least(F("expires_at"), Now() + OVERLAP))
        if self.last_used_at is None or abs(timezone.now() - self.last_used_at) > SEEN_EVERY:
            MachineToken.objects.filter(pk=self.pk).update(last_used_at=Now(), last_used_from=address)


class EnrolmentCode(models.Model):
    """A code by which one machine may be enrolled once, soon. Only its digest is stored."""

    digest = models.CharField(max_length=64, unique=True)
    name = models.SlugField(help_text="of the machine")
    pool = models.SlugField(default="", blank=True)
    days = models.PositiveIntegerField(null=True, help_text="how long the machine's token is valid; null: for ever")
    created = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    used_with = models.CharField(max_length=64, default="", help_text="digest of the token that it was exchanged for")
    who = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")


class WrongCode(models.Model):
    """A wrong enrolment code that somebody has sent; they are counted against guessing."""

    address = models.GenericIPAddressField(null=True)
    at = models.DateTimeField(db_default=Now())
