"""Read suites: from TOML text to a validated Definition, with one line per mistake.

The text of a suite is the newest edit from the browser, otherwise its file.
"""

import hashlib
import json
import re
import tomllib
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.conf import settings
from pydantic import BaseModel, ValidationError

from speedtrack.benchmarks.definitions import (
    FUNCTION,
    GROUP,
    IMAGE,
    SECTIONS,
    TRUST,
    Definition,
    DefinitionError,
    Mistake,
)
from speedtrack.benchmarks.models import SuiteEdit
from speedtrack.benchmarks.suitelines import line_of
from speedtrack.benchmarks.workloads import DIGEST, FORMS, NAME, RECORDING
from speedtrack.ground.texts.text import NAMED_MISTAKES, beyond_named

KEPT = 8  # definitions
LONGEST_PART = 1000  # characters of a mistake's place, of its words, and of the value that was given
#: Each pattern in words, for its error message.
PATTERNS = {
    NAME: "use 1 to 61 lower-case letters, digits, dots, - and _, the first a letter or digit",
    GROUP: "use up to 30 lower-case letters, digits, blanks and -, the first a letter or digit",
    IMAGE: "use no blanks, and no - at the beginning",
    TRUST: "use up to 100 letters, digits, - and _",
    RECORDING: "give its path from the folder of recordings on: letters, digits, . - _, the first a letter or digit",
    DIGEST: "give sha256: and the 64 digits that `sha256sum FILE` prints",
    FUNCTION: "use letters, digits, dots, _ and $, the first a letter or _",
}
TOML_PLACE = re.compile(r" \(at line (\d+), column \d+\)")


@lru_cache(KEPT)
def parse_suite(text: str, where: str) -> Definition:
    """Parse and validate the text of a suite. Raises DefinitionError with a line for each of the first mistakes.

    Kept, as definitions cannot be changed: one of 5,000 benchmarks takes half a second.
    """
    try:
        return Definition.model_validate_json(json.dumps(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as e:
        raise DefinitionError(f"{where}: not TOML: {e}", [toml_mistake(text, str(e))]) from e
    except (TypeError, ValueError, RecursionError) as e:
        if isinstance(e, ValidationError):
            raise refusal_of(text, where, e) from e
        raise DefinitionError(f"{where}: {e}", [Mistake(None, str(e))]) from e


def refusal_of(text: str, where: str, error: ValidationError) -> DefinitionError:
    """The first mistakes of a suite, with the number of the others: one of 5,000 benchmarks may have as many."""
    faults, count = error.errors(include_url=False)[:NAMED_MISTAKES], error.error_count()
    lines = [*(explain_mistake(where, fault) for fault in faults), *beyond_named(count)]
    return DefinitionError("\n".join(lines), [mistake_in(text, fault) for fault in faults], count)


def toml_mistake(text: str, message: str) -> Mistake:
    """The message of the TOML parser with its line; an error at the end of the document is on the last line."""
    position = TOML_PLACE.search(message)
    line = int(position[1]) if position else len(text.rstrip().split("\n"))
    return Mistake(line, f"not TOML: {TOML_PLACE.sub('', message)}")


def mistake_in(text: str, error: Any) -> Mistake:
    """A mistake without the name of the file, with its line if known."""
    path = tuple(key for key in error["loc"] if key not in FORMS)
    if error["type"] == "missing":
        path = path[:-1]
    message = error["msg"].removeprefix("Value error, ")
    return Mistake(line_of(text, path, message), explain_mistake("", error).removeprefix(": "))


def explain_mistake(where: str, error: Any) -> str:
    """One mistake as ``file: position: cause and remedy``."""
    path = beginning(".".join(str(key) for key in error["loc"] if key not in FORMS)) or "suite"
    if error["type"] == "extra_forbidden":
        return f"{where}: {path}: no such key{remedy(str(error['loc'][-1]), allowed_keys(error['loc']))}"
    if error["type"] == "missing":
        return f"{where}: {path}: this key is missing"
    suffix = "" if has_keys(error["input"]) else f" (given: {beginning(repr(error['input']))})"
    explanation = PATTERNS.get(error.get("ctx", {}).get("pattern", ""), error["msg"].removeprefix("Value error, "))
    return f"{where}: {path}: {beginning(explanation)}{suffix}"


def beginning(text: str) -> str:
    """A part of a message, without the end of a long one."""
    return text if len(text) <= LONGEST_PART else f"{text[:LONGEST_PART]} …"


def remedy(key: str, keys: list[str]) -> str:
    """The allowed key that is like a wrong one, otherwise all of them."""
    similar = get_close_matches(key, keys, 1)
    return f": did you mean {similar[0]}?" if similar else f"; allowed here: {', '.join(keys)}"


def has_keys(value: Any) -> bool:
    """Return whether it is a section or a list of sections: these are too long for a message."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(item, dict) for item in value))


def allowed_keys(path: tuple[str | int, ...]) -> list[str]:
    model: type[BaseModel] = Definition
    for key in path[:-1]:
        model = SECTIONS.get(str(key), model)
    return sorted(model.model_fields)


def load_suite(name: str) -> Definition:
    """The suite of this name that is in force. Raises DefinitionError with a list of the suites."""
    return suite_after(name, newest_edit(name))


def suite_after(name: str, edit: SuiteEdit | None) -> Definition:
    """The suite that is in force if this is its newest edit. Raises DefinitionError with a list of the suites."""
    text = text_after(name, edit)
    if text is None:
        names = ", ".join(suite_names()) or "none"
        raise DefinitionError(f"there is no suite {name!r} in {settings.SUITES}: there are {names}")
    return parse_suite(text, f"{name}.toml")


def text_of(name: str) -> str | None:
    """The text in force: of the newest edit, otherwise of the file; None if there is neither."""
    return text_after(name, newest_edit(name))


def text_after(name: str, edit: SuiteEdit | None) -> str | None:
    return edit.text if edit and edit.text is not None else file_text(name)


def newest_edit(name: str) -> SuiteEdit | None:
    return SuiteEdit.objects.filter(name=name).order_by("-number").first()


def suite_names() -> list[str]:
    """The names of all suites, from files and from the browser."""
    edited = SuiteEdit.objects.filter(text__isnull=False).values_list("name", flat=True)
    return sorted({*file_names(), *edited})


def file_names() -> list[str]:
    return sorted(path.stem for path in Path(settings.SUITES).glob("*.toml"))


def file_text(name: str) -> str | None:
    """The text of a suite's file; None if there is none. Raises DefinitionError if it is not UTF-8."""
    if name not in file_names():
        return None
    try:
        return (Path(settings.SUITES) / f"{name}.toml").read_text("utf-8")
    except UnicodeDecodeError as e:
        raise DefinitionError(f"{name}.toml: not UTF-8: {e}: save it as UTF-8") from e


def file_digest(name: str) -> str:
    """A digest of the file's content; empty if there is none."""
    path = Path(settings.SUITES) / f"{name}.toml"
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}" if name in file_names() else ""
