"""Register machines: those with a runner of ours, and those whose results are sent in."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator, validate_slug
from django.db import IntegrityError, transaction

from speedtrack.projects.models import Project
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.fleet import tokens
from speedtrack.runs.models import Machine
from speedtrack.runs.naming import LONGEST_SLUG


@transaction.atomic
def add_machine(name: str, pool: str = "", days: int | None = None) -> str:
    """Register a machine for all projects. Return its token. Raises NoSuchThing if the name is taken or invalid."""
    return tokens.give(register(name, pool), days)


def register(name: str, pool: str = "") -> Machine:
    """Create a machine without a token. Raises NoSuchThing if its name is taken, or a name is invalid."""
    if pool:
        check_name(pool, "pool")
    machine = make_machine(name, pool=pool)
    machine.projects.add(*Project.objects.tracked())
    return machine


def register_outside(name: str) -> Machine:
    """Create a machine without a runner, whose results are sent in. Raises NoSuchThing as ``register`` does."""
    return make_machine(name, outside=True)


def make_machine(name: str, **columns: Any) -> Machine:
    check_name(name, "machine")
    try:
        with transaction.atomic():
            return Machine.objects.create(name=name, **columns)
    except IntegrityError:
        raise NoSuchThing(f"machine {name} exists: give it a new token instead") from None


def check_name(name: str, kind: str) -> None:
    """Raise NoSuchThing if no machine or pool can have this name."""
    try:
        validate_slug(name)
        MaxLengthValidator(LONGEST_SLUG)(name)
    except ValidationError:
        raise NoSuchThing(
            f"{name!r} is not a valid name of a {kind}: use up to {LONGEST_SLUG} letters, digits, - and _"
        ) from None
