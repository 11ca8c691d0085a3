"""The measured releases of a project, each against the one before it, as its feed lists them."""

from datetime import datetime
from typing import NamedTuple

from speedtrack.benchmarks.metrics import Metric
from speedtrack.projects.models import Project
from speedtrack.runs.models import Series
from speedtrack.web.pages import home, releasepoints
from speedtrack.web.pages.releasepoints import ReleaseChange, ReleaseSubject

MOST_COMPARED = 1200  # comparisons of a page: with many benchmarks it has fewer releases


class ReleaseEntry(NamedTuple):
    """A release with its change of a metric against the measured one before it; None for the first."""

    tag: str
    sha: str
    committed_at: datetime
    metric: Metric
    change: ReleaseChange | None


class ReleaseEntries(NamedTuple):
    """The entries of a page of the feed. ``older``: the tag behind which the next page begins; empty on the last."""

    entries: list[ReleaseEntry]
    older: str = ""


def load(project: Project, before: str = "") -> ReleaseEntries:
    """The newest releases first, by the metric and on the machine of the project's card: as many as may be compared.

    ``before``: only those behind this tag.
    """
    card = home.card_of(project)
    all_series = Series.objects.filter(project=project, machine__name=card.machine, metric=card.metric.name)
    series = all_series.filter(benchmark__ladder="").values_list("pk", flat=True)
    count = min(releasepoints.MOST, max(1, MOST_COMPARED // max(1, len(card.trends))))
    most = min(releasepoints.MOST, count + releasepoints.FEW)
    releases = releasepoints.newest_releases({project.pk: list(series)}, {}, most, before)[project.pk]
    page_releases = releases[:count]
    times = dict(
        project.commits.filter(sha__in=[release.sha for release in page_releases]).values_list("sha", "committed_at")
    )
    subject = ReleaseSubject(project.pk, card.metric, len(card.trends))
    pairs = {
        release.tag: pair
        for index, release in enumerate(page_releases)
        if (pair := releasepoints.pair_of_first(releases[index:], subject))
    }
    changes = dict(zip(pairs, releasepoints.judge_releases([*pairs.values()]), strict=True))
    entries = [
        ReleaseEntry(release.tag, release.sha, times[release.sha], card.metric, changes.get(release.tag))
        for release in page_releases
    ]
    return ReleaseEntries(entries, page_releases[-1].tag if len(releases) > count else "")
