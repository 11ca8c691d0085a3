"""Enrolment: a code that a person has made lets one machine in, once, within ten minutes."""

import hashlib
import re
import secrets
from datetime import timedelta

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now

from speedtrack.ground.secrets.tokentexts import TokenText
from speedtrack.runs import naming
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import pools, registering, tokens
from speedtrack.runs.models import EnrolmentCode, Machine, MachineEvent, MachineToken, WrongCode
from speedtrack.runs.scheduling.quarantine import record_event

VALID = timedelta(minutes=10)
ALPHABET = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"  # without those that look alike
GROUPS, GROUP = 4, 5  # 100 random bits
MOST_WRONG = 10  # codes within VALID from one address; of all addresses ten times as many


class CodeRefused(Exception):
    """The code lets nobody in; the message says why, and how to get another."""


class TooManyCodes(Exception):
    """Too many wrong codes came lately."""


def make_code(name: str, pool: str = "", days: int | None = None, user: User | None = None) -> str:
    """A code for a new machine, or for a known one that needs a new token. Only its digest is stored.

    ``days``: how long the token will be valid; None: for ever. Raises NoSuchThing for an invalid name or pool,
    WrongToken for an impossible number of days.
    """
    for label, kind in ((name, "machine"), *([(pool, "pool")] if pool else [])):
        registering.check_name(label, kind)
    machine = Machine.objects.filter(name=name).first()
    if machine:
        naming.check_has_runner(machine)
    if machine and machine.retired_at:
        raise NoSuchThing(f"machine {name} is retired: return it to service, which gives it a token, too")
    days = tokens.checked_days(days)
    code = "-".join("".join(secrets.choice(ALPHABET) for _ in range(GROUP)) for _ in range(GROUPS))
    EnrolmentCode.objects.filter(expires_at__lt=Now() - timedelta(days=1)).delete()
    EnrolmentCode.objects.create(
        digest=digest_of(code), name=name, pool=pool, days=days, expires_at=Now() + VALID, who=user
    )
    return code


def digest_of(code: str) -> str:
    """The digest of a code. Lower case and other separators between the groups give the same digest."""
    return hashlib.sha256(re.sub("[^0-9A-Z]", "", code.upper()).encode()).hexdigest()


def enrol(code: str, token: TokenText, address: str | None) -> Machine:
    """Exchange a code for a token, which the runner has made. The machine is registered if it is new.

    A known machine's other tokens end, since its runner begins anew. The same call again changes nothing. Raises
    CodeRefused, TooManyCodes.
    """
    check_rate(address)
    try:
        return exchange(code, token)
    except CodeRefused:
        WrongCode.objects.create(address=address)
        raise


def check_rate(address: str | None) -> None:
    WrongCode.objects.filter(at__lt=Now() - VALID).delete()
    here = WrongCode.objects.filter(address=address).count()
    if here >= MOST_WRONG or WrongCode.objects.count() >= 10 * MOST_WRONG:
        raise TooManyCodes(
            f"too many wrong enrolment codes came lately: wait {VALID.seconds // 60} minutes, then make a new code"
        )


@transaction.atomic
def exchange(code: str, token: TokenText) -> Machine:
    row = EnrolmentCode.objects.select_for_update().annotate(now=Now()).filter(digest=digest_of(code)).first()
    again = "make another one, such as on the page Settings, Machines"
    if row is None:
        raise CodeRefused(f"unknown enrolment code: check that all of it was typed, or {again}")
    if row.used_at:
        if row.used_with == token.digest:
            return Machine.objects.get(tokens__digest=token.digest)
        raise CodeRefused(
            f"this enrolment code was used at {row.used_at:%H:%M} UTC, for machine {row.name}: if that was not you, "
            f"revoke the machine's tokens; {again}"
        )
    if row.expires_at <= row.now:
        raise CodeRefused(f"this enrolment code has expired, {VALID.seconds // 60} minutes after it was made: {again}")
    if MachineToken.objects.filter(Q(key=token.key) | Q(digest=token.digest)).exists():
        raise CodeRefused("another machine has this token: run the command again, which makes a new one")
    machine = admit(row)
    MachineToken.store(machine, token, row.days)
    EnrolmentCode.objects.filter(pk=row.pk).update(used_at=Now(), used_with=token.digest)
    why = "by a code" + (f" of {row.who.username}" if row.who else "")
    record_event(machine, MachineEvent.Kind.ENROLLED, why, row.who)
    return machine


def admit(row: EnrolmentCode) -> Machine:
    """The machine that a code is for: registered if it is new, and its former tokens refused. Raises CodeRefused."""
    machine = Machine.objects.select_for_update(no_key=True).defer("facts").filter(name=row.name).first()
    if machine is None:
        machine = registering.register(row.name, row.pool)
    elif machine.outside:
        raise CodeRefused(f"results of machine {machine} were sent in meanwhile: make a code for another name")
    elif machine.retired_at:
        raise CodeRefused(f"machine {machine} was retired meanwhile: return it to service first")
    elif row.pool:
        pools.put(machine, row.pool, row.who)
    tokens.revoke(machine)
    return machine
