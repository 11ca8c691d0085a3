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
    parameters = query.copy()
    requested_theme = parameters.pop("theme", [""])[-1]
    theme = requested_theme if requested_theme in THEMES else ""
    page = timeline_path(*names)
    picture = reverse("timeline-values", args=[*names, "svg"])
    for key, usual in (("width", WIDTH), ("height", HEIGHT)):
        parameters.setdefault(key, str(usual))
    return EmbedPage(
        title=f"{view.scope.project.name}: {view.benchmark}, {view.scope.metric.title}",
        url=f"{settings.URL}{page}?{without_size(parameters)}".rstrip("?"),
        theme=theme,
        pictures={name: f"{picture}?{parameters.urlencode()}&theme={name}" for name in ((theme,) if theme else THEMES)},
    )


def without_size(query: QueryDict) -> str:
    parameters = query.copy()
    for key in ("width", "height"):
        parameters.pop(key, None)
    return parameters.urlencode()
