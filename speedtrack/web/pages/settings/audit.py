"""The audit log: who changed what, filtered, page by page."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet
from django.http import Http404, QueryDict

from speedtrack.accounts.models import AuditEntry
from speedtrack.projects.models import Project
from speedtrack.web.addresses import midnight

PER_PAGE = 100
MOST_VALUES = 10_000  # entries in one file
LONGEST = 150


@dataclass(frozen=True)
class AuditFilters:
    """The parameters of the address. ``before``: the entry after which the list goes on with older ones."""

    person: str = ""
    action: str = ""
    project: str = ""
    since: str = ""
    until: str = ""
    before: int = 0

    @staticmethod
    def of(query: QueryDict) -> "AuditFilters":
        names = ("person", "action", "project", "since", "until")
        texts = {name: query.get(name, "").strip()[:LONGEST] for name in names}
        return AuditFilters(**texts, before=number_or_404(query.get("before", "")))

    @property
    def active(self) -> bool:
        return any((self.person, self.action, self.project, self.since, self.until))


@dataclass(frozen=True)
class AuditPage:
    """``following``: the number before which the next page begins; 0 on the last one."""

    entries: list[AuditEntry]
    filters: AuditFilters
    following: int


def load(project: Project | None, query: QueryDict) -> AuditPage:
    filters = AuditFilters.of(query)
    rows = list(filtered_entries(project, filters)[: PER_PAGE + 1])
    following = rows[PER_PAGE - 1].pk if len(rows) > PER_PAGE else 0
    return AuditPage(rows[:PER_PAGE], filters, following)


def filtered_entries(project: Project | None, filters: AuditFilters) -> QuerySet[AuditEntry]:
    """The entries of a project, or all, the newest first. Raises Http404 for an invalid date."""
    entries = AuditEntry.objects.select_related("project", "token").order_by("-pk")
    if project:
        entries = entries.filter(project=project)
    if filters.project:
        entries = entries.filter(project__slug=filters.project)
    if filters.person:
        entries = entries.filter(name=filters.person)
    if filters.action:
        entries = entries.filter(action__startswith=filters.action)
    if filters.since:
        entries = entries.filter(at__gte=midnight(filters.since))
    if filters.until:
        entries = entries.filter(at__lt=midnight(filters.until) + timedelta(days=1))
    return entries.filter(pk__lt=filters.before) if filters.before else entries


def number_or_404(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise Http404(f"There is no entry {text[:50]!r}.")
    return int(text)


def audit_document(project: Project | None, query: QueryDict) -> dict[str, Any]:
    """The newest entries that fit as JSON. ``before``: what the next file begins with; 0: there is none."""
    rows = list(filtered_entries(project, AuditFilters.of(query))[: MOST_VALUES + 1])
    following = rows[MOST_VALUES - 1].pk if len(rows) > MOST_VALUES else 0
    return {"schema": "speedtrack.audit/1", "before": following, "entries": list(map(entry_of, rows[:MOST_VALUES]))}


def entry_of(entry: AuditEntry) -> dict[str, Any]:
    return {
        "id": entry.pk,
        "at": entry.at,
        "who": entry.name,
        "door": entry.door,
        "token": entry.token.name if entry.token else None,
        "project": entry.project.slug if entry.project else None,
        "action": entry.action,
        "target": entry.target,
        "changes": entry.changes,
    }


def csv_rows(project: Project | None, query: QueryDict) -> Iterator[list[Any]]:
    yield ["id", "at", "who", "door", "token", "project", "action", "target", "changes"]
    for entry in filtered_entries(project, AuditFilters.of(query))[:MOST_VALUES]:
        row = entry_of(entry)
        changes = "; ".join(f"{field}: {before} -> {after}" for field, (before, after) in entry.changes.items())
        yield [*map(harmless, list(row.values())[:-1]), harmless(changes)]


def harmless(value: Any) -> Any:
    """The value in a form that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t") else value
