"""The parts of a document that are computed: between ``<!-- name -->`` and ``<!-- end of the name -->``."""

import re
from pathlib import Path


def pattern(name: str) -> str:
    return f"(?s)(<!-- {name} -->\n)(.*)(\n<!-- end of the {name} -->)"


def read_part(path: Path, name: str) -> str:
    """Raises ValueError if the document has no such part."""
    match = re.search(pattern(name), path.read_text())
    if match is None:
        raise ValueError(f"{path} has no part between the marks of {name!r}")
    return match[2]


def write_part(path: Path, name: str, text: str) -> None:
    old = path.read_text()
    path.write_text(re.sub(pattern(name), lambda match: match[1] + text + match[3], old))
