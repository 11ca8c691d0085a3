"""An embedded chart: pictures of a timeline, light and dark, and the address of its page."""

from dataclasses import dataclass

from django.conf import settings
from django.http import QueryDict
from django.urls import reverse

from speedtrack.web.addresses import timeline_path
from speedtrack.web.pages.timeline.view import View

WIDTH, HEIGHT = 760, 340  # in proportion to which the picture fills its frame
#: (frame, width, height): of narrower frames, the picture that is not made smaller, so that its text stays legible.
NARROW = ((480, 320, 240), (760, 480, 280))
THEMES = ("light", "dark")


@dataclass(frozen=True)
class EmbedPage:
    """``theme``: the requested one, or empty; ``sources``: (media query, address) of pictures; ``picture``: else."""

    title: str
    url: str
    theme: str
    sources: list[tuple[str, str]]
    picture: str


def load(view: View, query: QueryDict) -> EmbedPage:
    names = (view.scope.project.slug, view.benchmark, view.scope.metric.name)
    parameters = query.copy()
    requested_theme = parameters.pop("theme", [""])[-1]
    theme = requested_theme if requested_theme in THEMES else ""
    page = timeline_path(*names)
    picture = reverse("timeline-values", args=[*names, "svg"])
    size = [parameters.get(key, str(usual)) for key, usual in (("width", WIDTH), ("height", HEIGHT))]
    sizes = [(f"(width < {frame}px)", [str(width), str(height)]) for frame, width, height in NARROW]
    pictures = [
        (
            " and ".join(filter(None, [frames, "" if theme else f"(prefers-color-scheme: {shade})"])),
            size_of_frame,
            shade,
        )
        for frames, size_of_frame in [*sizes, ("", size)]
        for shade in ((theme,) if theme else THEMES)
    ]

    def address(size_of_frame: list[str], shade: str) -> str:
        parameters["width"], parameters["height"] = size_of_frame
        return f"{picture}?{parameters.urlencode()}&theme={shade}"

    return EmbedPage(
        title=f"{view.scope.project.name}: {view.benchmark}, {view.scope.metric.title}",
        url=f"{settings.URL}{page}?{without_size(parameters)}".rstrip("?"),
        theme=theme,
        sources=[(media, address(size_of_frame, shade)) for media, size_of_frame, shade in pictures if media],
        picture=address(size, theme or THEMES[0]),
    )


def without_size(query: QueryDict) -> str:
    parameters = query.copy()
    for key in ("width", "height"):
        parameters.pop(key, None)
    return parameters.urlencode()
