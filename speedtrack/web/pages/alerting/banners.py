"""Alerts in one sentence each, on the pages of a project and of a commit."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from speedtrack.alerts.headlines import DirectionSummary, summaries_of
from speedtrack.alerts.models import Alert
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.judging.verdicts import SETTLED, look_of_change
from speedtrack.projects.models import Commit
from speedtrack.reports.readings.commits import ROLES, roles_of
from speedtrack.web.pages.alerting.alerts import ListedChange

Status = Alert.Status
STATES = {
    Status.SUSPECTED: "is not confirmed yet",
    Status.CONFIRMED: "is confirmed",
    Status.EXPECTED: "was closed as expected",
    Status.INVALID: "was closed as invalid",
    Status.FIXED: "is fixed",
}


class Banner(NamedTuple):
    """An alert with its largest changes. ``roles``: what the page's commit is to it; empty on other pages."""

    alert: Alert
    summaries: list[DirectionSummary]
    roles: list[str]

    @property
    def is_settled(self) -> bool:
        return self.alert.status in SETTLED or self.alert.improvement

    @property
    def look(self) -> str:
        return look_of_change(self.alert)

    @property
    def beginning(self) -> str:
        """How the page's commit relates to the alert, as the beginning of the sentence; empty on other pages."""
        role = "; ".join(role for role in self.roles if role != ROLES["commit_id"]) or caused_here(self.alert)
        return f"{role[0].upper()}{role[1:]}" if self.roles else ""

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the sentence has to name the cause: the page is not that of its commit."""
        return ROLES["commit_id"] not in self.roles

    @property
    def standing(self) -> str:
        """The end of the sentence: the alert's state, and who has it."""
        alert = self.alert
        if alert.status == Status.FIXED and alert.fixed_by:
            return f"is fixed by {alert.fixed_by.short}"
        return STATES[Status(alert.status)] + self.holding

    @property
    def holding(self) -> str:
        """Who has the alert, as the end of a sentence; empty if nobody has to have it."""
        holder = self.alert.assignee.username if self.alert.assignee else "nobody"
        return "" if self.is_settled else f"; {holder} has it"


def caused_here(alert: Alert) -> str:
    if alert.drift:
        return "little by little up to this commit"
    return "caused by this commit" if alert.width == 1 else f"caused by one of {alert.width} commits up to this one"


def banners_of(alerts: Iterable[Alert], commit: Commit | None = None) -> list[Banner]:
    """The banners of alerts (see ``readings.alerts.for_banners``) on the page of a commit or on another one."""
    return [Banner(alert, summaries_of(changes_of(alert)), roles_of(alert, commit)) for alert in alerts]


def changes_of(alert: Alert) -> list[ListedChange]:
    rows: list[dict[str, Any]] = getattr(alert, "listed")  # noqa: B009 (an annotation)
    return [ListedChange(**row | {"metric": METRICS[row["metric"]]}) for row in rows]
