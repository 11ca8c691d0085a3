"""Perform an operation of the catalogue: check who asks, call the verb, write the audit log; a dry run leaves nothing.

Pages, the API and commands call the verbs of this room and show the answers. They check no role and write no entry.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from django.contrib.auth.models import User
from django.db import transaction

from speedtrack.accounts import audit, operations
from speedtrack.accounts.access import Caller, Refused
from speedtrack.accounts.operations import OPERATIONS
from speedtrack.projects.models import Project
from speedtrack.runs.requests.outlook import Outlook, outlook

Inputs = ParamSpec("Inputs")
Changes = dict[str, tuple[Any, Any]]


class BadInput(ValueError):
    """An input that cannot be. ``field``: its name in the body of a request, or empty."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.field = field


@contextmanager
def bad_input(field: str) -> Iterator[None]:
    """Raise BadInput of this field for a ValueError of the rooms below."""
    try:
        yield
    except ValueError as e:
        raise BadInput(str(e), field) from None


class Ended(Exception):
    """The subject is in the requested state already, or has ended; the message says which."""


@dataclass(frozen=True)
class Actor:
    """Who asks for an operation. ``caller``: None for a command, whose user may do everything on this server.

    ``dry_run``: it is tried and undone. ``rights``: gets what each operation needed.
    """

    caller: Caller | None = None
    dry_run: bool = False
    rights: list[Any] = field(default_factory=list)

    @property
    def user(self) -> User | None:
        return self.caller.user if self.caller else None

    @property
    def person(self) -> User:
        """The person who asks, for operations that no command has."""
        assert self.user is not None
        return self.user

    def require(self, name: str, project: Project | None) -> None:
        """Raise Refused unless the actor may do the operation in this project."""
        if self.caller is not None:
            self.rights.append(operations.require(self.caller, name, project))

    def may(self, name: str, project: Project | None) -> bool:
        """Return whether the actor may do the operation in this project."""
        try:
            self.require(name, project)
        except Refused:
            return False
        return True


@dataclass(frozen=True)
class Done:
    """What an operation did: a sentence without its last full stop, and what the audit log keeps of it.

    ``target``: what was changed, in words. ``changes``: field -> (before, after). ``row``: what was made or changed.
    ``secret``: to be shown once. ``is_change``: False if it was so already. ``outlook``: of a dry run.
    """

    sentence: str
    target: object
    changes: Changes = field(default_factory=dict)
    row: Any = None
    secret: str = ""
    is_change: bool = True
    outlook: Outlook | None = None

    def __str__(self) -> str:
        return str(self.outlook or self.sentence)


Verb = Callable[Concatenate[Actor, Any, Inputs], Done]
#: names of operations that have a verb
VERBS: set[str] = set()


def operation(name: str, *, is_atomic: bool = True) -> Callable[[Verb[Inputs]], Verb[Inputs]]:
    """Make an operation of the catalogue from a verb. The verb's second argument is what it changes.

    ``is_atomic``: the change and its entry are one transaction. Not where the verb talks to other servers meanwhile.
    """
    assert name in OPERATIONS, name

    def decorate(verb: Verb[Inputs]) -> Verb[Inputs]:
        @wraps(verb)
        def perform(actor: Actor, subject: Any, /, *arguments: Inputs.args, **inputs: Inputs.kwargs) -> Done:
            project = project_of(subject)
            actor.require(name, project)
            if actor.dry_run:
                return tried(lambda: verb(actor, subject, *arguments, **inputs))
            with transaction.atomic() if is_atomic else nullcontext():
                result = verb(actor, subject, *arguments, **inputs)
                if result.is_change:
                    audit.note(actor.caller, name, result.target, project or project_of(result.row), result.changes)
            return result

        VERBS.add(name)
        return perform

    return decorate


def tried(verb: Callable[[], Done]) -> Done:
    """What the verb would do. What it returned is kept without its row, which does not exist any more."""
    answers: list[Done] = []

    def sentence() -> str:
        answers.append(verb())
        return answers[-1].sentence

    prospect = outlook(sentence)
    return replace(answers[-1], row=None, secret="", outlook=prospect)


def project_of(subject: Any) -> Project | None:
    """The project to which it belongs; None if it concerns all, or none."""
    project = subject if isinstance(subject, Project) else getattr(subject, "project", None)
    return project if isinstance(project, Project) else None
