"""The base of all commands here: their output is safe to show on a terminal."""

import sys
from collections.abc import Callable
from typing import Any, Literal

from django.core.management.base import BaseCommand, CommandError, OutputWrapper

from speedtrack.ground.texts.text import plain
from speedtrack.operations.refusals import REFUSED


class PlainOutput(OutputWrapper):
    def write(  # type: ignore[override]
        self, msg: str = "", style_func: Callable[[str], str] | None = None, ending: str | None = None
    ) -> None:
        super().write(plain(msg), style_func, ending)


class PlainCommand(BaseCommand):
    """A command whose output and errors may contain names of branches and messages of git servers."""

    # Django's checks load all pages, which takes as long as the command; those that start an installation make them.
    requires_system_checks: tuple[str, ...] | Literal["__all__"] = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        style = self.stderr.style_func
        self.stdout = PlainOutput(options.pop("stdout", None) or sys.stdout)
        self.stderr = PlainOutput(options.pop("stderr", None) or sys.stderr)
        self.stderr.style_func = style
        try:
            return super().execute(*args, **options)
        except REFUSED as e:
            raise CommandError(str(e)) from e
