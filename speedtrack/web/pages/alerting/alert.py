"""An alert: what got slower by how much, the evidence, and the decisions of people."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Exists, F, OuterRef, Prefetch, Q, QuerySet, prefetch_related_objects
from django.http import Http404

from speedtrack.alerts.headlines import DirectionSummary, headline, summaries_of
from speedtrack.alerts.hunks.findings import hunks_of
from speedtrack.alerts.lines import lines, spreads
from speedtrack.alerts.lines.lines import LinePoint
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, HunkTrial, Mute, NoiseFloor, Verdict
from speedtrack.alerts.pairs import counts, pairing
from speedtrack.alerts.pairs.counts import FunctionTable
from speedtrack.alerts.pairs.sizes import is_part_of
from speedtrack.alerts.triage import muting, triage
from speedtrack.alerts.triage.suite_effect import SuiteEffect, suite_effect
from speedtrack.alerts.triage.triage import CHOICES
from speedtrack.benchmarks import numbers
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.judging.instructions import Work, is_time_only, sentences_of, works_of
from speedtrack.judging.layouts import layout_sentences
from speedtrack.judging.whole import WholeEffect, whole_effect_of
from speedtrack.projects.models import Commit
from speedtrack.reports import alerts as reports
from speedtrack.reports.readings.lines import AlertLines, lines_of_alert
from speedtrack.runs.models import Reason, Result, Run
from speedtrack.web.drawing.small.excerpts import Excerpt
from speedtrack.web.drawing.small.plots import Forest, Whisker
from speedtrack.web.drawing.small.strips import SideStrips
from speedtrack.web.pages.alerting import advice, narrowing
from speedtrack.web.pages.alerting.narrowing import Narrowing, PathRow

Pair = tuple[float, float]
MOST_CANDIDATES = 20
MOST_PAIRS = 8  # changes whose pairs are shown unless others are asked for: the worst
PAIRS_OF_PAGE = 24  # the same where they are asked for
MOST_EXCERPTS = 12  # changes that are shown with their line
MERGE_TARGETS = 50  # the newest of the project's alerts that an alert may be merged into
#: What the page shows of a change. Columns of its commits would be read once for each of hundreds of changes.
SHOWN_COLUMNS = (
    *("alert", "branch", "before", "commit", "kind", "reference", "status", "ratio", "low", "high", "from_zero"),
    *("note", "series__project", "series__environment", "series__metric"),
    *("series__benchmark__name", "series__machine__name"),
)
AROUND = 8  # commits to each side of the range in an excerpt


@dataclass(frozen=True)
class ChangeEvidence:
    """One change point with the pairs (before, after) that confirmed it, in the order of measuring.

    ``ends``: the verdict on the two commits between which the change lies. ``steps``: all verdicts on the way there.
    ``whisker``: its ratio in the forest of all. ``excerpt``: its line around the range.
    """

    change_point: ChangePoint
    work: Work
    whisker: Whisker
    ends: Verdict | None
    steps: list[Verdict]
    pairs: list[Pair]
    runs: list[Run]
    strips: SideStrips | None
    floor: NoiseFloor | None
    mute: Mute | None
    excerpt: Excerpt | None

    @property
    def is_part(self) -> bool:
        """Return whether the pairs show the change together with a neighbouring one."""
        return self.ends is not None and is_part_of(self.change_point, self.ends)

    @property
    def summary(self) -> str:
        cp = self.change_point
        return f"{numbers.effect(cp.metric, cp.is_slowdown)}: {cp.change_in_words}"


@dataclass(frozen=True)
class AlertPage:
    """``candidates``: the newest MOST_CANDIDATES of the commits that may be the cause, newest first.

    ``shown``: the ranks of the changes, from 0, that are shown with their pairs. ``certainty`` and ``todo``: sentences.
    """

    alert: Alert
    candidates: Sequence[Commit | PathRow]
    branches: list[str]
    evidence: list[ChangeEvidence]
    shown: range
    forest: Forest
    others: list[ChangePoint]
    events: list[AlertEvent]
    choices: list[str]
    suite: SuiteEffect | None
    whole: WholeEffect | None
    fixed_on: list[str]
    not_fixed_on: list[str]
    which_moved: list[str]
    is_time_only: bool
    layouts: list[str]
    function_tables: list[FunctionTable]
    lines: AlertLines
    narrowing: Narrowing | None
    people: list[User] = field(default_factory=list)
    merge_targets: list[Alert] = field(default_factory=list)

    @property
    def candidates_left_out(self) -> int:
        return self.alert.width - len(self.candidates)

    @property
    def pairs(self) -> list[ChangeEvidence]:
        return self.evidence[self.shown.start : self.shown.stop]

    @property
    def pairs_left_out(self) -> int:
        """How many come after those that are shown; the first of them is ``pairs_after``, counted from 1."""
        return max(0, len(self.evidence) - self.shown.stop)

    @property
    def pairs_after(self) -> int:
        return self.shown.stop + 1

    @property
    def worst(self) -> ChangeEvidence | None:
        return self.evidence[0] if self.evidence else None

    @property
    def summaries(self) -> list[DirectionSummary]:
        return summaries_of([evidence.change_point for evidence in self.evidence])

    @property
    def headline(self) -> str:
        return headline([evidence.change_point for evidence in self.evidence])

    @property
    def certainty(self) -> list[str]:
        steps = self.narrowing.asked if self.narrowing else 0
        points = [evidence.change_point for evidence in self.evidence]
        return advice.certainty(points, self.worst.ends if self.worst else None, steps)

    @property
    def todo(self) -> list[str]:
        return advice.what_to_do(self.alert, self.function_tables, self.not_fixed_on, self.events)


def known_alert(pk: int) -> QuerySet[Alert]:
    """An alert, and what it has to look for: mutes, profiles, a trial of hunks, its whole suite, layouts."""
    related = ("project", "branch", "before", "commit", "assignee", "fixed_by", "reverted_by")
    mutes = Mute.objects.in_force().filter(project=OuterRef("project"))
    profiled = Run.objects.filter(reason=Reason.PROFILE, base=OuterRef("before"), commit=OuterRef("commit"))
    trials = HunkTrial.objects.filter(before=OuterRef("before"), commit=OuterRef("commit"))
    effect = Run.objects.filter(reason=Reason.EFFECT, base=OuterRef("before"), commit=OuterRef("commit"))
    has = {"has_mutes": Exists(mutes), "has_profiles": Exists(profiled), "has_trial": Exists(trials)}
    has["has_effect"] = Exists(effect)
    has["has_layouts"] = Exists(Result.objects.filter(attempt__run__change_points__alert=OuterRef("pk"), layouts__gt=0))
    return Alert.objects.with_range().annotate(**has).select_related(*related).filter(pk=pk)


def reported_alert(pk: int) -> QuerySet[Alert]:
    """An alert with all that its document shows."""
    return reports.known_alerts().filter(pk=pk)


ALERT, REPORTED_ALERT = PreparedQuery(known_alert), PreparedQuery(reported_alert)


def alert_or_404(pk: int, prepared: PreparedQuery[Alert] = ALERT) -> Alert:
    """The alert with this number. Raises Http404 if it does not exist."""
    alerts = prepared.rows(pk=pk)
    if not alerts:
        raise Http404(f"There is no alert {pk}.")
    return alerts[0]


def shown_by(pairs: str) -> range:
    """The ranks, from 0, of the changes whose pairs an address asks for by the first of them, counted from 1."""
    if not pairs:
        return range(MOST_PAIRS)
    begin = max(0, int(pairs) - 1) if pairs.isdecimal() and len(pairs) < 6 else 0
    return range(begin, begin + PAIRS_OF_PAGE)


def load(alert: Alert, can_decide: bool = True, shown: range = range(MOST_PAIRS)) -> AlertPage:
    """The page of an alert.

    ``can_decide``: show the form for decisions. ``shown``: the ranks of the changes that are shown with their pairs.
    """
    near = changes_near(alert)
    points = ranked_changes(alert, near)
    detailed = [cp for rank, cp in enumerate(points) if rank == 0 or rank in shown]
    runs = Run.objects.select_related("commit", "base").only("reason", "status", "commit__sha", "base__sha")
    prefetch_related_objects(detailed, Prefetch("runs", runs))
    forest = Forest.of([(cp.ratio, cp.low, cp.high) for cp in points])
    effect = whole_effect_of(alert) if getattr(alert, "has_effect", True) else None
    by_history = bool(points) and not (effect and effect.total)
    works = works_of(points)
    verdicts = verdicts_of(points, detailed)
    settling = {verdict.change_point_id: verdict for verdict in verdicts if verdict.answer == Verdict.Answer.DIFFERENT}
    excerpts = excerpts_of(alert, points[:MOST_EXCERPTS])
    evidence = evidence_of(alert, works, verdicts, forest, detailed, excerpts)
    fixed_on, not_fixed_on = alert.branches_fixed() if alert.fixed_by_id else ([], [])
    worst = evidence[0] if evidence else None
    path = narrowing.path_of(alert, worst.ends if worst else None)
    function_tables = counts.function_tables(points, settling)
    return AlertPage(
        alert=alert,
        candidates=candidates_of(alert, path),
        branches=alert.branch_names(),
        evidence=evidence,
        shown=shown,
        forest=forest,
        others=[cp for cp in near if cp.alert_id != alert.pk],
        events=list(alert.events.select_related("who").order_by("pk")),
        choices=[alert.status, *(c.value for c in CHOICES if c != alert.status)],
        suite=suite_effect(alert, points) if by_history else None,
        fixed_on=fixed_on,
        not_fixed_on=not_fixed_on,
        whole=effect,
        which_moved=sentences_of(works),
        is_time_only=is_time_only(works),
        layouts=layout_sentences(works, settling, getattr(alert, "has_layouts", True)),
        function_tables=function_tables,
        lines=lines_of_alert(alert, function_tables, hunks_of(alert) if getattr(alert, "has_trial", True) else []),
        narrowing=narrowed(alert, path, worst) if worst else None,
        people=list(triage.assignable(alert)[:200]) if can_decide else [],
        merge_targets=merge_targets_of(alert) if can_decide else [],
    )


def changes_near(alert: Alert) -> list[ChangePoint]:
    """The changes of an alert, and others at its commit, with the columns that the page shows."""
    near = ChangePoint.objects.filter(Q(alert=alert) | Q(commit=alert.commit)).order_by("id")
    rows = list(near.select_related("series__benchmark", "series__machine").only(*SHOWN_COLUMNS))
    for cp in rows:
        if cp.alert_id == alert.pk:
            cp.alert = alert
    return rows


def ranked_changes(alert: Alert, near: Iterable[ChangePoint]) -> list[ChangePoint]:
    """Those of these changes that are the alert's, the worst first."""
    return sorted((cp for cp in near if cp.alert_id == alert.pk), key=lambda cp: cp.rank)


def narrowed(alert: Alert, path: Sequence[PathRow], worst: ChangeEvidence) -> Narrowing | None:
    return narrowing.narrowing_of(alert, path, worst.steps, worst.runs, worst.change_point.is_slowdown)


def excerpts_of(alert: Alert, points: Sequence[ChangePoint]) -> dict[int, Excerpt]:
    """By change point: its line around the alert's range."""
    if len(alert.ends) < 2:
        return {}
    first, last = alert.ends
    series = {cp.series_id for cp in points}
    of_series: dict[int, list[LinePoint]] = defaultdict(list)
    for point in lines.points(series, alert.branch, max(0, first - AROUND), last + AROUND):
        of_series[point.series_id].append(point)
    return {cp.pk: Excerpt.of(of_series[cp.series_id], alert.ends) for cp in points if of_series[cp.series_id]}


def candidates_of(alert: Alert, path: Sequence[PathRow]) -> Sequence[Commit | PathRow]:
    if alert.width == 1:
        return [alert.commit]
    first, last = alert.ends
    inside = [row for row in path if first < row.number <= last]
    if len(inside) == alert.width:
        return inside[::-1][:MOST_CANDIDATES]
    return list(alert.candidates().reverse()[:MOST_CANDIDATES])  # a person chose commits outside of the bracket


def merge_targets_of(alert: Alert) -> list[Alert]:
    neighbours = Alert.objects.standing().filter(project=alert.project).exclude(pk=alert.pk)
    return list(neighbours.select_related("commit").order_by("-pk")[:MERGE_TARGETS])


def verdicts_of(points: Sequence[ChangePoint], detailed: Sequence[ChangePoint]) -> list[Verdict]:
    """The verdicts on the ``detailed`` changes, and those that settled the others, oldest first.

    Their commits, which are few, are shared.
    """
    condition = Q(change_point__in=detailed) | Q(change_point__in=points, answer=Verdict.Answer.DIFFERENT)
    columns = F("base__sha"), F("commit__sha")
    verdicts: list[Any] = list(
        Verdict.objects.filter(condition).annotate(of_base=columns[0], of_commit=columns[1]).order_by("id")
    )
    for verdict in verdicts:
        verdict.base = Commit(pk=verdict.base_id, sha=verdict.of_base)
        verdict.commit = Commit(pk=verdict.commit_id, sha=verdict.of_commit)
    return verdicts


def evidence_of(
    alert: Alert,
    works: list[Work],
    verdicts: Iterable[Verdict],
    forest: Forest,
    detailed: Sequence[ChangePoint],
    excerpts: dict[int, Excerpt],
) -> list[ChangeEvidence]:
    """The evidence of all change points, the ``detailed`` ones with their verdicts, runs and pairs.

    The number of queries does not depend on how many there are.
    """
    points = [work.change for work in works]
    runs = {run.pk: run for cp in detailed for run in cp.runs.all()}
    by_change: dict[int, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_change[verdict.change_point_id].append(verdict)
    benchmarks, metrics = {cp.series.benchmark_id for cp in detailed}, {cp.series.metric for cp in detailed}
    pairs_by_run = pairing.pairs_by_run(runs, series__benchmark__in=benchmarks, series__metric__in=metrics)
    floors = spreads.newest_floors(cp.series_id for cp in detailed)
    with_details = {cp.pk for cp in detailed}
    mutes = muting.mutes_of(points) if getattr(alert, "has_mutes", True) else {}
    evidence = []
    for work, whisker in zip(works, forest.rows, strict=True):
        cp = work.change
        is_detailed = cp.pk in with_details
        steps = by_change[cp.pk] if is_detailed else []
        ends = next((step for step in steps if step.answer == Verdict.Answer.DIFFERENT), None)
        own_runs = sorted(cp.runs.all(), key=lambda r: r.pk) if is_detailed else []
        showing = [r for r in own_runs if ends and (r.base_id, r.commit_id) == (ends.base_id, ends.commit_id)]
        keys = [(run.pk, cp.series.benchmark_id, cp.series.metric) for run in showing]
        pairs = [pair for key in keys for pair in pairs_by_run.get(key, ())]
        strips = SideStrips.of(pairs, cp.metric) if pairs else None
        of_series = floors.get(cp.series_id), mutes.get(cp.pk), excerpts.get(cp.pk)
        evidence.append(ChangeEvidence(cp, work, whisker, ends, steps, pairs, own_runs, strips, *of_series))
    return evidence


def alert_document(alert: Alert) -> dict[str, Any]:
    """The JSON document of an alert: that of the API, with a key for its schema."""
    return reports.AlertDetails.of(alert).named()
