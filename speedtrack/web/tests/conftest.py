"""Worlds for the pages."""

import shutil

from speedtrack.web.tests.world import kvd, slow

__all__ = ["browser", "kvd", "slow"]


def browser() -> str | None:
    return next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
