"""What tests that fill a database need."""

from typing import Any

import pytest


@pytest.fixture
def suites(db: Any, settings: Any, tmp_path: Any) -> None:
    """A copy of the suites, and an empty place for repositories."""
    for file in settings.SUITES.glob("*.toml"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    settings.SUITES, settings.CANARY_EVERY_S = tmp_path, 10**8
    settings.MIRRORS = tmp_path / "mirrors"
