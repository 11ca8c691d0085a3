"""The home page: is each project measured up to its head, and did it get slower?"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db.models import Count, F, FilteredRelation, IntegerField, OuterRef, Q, QuerySet
from django.db.models.expressions import RawSQL
from django.db.models.functions import Coalesce

from speedtrack.accounts.access import Access
from speedtrack.alerts.models import Alert
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.projects.models import Branch, Project
from speedtrack.web.pages import changes, releasepoints
from speedtrack.web.pages.changes import ChangeGroup
from speedtrack.web.pages.releasepoints import ComparedRelease, ReleaseChange, ReleasePair, ReleaseSubject
from speedtrack.web.pages.running import machines
from speedtrack.web.pages.running.machines import Health
from speedtrack.web.pages.trends import NewestMeasured, Trend, coverages_of

LISTED_CHANGES = 10
LISTED_TRENDS = 60  # benchmarks of a project that is alone: its own page has the others
MOST_RUNS = 200  # of a project on a machine that are counted: however many wait, they are read from an index
# Of a project: the runs that wait or run, and the most that one machine has.
UNFINISHED = """
    SELECT ARRAY[sum(counted.runs), max(counted.runs)]::int[]
      FROM runs_machine m CROSS JOIN LATERAL (
        SELECT count(*) AS runs
          FROM (SELECT FROM runs_run r
                 WHERE r.machine_id = m.id AND r.project_id = projects_project.id
                   AND r.status IN ('queued', 'leased', 'running')
                 LIMIT %s) few) counted
"""


@dataclass
class Card:
    """One project. ``lag``: by how many commits the newest measured one is behind the head; None: none is measured.

    ``machine``: the one whose lines are shown, that which measured the most of the newest commits. ``line``: the
    geometric mean of the ``trends``, ``newest`` its newest value; ``points``: as those of ProjectTrends. ``release``:
    the last release against the one before; ``since``: the newest values against the last release. ``unfinished``: runs
    that wait or run; ``or_more``: there may be more of them.
    """

    project: Project
    branch: Branch | None
    open_alerts: int
    unfinished: int
    or_more: bool
    metric: Metric
    machine: str = ""
    lag: int | None = None
    measured: NewestMeasured | None = None
    line: Sequence[float | None] = ()
    newest: float | None = None
    trends: Sequence[Trend] = ()
    points: bytes = b""
    change: ChangeGroup | None = None
    release: ReleaseChange | None = None
    since: ReleaseChange | None = None

    @property
    def fresh(self) -> bool:
        return self.lag == 0

    @property
    def listed(self) -> Sequence[Trend]:
        """The first of its trends, which have a row each."""
        return self.trends[:LISTED_TRENDS]

    @property
    def behind(self) -> float | None:
        """Seconds from the newest measured commit to the head; None if their times are not plausible."""
        if self.measured is None or self.branch is None or self.branch.head is None:
            return None
        return max(0.0, (self.branch.head.committed_at - self.measured.committed_at).total_seconds())


@dataclass(frozen=True)
class HomePage:
    cards: list[Card]
    changes: list[ChangeGroup]
    machines: Health

    @property
    def alone(self) -> bool:
        """Return whether there is only one project, whose card has the whole width."""
        return len(self.cards) == 1


def load(access: Access) -> HomePage:
    """The number of queries does not depend on how many projects there are."""
    health = machines.health(access)  # first: what changes meanwhile makes the page load its pushes again
    cards = project_cards(access)
    newest = changes.newest_of_all([card.branch.pk for card in cards if card.branch], LISTED_CHANGES)
    for card in cards:
        card.change = newest.of_branches.get(card.branch.pk) if card.branch else None
    return HomePage(cards, newest.listed, health)


def card_of(project: Project) -> Card:
    """What was measured of the newest commits of one project, without its runs, changes and releases."""
    branch = project.branches.default().select_related("head").first()
    card = Card(project, branch, Alert.objects.work().filter(project=project).count(), 0, False, METRICS[HEADLINE])
    if branch:
        fill_cards({branch.pk: card})
    return card


def project_cards(access: Access) -> list[Card]:
    """One card per project, without its changes."""
    projects = TRACKED_PROJECTS.rows(most_runs=MOST_RUNS)
    cards = [card_of_row(project) for project in projects if access.sees(project.pk)]
    fill_cards({card.branch.pk: card for card in cards if card.branch})
    compare_releases(cards)
    return cards


def tracked_projects(most_runs: int) -> QuerySet[Any]:
    """The tracked projects by name, with what ``card_of_row`` needs."""
    alerts = Alert.objects.work().filter(project=OuterRef("pk")).order_by().values("project")
    projects: QuerySet[Any] = Project.objects.tracked().annotate(
        open_alerts=Coalesce(alerts.values(count=Count("pk")), 0),
        unfinished=RawSQL(UNFINISHED, [most_runs], ArrayField(IntegerField())),  # noqa: S611 (no text of others)
        followed=FilteredRelation("branches", condition=Q(branches__name=F("default_branch"))),
    )
    return projects.select_related("followed__head").order_by("name")


TRACKED_PROJECTS = PreparedQuery(tracked_projects)


def card_of_row(project: Any) -> Card:
    """The card of a project with the annotations of ``project_cards``."""
    runs, most = (count or 0 for count in project.unfinished)
    followed = getattr(project, "followed", None)  # Django sets nothing where there is no such branch
    return Card(project, followed, project.open_alerts, runs, most == MOST_RUNS, METRICS[HEADLINE])


def fill_cards(cards: dict[int, Card]) -> None:
    """Set on the cards what was measured of the newest commits of their branches."""
    for branch, coverage in coverages_of(list(cards)).items():
        card = cards[branch]
        card.machine, card.metric, card.measured = coverage.machine, coverage.metric, coverage.newest_measured
        card.lag = coverage.head - coverage.newest
        card.trends, card.points, card.line, card.newest = coverage.of_project


def compare_releases(cards: Iterable[Card], with_last: bool = True) -> None:
    """Set on the cards how the newest measured release compares with the one before it and with newer commits.

    ``with_last``: also the first of both.
    """
    by_project = {card.project.pk: card for card in cards if card.trends}
    if not by_project:
        return
    series = {pk: [trend.series_id for trend in card.trends] for pk, card in by_project.items()}
    last: dict[int, ReleasePair] = {}
    since: dict[int, ReleasePair] = {}
    candidates = (
        releasepoints.releases_to_compare(series) if with_last else releasepoints.newest_releases(series, {}, 1)
    )
    for pk, releases in candidates.items():
        card, newest = by_project[pk], releases[0]
        subject = ReleaseSubject(pk, card.metric, len(card.trends))
        if with_last and (pair := releasepoints.last_pair(releases, subject)):
            last[pk] = pair
        now = ComparedRelease("", {trend.series_id: trend.commit_id for trend in card.trends}, card.points)
        if (pair := ReleasePair(subject, newest.compared, now)).sides:
            since[pk] = pair
    changes = iter(releasepoints.judge_releases([*last.values(), *since.values()]))
    for pk in last:
        by_project[pk].release = next(changes)
    for pk in since:
        by_project[pk].since = next(changes)


def home_document(cards: Iterable[Card]) -> dict[str, Any]:
    """The cards as JSON."""
    return {"schema": "speedtrack.home/1", "projects": [card_document(card) for card in cards]}


def card_document(card: Card) -> dict[str, Any]:
    return {
        "project": card.project.slug,
        "branch": card.branch.name if card.branch else None,
        "measured": card.measured.sha if card.measured else None,
        "commits_behind": card.lag,
        "open_alerts": card.open_alerts,
        "unfinished_runs": card.unfinished,
        "machine": card.machine or None,
        "metric": card.metric.name,
        "newest": card.newest,
        "last_release": release_document(card.release),
        "since_release": release_document(card.since),
    }


def release_document(comparison: ReleaseChange | None) -> dict[str, Any] | None:
    total = comparison.total if comparison else None
    if comparison is None or total is None or (mean := total.mean) is None:
        return None
    low, high = total.interval or (None, None)
    change = {"ratio": mean.ratio, "low": low, "high": high, "look": total.look, "verdict": total.verdict}
    names = {"tag": comparison.tag, "before": comparison.before}
    return {**names, **change, "series": total.benchmarks, "of": total.of}
