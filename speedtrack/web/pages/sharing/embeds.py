"""An embedded chart: pictures of a timeline, light and dark, and the address of its page."""

from dataclasses import dataclass

from django.conf import settings
from django.http import QueryDict
from django.urls import reverse

from speedtrack.web.addresses import timeline_path
from speedtrack.web.pages.timeline.view import View

WIDTH, HEIGHT = 800, 340  # in proportion to which the picture fills its frame
THEMES = ("light", "dark")


@dataclass(frozen=True)
class EmbedPage:
    """``theme``: the requested one, or empty; ``pictures``: theme -> address of its picture."""

    title: str
    url: str
    theme: str
    pictures: dict[str, str]
    width: int = WIDTH
    height: int = HEIGHT


def load(view: View, query: QueryDict) -> EmbedPage:
    names = (view.scope.project.slug, view.benchmark, view.scope.metric.name)
    kept = query.copy()
    asked = kept.pop("theme", [""])[-1]
    theme = asked if asked in THEMES else ""
    page = timeline_path(*names)
    picture = reverse("timeline-values", args=[*names, "svg"])
    for key, usual in (("width", WIDTH), ("height", HEIGHT)):
        kept.setdefault(key, str(usual))
    return EmbedPage(
        title=f"{view.scope.project.name}: {view.benchmark}, {view.scope.metric.title}",
        url=f"{settings.URL}{page}?{without_size(kept)}".rstrip("?"),
        theme=theme,
        pictures={one: f"{picture}?{kept.urlencode()}&theme={one}" for one in ((theme,) if theme else THEMES)},
    )


def without_size(query: QueryDict) -> str:
    left = query.copy()
    for key in ("width", "height"):
        left.pop(key, None)
    return left.urlencode()
