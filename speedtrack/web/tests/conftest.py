"""Worlds for the pages."""

import shutil

from playwright.sync_api import expect

from speedtrack.web.tests.world import kvd, slow

__all__ = ["browser", "kvd", "slow"]


expect.set_options(timeout=120_000)  # of its own it waits for 5 s, which a busy machine exceeds


def browser() -> str | None:
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
