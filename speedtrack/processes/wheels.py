"""Where the wheels of the embedded servers keep their programs. Their own code is never imported: we start servers."""

from importlib.util import find_spec
from pathlib import Path


def files(package: str, pattern: str) -> list[Path]:
    """The files of an installed package that match a pattern; none if it is not installed."""
    spec = find_spec(package)
    return sorted(Path(spec.origin).parent.glob(pattern)) if spec and spec.origin else []
