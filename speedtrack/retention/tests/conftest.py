"""A tracked and measured repository, and time that passes."""

from pathlib import Path
from typing import Any

import pytest

from speedtrack.alerts.models import Alert
from speedtrack.web.tests.world import World, slowed, world


@pytest.fixture
def kvd(db: None, settings: Any, tmp_path: Path) -> World:
    """Four measured commits."""
    made = world(settings, tmp_path)
    made.measure()
    return made


@pytest.fixture
def slow(db: None, settings: Any, tmp_path: Path) -> tuple[World, Alert]:
    """Eight measured commits; the sixth made the server 20% slower, and an alert says so."""
    return slowed(settings, tmp_path)
