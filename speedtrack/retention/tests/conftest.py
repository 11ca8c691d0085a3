"""A tracked and measured repository, and time that passes."""

from pathlib import Path
from typing import Any

import pytest

from speedtrack.alerts.models import Alert
from speedtrack.web.tests.world import World, measured_world, slowed


@pytest.fixture
def kvd(db: None, settings: Any, tmp_path: Path) -> World:
    """Four measured commits."""
    return measured_world(settings, tmp_path)


@pytest.fixture
def slow(db: None, settings: Any, tmp_path: Path) -> tuple[World, Alert]:
    """Eight measured commits; the sixth made the server 20% slower, and an alert says so."""
    return slowed(settings, tmp_path)
