"""Badges: one fact about a project in a few words, for pages elsewhere."""

from dataclasses import dataclass
from typing import Any

from django.http import Http404

from speedtrack.alerts.models import Alert
from speedtrack.benchmarks import numbers
from speedtrack.judging.verdicts import Ruling
from speedtrack.projects.models import Project
from speedtrack.web.pages import home

GOOD, BAD, DOUBTFUL, NEUTRAL = "good", "bad", "doubtful", "neutral"
#: How a verdict on the newest commits looks; the others are neutral.
LOOKS = {Ruling.WORSE: BAD, Ruling.BETTER: GOOD, Ruling.SAME: GOOD, Ruling.SAME_PROGRAM: GOOD}
#: The names of colours in the badge endpoint of shields.io.
SHIELDS_COLOURS = {GOOD: "brightgreen", BAD: "red", DOUBTFUL: "yellow", NEUTRAL: "lightgrey"}


@dataclass(frozen=True)
class Badge:
    label: str
    message: str
    look: str


def load(project: Project, show: str) -> Badge:
    """The badge that an address asks for. Raises Http404 for an unknown one."""
    if show not in KINDS:
        raise Http404(f"There is no badge {show!r}: there are {', '.join(KINDS)}.")
    return KINDS[show](project)


def of_alerts(project: Project) -> Badge:
    count = Alert.objects.work().filter(project=project).count()
    return Badge("speed alerts", f"{count} open" if count else "none", BAD if count else GOOD)


def of_release(project: Project) -> Badge:
    """The badge that compares the newest commits with the last release that was measured."""
    card = home.card_of(project)
    home.compare_releases([card], with_last=False)
    since = card.since
    if since is None or since.total.mean is None:
        return Badge("since release", "not measured", NEUTRAL)
    total = since.total
    message = f"{total.sign}{numbers.change(since.total.mean.ratio)}"
    return Badge(f"since {since.before}", message, LOOKS.get(total.verdict, NEUTRAL))


def of_freshness(project: Project) -> Badge:
    lag = home.card_of(project).lag
    if lag is None:
        return Badge("measured", "not yet", NEUTRAL)
    return Badge("measured", f"{lag} commit{'s' * (lag > 1)} behind" if lag else "head", DOUBTFUL if lag else GOOD)


KINDS = {"alerts": of_alerts, "release": of_release, "freshness": of_freshness}


def shields_document(badge: Badge) -> dict[str, Any]:
    """The badge in the form of the endpoint of shields.io."""
    return {
        "schemaVersion": 1,
        "label": badge.label,
        "message": badge.message,
        "color": SHIELDS_COLOURS[badge.look],
    }
