"""A system check that the scripts and the style sheet of the pages are built."""

from collections.abc import Sequence
from typing import Any

from django.apps import AppConfig
from django.contrib.staticfiles import finders
from django.core.checks import CheckMessage, Tags, Warning, register

FILES = (
    "site.css",
    "embed.css",
    "commit.js",
    "compare.js",
    "flame.js",
    "help.js",
    "keys.js",
    "live.js",
    "log.js",
    "project.js",
    "search.js",
    "suite.js",
    "timeline.js",
    "track.js",
)  # built from frontend/


@register(Tags.staticfiles)
def check_built_files(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    missing = [name for name in FILES if finders.find(name) is None]
    if not missing:
        return []
    return [
        Warning(
            f"frontend/dist lacks {', '.join(missing)}: the pages have no style and no charts",
            hint="Run `npm ci && npm run build` in frontend/, then start the server again.",
            id="speedtrack.web.W001",
        )
    ]
