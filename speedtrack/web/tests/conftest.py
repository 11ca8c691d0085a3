"""Fixtures of the pages, and the honest word about a browser that is not there."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from speedtrack.alerts.models import Alert
from speedtrack.web.tests.world import World, slowed, world

LEFT_OUT = pytest.StashKey[str]()


def browser() -> str | None:
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)


def missing() -> str:
    dist = Path(__file__).parents[3] / "frontend" / "dist" / "timeline.js"
    if browser() is None:
        return "no chromium on PATH"
    return "" if dist.exists() else "frontend/dist is not built (npm ci && npm run build)"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    why = missing()
    needy = [item for item in items if item.path.name == "test_browser.py"] if why else []
    if needy:
        config.stash[LEFT_OUT] = f"left out: {len(needy)} browser test(s) of the pages: {why}"
        config.hook.pytest_deselected(items=needy)
        items[:] = [item for item in items if item not in needy]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    if line := config.stash.get(LEFT_OUT, ""):
        terminalreporter.write_line(line, yellow=True)


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
