"""Texts to copy, with which other sites show parts of a project."""

from typing import NamedTuple
from urllib.parse import quote

from django.conf import settings
from django.urls import reverse

from speedtrack.projects.models import Project
from speedtrack.web.pages.project.grid import Grid
from speedtrack.web.pages.sharing import badges, embeds
from speedtrack.web.scope import PageScope

SHIELDS = "https://img.shields.io/endpoint?url="


class Snippet(NamedTuple):
    title: str
    text: str


def snippets(scope: PageScope, grid: Grid) -> list[Snippet]:
    """Badges as Markdown, and the first chart of the grid as a frame."""
    project = scope.project
    entries = [Snippet(f"Badge: {kind}", badge_markdown(project, kind)) for kind in badges.KINDS]
    address = f"{settings.URL}{reverse('badge', args=[project.slug, 'json'])}"
    entries.append(Snippet("The same drawn by shields.io (?show= as above)", f"{SHIELDS}{quote(address, safe='')}"))
    first = next((row.benchmark for _, rows in grid.groups for row in rows), None)
    if first:
        path = reverse("embed", args=[project.slug, first, scope.metric.name])
        size = f'width="100%" height="{embeds.HEIGHT}"'
        frame = f'<iframe src="{settings.URL}{path}" {size} loading="lazy" title="{project.slug}: {first}"></iframe>'
        entries.append(Snippet("Chart (any address of a timeline, with /embed before it)", frame))
    return entries


def badge_markdown(project: Project, kind: str) -> str:
    picture = f"{settings.URL}{reverse('badge', args=[project.slug, 'svg'])}?show={kind}"
    return f"[![{kind}]({picture})]({settings.URL}{reverse('project', args=[project.slug])})"
