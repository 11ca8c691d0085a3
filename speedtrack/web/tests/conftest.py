"""Worlds for the pages."""

import shutil

from playwright.sync_api import expect

from speedtrack.web.tests.world import kvd, slow

__all__ = ["browser", "kvd", "slow"]


expect.set_options(timeout=120_000)  # its default of 5 s is too short on a busy machine


def browser() -> str | None:
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
