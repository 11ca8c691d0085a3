"""Read suite files: from TOML text to a validated Definition, with one line per mistake."""

import json
import tomllib
from pathlib import Path
from typing import Any

from django.conf import settings
from pydantic import BaseModel, ValidationError

from speedtrack.benchmarks.definitions import SECTIONS, Definition, DefinitionError
from speedtrack.benchmarks.workloads import FORMS


def parse_suite(text: str, where: str) -> Definition:
    """Parse and validate the text of a suite file. Raises DefinitionError with one line per mistake."""
    try:
        return Definition.model_validate_json(json.dumps(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as e:
        raise DefinitionError(f"{where}: not TOML: {e}") from e
    except (TypeError, ValueError) as e:
        if isinstance(e, ValidationError):
            raise DefinitionError("\n".join(explain_mistake(where, error) for error in e.errors())) from e
        raise DefinitionError(f"{where}: {e}") from e


def explain_mistake(where: str, error: Any) -> str:
    """One mistake as ``file: place: cause and remedy``."""
    place = ".".join(str(part) for part in error["loc"] if part not in FORMS) or "suite"
    if error["type"] == "extra_forbidden":
        return f"{where}: {place}: no such key; allowed here: {', '.join(allowed_keys(error['loc']))}"
    if error["type"] == "missing":
        return f"{where}: {place}: this key is missing"
    given = "" if has_keys(error["input"]) else f" (given: {error['input']!r})"
    return f"{where}: {place}: {error['msg'].removeprefix('Value error, ')}{given}"


def has_keys(value: Any) -> bool:
    """Whether it is a section or a list of them: too long for a message."""
    return isinstance(value, dict) or (isinstance(value, list) and any(isinstance(part, dict) for part in value))


def allowed_keys(place: tuple[str | int, ...]) -> list[str]:
    model: type[BaseModel] = Definition
    for part in place[:-1]:
        model = SECTIONS.get(str(part), model)
    return sorted(model.model_fields)


def load_suite(name: str) -> Definition:
    """Read the suite of this name from the directory of suites. Raises DefinitionError that lists the suites."""
    directory = Path(settings.SUITES)
    names = sorted(p.stem for p in directory.glob("*.toml"))
    if name not in names:
        raise DefinitionError(f"there is no suite {name!r} in {directory}: there are {', '.join(names) or 'none'}")
    try:
        text = (directory / f"{name}.toml").read_text("utf-8")
    except UnicodeDecodeError as e:
        raise DefinitionError(f"{name}.toml: not UTF-8: {e}: save it as UTF-8") from e
    return parse_suite(text, f"{name}.toml")
