"""The measured releases of a project, each against the one before it, as its feed lists them."""

from datetime import datetime
from typing import NamedTuple

from speedtrack.benchmarks.metrics import Metric
from speedtrack.projects.models import Project
from speedtrack.runs.models import Series
from speedtrack.web.pages import home, releasepoints
from speedtrack.web.pages.releasepoints import ReleaseChange


class ReleaseEntry(NamedTuple):
    """A release with its change of a metric against the measured one before it; None for the first."""

    tag: str
    sha: str
    committed_at: datetime
    metric: Metric
    change: ReleaseChange | None


def load(project: Project) -> list[ReleaseEntry]:
    """The newest releases first, by the metric and on the machine of the project's card."""
    card = home.card_of(project)
    all_series = Series.objects.filter(project=project, machine__name=card.machine, metric=card.metric.name)
    series = all_series.filter(benchmark__ladder="").values_list("pk", flat=True)
    releases = releasepoints.newest_releases({project.pk: list(series)}, {}, releasepoints.MOST)[project.pk]
    times = dict(
        project.commits.filter(sha__in=[release.sha for release in releases]).values_list("sha", "committed_at")
    )
    pairs = {
        release.tag: pair
        for index, release in enumerate(releases)
        if (pair := releasepoints.pair_of_first(releases[index:], card.metric, len(card.trends)))
    }
    changes = dict(zip(pairs, releasepoints.judge_releases([*pairs.values()]), strict=True))
    return [
        ReleaseEntry(release.tag, release.sha, times[release.sha], card.metric, changes.get(release.tag))
        for release in releases
    ]
