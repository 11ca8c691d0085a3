"""Search: projects, commits, benchmarks, alerts, machines and annotations by a few words, a sha or a number."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from itertools import groupby, islice
from operator import and_, attrgetter, or_
from typing import Any

from django.db import connection
from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Subquery, When
from django.urls import reverse
from django.utils.text import Truncator

from speedtrack.accounts.access import Access
from speedtrack.alerts.models import Alert, ChangePoint
from speedtrack.alerts.models.alerts import AlertQuerySet
from speedtrack.benchmarks.metrics import HEADLINE, METRICS
from speedtrack.benchmarks.models import Benchmark
from speedtrack.ground.texts.markdown import plain_of
from speedtrack.projects.models import Annotation, Project
from speedtrack.runs.models import Machine, Series
from speedtrack.web.addresses import alert_path, commit_path, project_path, timeline_path

FOUND = 20  # of each kind on the page
SUGGESTED = 5  # while somebody types
LONGEST_TEXT = 100
TITLE = 100  # characters of an annotation
SHORTEST_WORD, SHORTEST_SHA = 2, 4
NEWEST_COMMITS = 5000  # of each project, whose subjects are searched
LARGEST_ID = 2**63 - 1
SHA = re.compile(r"[0-9a-f]{4,64}")
SPECIAL = re.compile(r"[%_\\]")  # in patterns of LIKE
ALERT = re.compile(r"(?:alert\s*)?#?(\d{1,19})", re.IGNORECASE)
# The upper end of a sha's prefix: no digit follows "f".
COMMITS_BY_SHA = """
    SELECT pr.slug, pr.name, c.sha, c.subject, c.author_name, c.committed_at
      FROM (SELECT * FROM projects_project WHERE id <> ALL (%(hidden)s)) pr
CROSS JOIN LATERAL (SELECT * FROM projects_commit
                     WHERE project_id = pr.id AND sha >= %(sha)s AND sha < %(sha)s || 'g' ORDER BY sha LIMIT %(most)s) c
  ORDER BY pr.name, c.sha
"""
COMMITS_BY_SUBJECT = """
    SELECT pr.slug, pr.name, c.sha, c.subject, c.author_name, c.committed_at
      FROM (SELECT * FROM projects_project WHERE id <> ALL (%(hidden)s)) pr
CROSS JOIN LATERAL (SELECT * FROM (SELECT * FROM projects_commit
                                    WHERE project_id = pr.id ORDER BY committed_at DESC LIMIT %(newest)s) newest
                     WHERE lower(subject) LIKE ALL (%(patterns)s) LIMIT %(most)s) c
  ORDER BY c.committed_at DESC
"""


@dataclass(frozen=True)
class Hit:
    """A search result. ``at``: the time of a commit."""

    kind: str
    title: str
    detail: str
    url: str
    at: datetime | None = None


@dataclass(frozen=True)
class SearchPage:
    text: str
    hits: list[Hit]

    @property
    def kinds(self) -> list[tuple[str, list[Hit]]]:
        return [(kind, list(hits)) for kind, hits in groupby(self.hits, key=attrgetter("kind"))]


def load(text: str, access: Access, most: int = FOUND) -> SearchPage:
    """The results for the words of a text, at most ``most`` of each kind. It takes seven queries."""
    text = " ".join(text[:LONGEST_TEXT].split())
    terms = text.split()
    hits: list[Hit] = []
    if text:
        finders = (projects, alerts, commits_by_sha, benchmarks, machines, annotations, commits_by_subject)
        hits = [hit for finder in finders for hit in islice(finder(terms, most, access), most)]
    return SearchPage(text, list({hit.url: hit for hit in reversed(hits)}.values())[::-1])


def projects(terms: list[str], most: int, access: Access) -> Iterator[Hit]:
    matches = Project.objects.filter(*(Q(name__icontains=term) | Q(slug__icontains=term) for term in terms))
    matches = access.among(matches, "pk")
    for slug, name, url in matches.order_by("name").values_list("slug", "name", "url")[:most]:
        yield Hit("project", name, url, project_path(slug))


def alerts(terms: list[str], most: int, access: Access) -> Iterator[Hit]:
    """The alert with this number, otherwise the newest ones that match all words."""
    if number := ALERT.fullmatch(" ".join(terms)):
        matches = Alert.objects.filter(pk=min(int(number[1]), LARGEST_ID))
    elif max(map(len, terms)) >= SHORTEST_WORD:
        matches = alerts_about(terms)
    else:
        return
    rows = access.among(matches).order_by("-pk").values_list("pk", "status", "project__name", "commit__subject")
    for pk, status, project, subject in rows[:most]:
        yield Hit("alert", f"Alert {pk}", f"{project}, {status}: {subject}", alert_path(pk))


def alerts_about(terms: list[str]) -> AlertQuerySet:
    """Alerts that match each of the words by their state, commit, benchmarks and metrics.

    Names of the project and of machines may be among the words, but do not suffice.
    """
    own = [Q(Exists(changes_about(term))) | of_commit_or_state(term.lower()) for term in terms]
    each = reduce(and_, (condition | of_place(term) for condition, term in zip(own, terms, strict=True)))
    standing: AlertQuerySet = Alert.objects.standing()
    return standing.filter(each & reduce(or_, own))


def of_commit_or_state(term: str) -> Q:
    commit = Q(commit__subject__icontains=term) | Q(commit__author_name__icontains=term)
    if term == "open":
        return commit | Q(status__in=Alert.OPEN)
    return commit | Q(status=term) | (Q(improvement=True) if term == "improvement" else Q())


def of_place(term: str) -> Q:
    machines = ChangePoint.objects.filter(alert=OuterRef("pk"), series__machine__name__icontains=term)
    return Q(project__name__icontains=term) | Q(project__slug__icontains=term) | Q(Exists(machines))


def changes_about(term: str) -> QuerySet[ChangePoint]:
    metrics = [name for name, metric in METRICS.items() if term.lower() in f"{name} {metric.title}".lower()]
    about = Q(series__benchmark__name__icontains=term) | Q(series__metric__in=metrics)
    return ChangePoint.objects.filter(about, alert=OuterRef("pk"))


def commits_by_sha(terms: list[str], most: int, access: Access) -> Iterator[Hit]:
    sha = terms[0].lower()
    if len(terms) == 1 and SHA.fullmatch(sha):
        yield from commit_hits(COMMITS_BY_SHA, access, sha=sha, most=most)


def commits_by_subject(terms: list[str], most: int, access: Access) -> Iterator[Hit]:
    """Those of the newest commits whose subject has all words."""
    if max(map(len, terms)) >= SHORTEST_WORD:
        patterns = ["%" + SPECIAL.sub(r"\\\g<0>", term.lower()) + "%" for term in terms]
        yield from commit_hits(COMMITS_BY_SUBJECT, access, patterns=patterns, newest=NEWEST_COMMITS, most=most)


def commit_hits(query: str, access: Access, **parameters: Any) -> Iterator[Hit]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters | {"hidden": list(access.hidden)})
        rows = cursor.fetchall()
    for slug, project, sha, subject, author, at in rows:
        yield Hit("commit", f"{sha[:10]} {subject}", f"{project}, {author}", commit_path(slug, sha), at)


def benchmarks(terms: list[str], most: int, access: Access) -> Iterator[Hit]:
    """The measured benchmarks by their names and those of their projects; rungs of ladders last."""
    if max(map(len, terms)) < SHORTEST_WORD:
        return
    usual_first = Case(When(metric=HEADLINE, then=0), default=1)
    metric = Series.objects.filter(benchmark=OuterRef("pk")).order_by(usual_first, "pk").values("metric")[:1]
    matches = Benchmark.objects.filter(*(Q(name__icontains=term) | Q(project__slug__icontains=term) for term in terms))
    matches = access.among(matches).annotate(metric=Subquery(metric)).filter(metric__isnull=False)
    rows = matches.order_by("ladder", "project__name", "name").values_list(
        "project__slug", "project__name", "name", "metric"
    )
    for slug, project, name, metric_name in rows.distinct()[:most]:
        yield Hit("benchmark", name, f"{project}, {METRICS[metric_name].title}", timeline_path(slug, name, metric_name))


def machines(terms: list[str], most: int, access: Access) -> Iterator[Hit]:
    matches = Machine.objects.filter(*(Q(name__icontains=term) for term in terms)).order_by("name")
    for name in matches.values_list("name", flat=True)[:most]:
        yield Hit("machine", name, "", reverse("machine", args=[name]))


def annotations(terms: list[str], most: int, access: Access) -> Iterator[Hit]:
    """The newest annotations whose text has all words; those of a commit link to its page."""
    if max(map(len, terms)) < SHORTEST_WORD:
        return
    matches = access.among(Annotation.objects.filter(*(Q(text__icontains=term) for term in terms))).order_by("-pk")
    rows = matches.values_list("pk", "text", "project__slug", "project__name", "commit__sha", "moment")
    for pk, text, slug, project, sha, moment in rows[:most]:
        if sha:
            page, position = commit_path(slug, sha), sha[:10]
        else:
            page = reverse("annotations", args=[slug]) if slug else reverse("all-annotations")
            position = f"{moment:%Y-%m-%d %H:%M} UTC"
        title = Truncator(plain_of(text)).chars(TITLE)
        yield Hit("annotation", title, f"{project or 'all projects'}, {position}", f"{page}#annotation-{pk}")


def search_document(page: SearchPage) -> dict[str, Any]:
    return {"schema": "speedtrack.search/1", "text": page.text, "results": list(map(hit_document, page.hits))}


def hit_document(hit: Hit) -> dict[str, str]:
    return {"kind": hit.kind, "title": hit.title, "detail": hit.detail, "url": hit.url}
