"""What all commands of this room share: what they print is fit for a terminal."""

import sys
from collections.abc import Callable
from typing import Any

from django.core.management.base import BaseCommand, OutputWrapper

from speedtrack.text import plain


class PlainOutput(OutputWrapper):
    def write(  # type: ignore[override]
        self, msg: str = "", style_func: Callable[[str], str] | None = None, ending: str | None = None
    ) -> None:
        super().write(plain(msg), style_func, ending)


class PlainCommand(BaseCommand):
    """A command whose output, its errors too, may hold names of branches and words of git servers."""

    def execute(self, *args: Any, **options: Any) -> str | None:
        style = self.stderr.style_func
        self.stdout = PlainOutput(options.pop("stdout", None) or sys.stdout)
        self.stderr = PlainOutput(options.pop("stderr", None) or sys.stderr)
        self.stderr.style_func = style
        return super().execute(*args, **options)
