"""What frames each page: the navigation, and what chats show of a link to it."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from django import template
from django.conf import settings
from django.contrib.messages.storage.base import Message
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from speedtrack import __version__
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.web.requests.operating import UNDO

register = template.Library()

#: The links in the head of each page, each with the names of the addresses at which one is within its part.
NAVIGATION = (
    ("Projects", "home", {"home"}),
    ("Alerts", "all-alerts", {"all-alerts", "alerts", "alert"}),
    ("Queue", "queue", {"queue"}),
    ("Machines", "machines", {"machines", "machine"}),
)
#: Those of people who are logged in.
SETTINGS = {"project-settings", "suites", "suite", "machine-settings", "installation", "notifications"}
OWN_NAVIGATION = (
    ("My board", "pins", {"pins"}),
    ("Settings", "settings", SETTINGS),
)


@register.simple_tag(takes_context=True)
def navigation(context: template.Context) -> SafeString:
    match = getattr(context.get("request"), "resolver_match", None)
    here = match.url_name if match else None
    user = context.get("user")
    links = (*NAVIGATION, *(OWN_NAVIGATION if user and user.is_authenticated else ()))
    return format_html_join(
        "",
        '<a href="{}"{}>{}</a>',
        ((reverse(name), current(name, here, within), title) for title, name, within in links),
    )


def current(name: str, here: str | None, within: set[str]) -> SafeString | str:
    if here == name:
        return format_html(' aria-current="{}"', "page")
    return format_html(' aria-current="{}"', "true") if here in within else ""


@register.inclusion_tag("web/undo.html", takes_context=True)
def undo(context: template.Context, message: Message) -> dict[str, Any]:
    """The form of a message that can be taken back: what it sends for each alert."""
    tags = str(message.extra_tags or "").split()
    alerts = [tag.removeprefix(UNDO) for tag in tags if tag.startswith(UNDO)]
    request = context["request"] if alerts else None
    return {"alerts": alerts, "csrf_token": context.get("csrf_token"), "back": request and request.get_full_path()}


@register.simple_tag
def version() -> str:
    return __version__


@register.simple_tag(takes_context=True)
def link_preview(context: template.Context) -> SafeString:
    """Title, description and picture of a link (Open Graph), for pages that have a picture."""
    request = context.get("request")
    match = getattr(request, "resolver_match", None)
    preview = PREVIEWS.get(match.url_name or "") if match else None
    if request is None or match is None or preview is None:
        return SafeString("")
    title, description, picture = preview(context, **match.kwargs)
    sides = ("base", "head", "base_project", "base_machine") if match.url_name == "compare" else ()
    parameters = {key: request.GET[key] for key in ("branch", "machine", *sides) if key in request.GET}
    address = f"{settings.URL}{picture}{'?' if parameters else ''}{urlencode(parameters)}"
    return format_html_join(
        "",
        '<meta property="{}" content="{}">',
        (
            ("og:site_name", "SpeedTrack"),
            ("og:type", "website"),
            ("og:title", title),
            ("og:description", description),
            ("og:image", address),
            ("og:image:width", "1200"),
            ("og:image:height", "630"),
            ("twitter:card", "summary_large_image"),
        ),
    )


Preview = tuple[str, str, str]  # title, description, path of the picture


def project_preview(context: template.Context, slug: str, **_: Any) -> Preview:
    name = getattr(context.get("project"), "name", slug)
    return name, f"The speed of {name}, commit by commit.", reverse("project-picture", args=[slug])


def compare_preview(context: template.Context, slug: str, **_: Any) -> Preview:
    name = getattr(context.get("project"), "name", slug)
    page, title, description = context.get("page"), f"{name} compared", f"What differs in the speed of {name}."
    if page and page.sides:
        base, head = page.sides.labels
        title = f"{name}: {head[:60]} against {base[:60]}"
        description = ", ".join(f"{count} {verdict}" for verdict, count in page.verdicts)
    return title, description, reverse("compare-picture", args=[slug])


def timeline_preview(context: template.Context, slug: str, benchmark: str, metric: str, **_: Any) -> Preview:
    title = METRICS[metric].title if metric in METRICS else metric
    name = getattr(context.get("project"), "name", slug)
    picture = reverse("timeline-picture", args=[slug, benchmark, metric])
    return f"{name}: {benchmark}", f"{title}, commit by commit, with intervals and confirmed changes.", picture


def alert_preview(context: template.Context, pk: int, **_: Any) -> Preview:
    alert = context.get("alert")
    description = f"{alert.status}: {alert.commit.short} {alert.commit.subject}" if alert else ""
    name = f" of {alert.project.name}" if alert else ""
    return f"Alert {pk}{name}", description, reverse("alert-picture", args=[pk])


#: By the name of the address.
PREVIEWS: dict[str, Callable[..., Preview]] = {
    "project": project_preview,
    "compare": compare_preview,
    "timeline": timeline_preview,
    "alert": alert_preview,
}
