"""Worlds for the pages."""

import shutil

from playwright.sync_api import expect

from speedtrack.web.tests.world import kvd, slow

__all__ = ["browser", "kvd", "slow"]


expect.set_options(timeout=120_000)  # its default of 5 s is too short on a busy machine


# The first is the same engine without windows, tabs and bars, which take half of the CPU of a short test.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)
