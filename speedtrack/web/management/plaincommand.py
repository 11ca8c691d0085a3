"""The base of all commands here: their output is safe to show on a terminal, and their changes are noted."""

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, ClassVar

from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.db import transaction

from speedtrack.accounts import audit
from speedtrack.ground.texts.text import plain
from speedtrack.operations.refusals import REFUSED
from speedtrack.projects.models import Project


class PlainOutput(OutputWrapper):
    def write(  # type: ignore[override]
        self, msg: str = "", style_func: Callable[[str], str] | None = None, ending: str | None = None
    ) -> None:
        super().write(plain(msg), style_func, ending)


class PlainCommand(BaseCommand):
    """A command whose output and errors may contain names of branches and messages of git servers.

    When it has changed something, the audit log gets an entry.
    """

    #: The options that the entry quotes: never one whose value is a secret.
    quoted: ClassVar[tuple[str, ...]] = ()
    #: Are a change and its entry one transaction? Not where it takes long, or talks to other servers.
    is_atomic: ClassVar[bool] = False

    def change(self, options: dict[str, Any]) -> str:
        """The name of what the command does, such as `run.cancel`, for the audit log; empty if it only reads."""
        return ""

    def execute(self, *args: Any, **options: Any) -> str | None:
        style = self.stderr.style_func
        self.stdout = PlainOutput(options.pop("stdout", None) or sys.stdout)
        self.stderr = PlainOutput(options.pop("stderr", None) or sys.stderr)
        self.stderr.style_func = style
        with transaction.atomic() if self.is_atomic else nullcontext():
            try:
                output = super().execute(*args, **options)
            except REFUSED as e:
                raise CommandError(str(e)) from e
            if not options.get("dry_run") and (action := self.change(options)):
                self.note(action, options)
        return output

    def note(self, action: str, options: dict[str, Any]) -> None:
        arguments = [words_of(options[name]) for name in self.quoted if options.get(name)]
        slug = options.get("project")
        project = Project.objects.filter(slug=slug).first() if isinstance(slug, str) else None
        audit.note(None, action, " ".join(arguments), project)


def words_of(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
