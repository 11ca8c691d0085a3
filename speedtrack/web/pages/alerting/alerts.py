"""The list of alerts, of one project or of all: filtered, ordered and paged by its address."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from django.contrib.auth.models import User
from django.db.models import Case, Count, Exists, F, FloatField, Max, OuterRef, Q, QuerySet, Subquery, Value, When
from django.db.models.functions import Coalesce
from django.http import Http404, QueryDict

from speedtrack.accounts.access import Access
from speedtrack.alerts.headlines import DirectionSummary, rank_of, summaries_of
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.models.alerts import AlertQuerySet
from speedtrack.alerts.models.change_points import HIGHER_IS_BETTER
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.ground.postgres.plainrows import plain_rows
from speedtrack.projects.models import Project, sha_begins
from speedtrack.reports.alerts import ALERTS, JOINED, AlertDocument, AlertList
from speedtrack.web.addresses import metric_given
from speedtrack.web.drawing.small.strips import ChangeStrip
from speedtrack.web.scope import watched_metrics

PAGE, NEWEST = 50, 100  # on a page, in a feed
MOST_PEOPLE = 200
LONGEST_TEXT = 200
SHOWN_CHANGES = 24  # of an alert, in its strip
ORDERS = {"newest": "newest first", "oldest": "oldest first", "size": "largest first"}
ALERT_COLUMNS = (
    "status",
    "improvement",
    "muted",
    "created",
    "project__slug",
    "project__name",
    "branch__name",
    "before__sha",
    "commit__sha",
    "commit__subject",
    "commit__author_name",
    "assignee__username",
)


class ListedChange(NamedTuple):
    """A change point of an alert."""

    benchmark: str
    metric: Metric
    ratio: float
    low: float
    high: float
    from_zero: float | None

    @property
    def change_in_words(self) -> str:
        return numbers.change_from(self.metric, self.ratio, self.from_zero)

    @property
    def interval_in_words(self) -> str:
        return numbers.interval_from(self.ratio, self.low, self.high, self.from_zero)

    @property
    def is_slowdown(self) -> bool:
        return self.metric.is_worse(self.ratio)

    @property
    def benchmark_name(self) -> str:
        return self.benchmark


@dataclass(frozen=True)
class ListedAlert:
    """``changes``: the worst first; ``strip``: the same as a drawing, on one axis for the whole list."""

    alert: Alert
    changes: list[ListedChange]
    strip: ChangeStrip | None = None

    @property
    def summaries(self) -> list[DirectionSummary]:
        return summaries_of(self.changes)


@dataclass(frozen=True)
class AlertListQuery:
    """The parameters of the address. ``assignee``: a user name, ``none``, or ``me`` for the reader."""

    status: str = "open"
    project: str = ""
    assignee: str = ""
    metric: str = ""
    text: str = ""
    order: str = "newest"
    after: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> "AlertListQuery":
        """The parameters in a query. Raises Http404 for a metric or an order that does not exist."""
        metric, order = metric_given(query), query.get("order") or "newest"
        if metric and metric not in METRICS:
            raise Http404(f"There is no metric {metric!r}: there are {', '.join(METRICS)}.")
        if order not in ORDERS:
            raise Http404(f"Alerts cannot be ordered by {order!r}: say {', '.join(ORDERS)}.")
        texts = {name: query.get(name, "") for name in ("project", "assignee", "after")}
        text = query.get("q", "").strip()[:LONGEST_TEXT]
        return cls(query.get("status") or "open", metric=metric, order=order, text=text, **texts)

    @property
    def active(self) -> bool:
        """Return whether a filter other than the status is set."""
        return bool(self.project or self.assignee or self.metric or self.text)


@dataclass(frozen=True)
class AlertsPage:
    """``counts``: by status, then the improvements; ``open``: how many slowdowns are open.

    ``following``: where the next page begins; empty on the last one.
    """

    alerts: list[ListedAlert]
    counts: list[tuple[str, int]]
    open: int
    filters: AlertListQuery
    projects: list[tuple[str, str]]
    people: QuerySet[User, str]
    following: str = ""
    orders: dict[str, str] = field(default_factory=lambda: ORDERS)
    metrics: list[Metric] = field(default_factory=list)


def load(project: Project | None, filters: AlertListQuery, access: Access) -> AlertsPage:
    selection = filtered_alerts(standing_alerts(project, access), filters, access.caller.user)
    counts = counts_of(selection)
    alerts, following = page_of(of_status(selection, filters.status), filters)
    people = User.objects.filter(is_active=True).order_by("username").values_list("username", flat=True)
    return AlertsPage(
        alerts=alerts,
        counts=counts,
        open=sum(count for name, count in counts if name in Alert.OPEN),
        filters=filters,
        projects=[]
        if project
        else list(access.among(Project.objects.order_by("name"), "pk").values_list("slug", "name")),
        people=people[:MOST_PEOPLE],
        following=following,
        metrics=watched_metrics(project),
    )


def load_document(project: Project | None, filters: AlertListQuery, access: Access) -> AlertList:
    """The alerts of the page, in its order, as the API has them."""
    selection = filtered_alerts(standing_alerts(project, access), filters, access.caller.user)
    ordered = ordered_from(of_status(selection, filters.status), filters)
    keys, following = page_and_next(list(ordered.only("pk")[: PAGE + 1]), filters, PAGE)
    alerts = Alert.objects.with_range().filter(pk__in=[alert.pk for alert in keys])
    by_pk = {alert.pk: alert for alert in plain_rows(alerts, ALERTS, JOINED)}
    documents = AlertDocument.list_of(by_pk[alert.pk] for alert in keys)
    return AlertList(counts=dict(counts_of(selection)), after=following, alerts=documents)


def standing_alerts(project: Project | None, access: Access) -> AlertQuerySet:
    alerts: AlertQuerySet = Alert.objects.standing()
    return access.among(alerts) if project is None else alerts.filter(project=project)


def filtered_alerts(alerts: AlertQuerySet, filters: AlertListQuery, reader: User | None) -> AlertQuerySet:
    """The alerts that pass all filters except the status."""
    changes = ChangePoint.objects.filter(alert=OuterRef("pk"))
    if filters.project:
        alerts = alerts.filter(project__slug=filters.project)
    if filters.assignee == "none":
        alerts = alerts.filter(assignee=None)
    elif filters.assignee == "me":
        alerts = alerts.filter(assignee=reader) if reader else alerts.none()
    elif filters.assignee:
        alerts = alerts.filter(assignee__username=filters.assignee)
    if filters.metric:
        alerts = alerts.filter(Exists(changes.filter(series__metric=filters.metric)))
    if text := filters.text:
        commit = Q(commit__subject__icontains=text) | Q(commit__author_name__icontains=text)
        benchmark = Exists(changes.filter(series__benchmark__name__icontains=text))
        alerts = alerts.filter(commit | sha_begins(text.lower(), "commit__") | benchmark)
    return alerts


def of_status(alerts: AlertQuerySet, status: str) -> AlertQuerySet:
    """Open alerts, improvements, all, or the slowdowns of one status."""
    if status == "open":
        return alerts.filter(status__in=Alert.OPEN, improvement=False)
    if status == "improvements":
        return alerts.filter(improvement=True)
    return alerts.filter(status=status, improvement=False) if status in Alert.Status.values else alerts


def list_alerts(project: Project | None, status: str, access: Access) -> list[ListedAlert]:
    """The newest alerts of a status, for feeds."""
    return page_of(of_status(standing_alerts(project, access), status), AlertListQuery(status=status), NEWEST)[0]


def page_of(selection: AlertQuerySet, filters: AlertListQuery, most: int = PAGE) -> tuple[list[ListedAlert], str]:
    """One page of alerts, and where the next one begins."""
    rows = (
        ordered_from(selection, filters)
        .with_range()
        .select_related("project", "branch", "before", "commit", "assignee")
    )
    alerts, following = page_and_next(list(rows.only(*ALERT_COLUMNS)[: most + 1]), filters, most)
    return with_changes(alerts), following


def page_and_next(alerts: list[Alert], filters: AlertListQuery, most: int) -> tuple[list[Alert], str]:
    """The first of these alerts, ``most`` of ``most`` and one, and the cursor behind them; empty if that is all."""
    if len(alerts) <= most:
        return alerts, ""
    last = alerts[most - 1]
    return alerts[:most], f"{getattr(last, 'size', 0)!r}:{last.pk}" if filters.order == "size" else str(last.pk)


def ordered_from(alerts: AlertQuerySet, filters: AlertListQuery) -> AlertQuerySet:
    """The alerts in the requested order, from the cursor on.

    Raises Http404 for a cursor that no page has given.
    """
    try:
        size_text, _, pk_text = filters.after.rpartition(":")
        pk, size = int(pk_text or 0), float(size_text or 0)
    except ValueError:
        raise Http404(f"There is no page of alerts after {filters.after!r}: begin with the first one.") from None
    pk = min(pk, 2**63 - 1)
    if filters.order == "size":
        by_size = alerts.annotate(size=worst_size())
        at = Q(size__lt=size) | Q(size=size, pk__lt=pk)
        return (by_size.filter(at) if filters.after else by_size).order_by("-size", "-pk")
    if filters.order == "oldest":
        return (alerts.filter(pk__gt=pk) if filters.after else alerts).order_by("pk")
    return (alerts.filter(pk__lt=pk) if filters.after else alerts).order_by("-pk")


def worst_size() -> Coalesce:
    """The largest slowdown of an alert as a share; if it has only improvements, the negative of their size."""
    slower = Case(
        When(HIGHER_IS_BETTER, then=Value(1.0) - F("ratio")),
        default=F("ratio") - Value(1.0),
        output_field=FloatField(),
    )
    largest = ChangePoint.objects.filter(alert=OuterRef("pk")).order_by().values("alert")
    return Coalesce(Subquery(largest.annotate(size=Max(slower)).values("size")), Value(0.0))


def with_changes(alerts: list[Alert]) -> list[ListedAlert]:
    changes = ranked_changes(alerts)
    return [ListedAlert(alert, changes[alert.pk], strip_of(changes[alert.pk])) for alert in alerts]


def strip_of(changes: Sequence[ListedChange]) -> ChangeStrip | None:
    effects = [(change.metric, change.ratio, change.low, change.high) for change in changes[:SHOWN_CHANGES]]
    return ChangeStrip.of(effects) if effects else None


def ranked_changes(alerts: Iterable[Alert]) -> dict[int, list[ListedChange]]:
    """By alert: its changes, the worst first. As columns, because an alert may have hundreds."""
    by_alert: dict[int, list[ListedChange]] = defaultdict(list)
    rows = ChangePoint.objects.filter(alert__in=alerts).order_by("pk")
    columns = ("alert_id", "series__benchmark__name", "series__metric", "ratio", "low", "high", "from_zero")
    for alert_id, benchmark, metric, *size in rows.values_list(*columns):
        by_alert[alert_id].append(ListedChange(benchmark, METRICS[metric], *size))
    for changes in by_alert.values():
        changes.sort(key=rank_of)
    return by_alert


def count_alerts(project: Project | None, access: Access) -> dict[str, int]:
    return count_by_status(standing_alerts(project, access))


def counts_of(alerts: QuerySet[Alert]) -> list[tuple[str, int]]:
    """``count_by_status`` of every status, then of the improvements."""
    by_status = count_by_status(alerts)
    return [(name, by_status.get(name, 0)) for name in (*Alert.Status.values, "improvements")]


def count_by_status(alerts: QuerySet[Alert]) -> dict[str, int]:
    """How many slowdowns there are by status, and how many improvements."""
    by_status: dict[str, int] = defaultdict(int)
    for status, improvement, count in (
        alerts.values_list("status", "improvement").annotate(count=Count("pk")).order_by()
    ):
        by_status["improvements" if improvement else status] += count
    return by_status


ENTRY_COLUMNS = (
    *("id", "project", "branch", "status", "is_improvement", "is_muted", "created", "assignee", "before", "commit"),
    *("subject", "commits"),
)
WORST_COLUMNS = ("benchmark", "metric", "is_slowdown", "ratio", "low", "high", "kind")


def csv_rows(alert_list: AlertList) -> Iterator[list[Any]]:
    """An alert a row, with its worst change; the columns are fields of the API's documents."""
    yield [*ENTRY_COLUMNS, *WORST_COLUMNS]
    for document in alert_list.alerts:
        worst = next(iter(document.changes), None)
        yield [
            *(getattr(document, name) for name in ENTRY_COLUMNS),
            *(getattr(worst, name, "") for name in WORST_COLUMNS),
        ]
