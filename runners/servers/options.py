"""Options that only some releases of a server have: programs that contain their names get them."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from runners.documents import ServerRecipe
from runners.foreign import open_regular, pieces

_KNOWN = re.compile(r"\{known:(-{1,2}([\w-]{3,})(?: [^{}]*)?)\}")


def with_known_options(recipe: ServerRecipe, artifacts: Mapping[str, Path]) -> ServerRecipe:
    """The recipe with each `{known:--NAME WORDS}` replaced by `--NAME WORDS`, or by nothing if no program has the name.

    So the same program always gets the same options, and no program is started to find out.
    """

    def fill(match: re.Match[str]) -> str:
        return match[1] if any_contains(artifacts.values(), match[2].encode()) else ""

    return replace(recipe, command=_KNOWN.sub(fill, recipe.command))


def any_contains(files: Iterable[Path], option: bytes) -> bool:
    return any(contains(file, option) for file in files)


def contains(file: Path, option: bytes) -> bool:
    end = b""
    with open_regular(file) as stream:
        for piece in pieces(stream):
            if option in end + piece:
                return True
            end = piece[1 - len(option) :]
    return False
