"""An alert: what got slower by how much, the evidence, and the decisions of people."""

from collections import defaultdict
from dataclasses import dataclass

from django.contrib.auth.models import User
from django.db.models import Prefetch, Q
from django.http import Http404

from speedtrack.alerts import counts, floors, muting, pairing
from speedtrack.alerts.counts import FunctionTable
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, Mute, NoiseFloor, Verdict
from speedtrack.alerts.suite_effect import SuiteEffect, suite_effect
from speedtrack.alerts.triage import CHOICES
from speedtrack.benchmarks import numbers
from speedtrack.projects.models import Commit
from speedtrack.runs.models import Run
from speedtrack.web.drawing.plots import Forest, Pairs, Whisker
from speedtrack.web.pages import changes

Pair = tuple[float, float]
MOST_CANDIDATES = 20
MOST_PAIRS = 8  # changes whose pairs are shown at once: the worst
MERGE_TARGETS = 50  # the newest of the project's alerts that an alert may be merged into


@dataclass(frozen=True)
class Evidence:
    """One change point with the pairs (before, after) that confirmed it, in the order of measuring.

    ``ends``: the verdict on the two commits between which the change lies. ``steps``: all verdicts on the way there.
    ``whisker``: its ratio in the forest of all.
    """

    change_point: ChangePoint
    whisker: Whisker
    ends: Verdict | None
    steps: list[Verdict]
    pairs: list[Pair]
    runs: list[Run]
    plot: Pairs | None
    floor: NoiseFloor | None
    mute: Mute | None

    @property
    def summary(self) -> str:
        cp = self.change_point
        return f"{numbers.effect(cp.metric, cp.is_slowdown)}: {numbers.change(cp.ratio)}"


@dataclass(frozen=True)
class AlertPage:
    """``candidates``: the newest MOST_CANDIDATES of the commits that may be the cause, newest first.

    ``pairs``: the evidence that is shown with its pairs.
    """

    alert: Alert
    candidates: list[Commit]
    branches: list[str]
    evidence: list[Evidence]
    pairs: list[Evidence]
    forest: Forest
    others: list[ChangePoint]
    events: list[AlertEvent]
    people: list[User]
    choices: list[str]
    suite: SuiteEffect | None
    fixed_on: list[str]
    not_fixed_on: list[str]
    merge_targets: list[Alert]
    which_moved: list[str]
    function_tables: list[FunctionTable]

    @property
    def candidates_left_out(self) -> int:
        return self.alert.width - len(self.candidates)

    @property
    def pairs_left_out(self) -> int:
        return len(self.evidence) - len(self.pairs)

    @property
    def worst(self) -> Evidence | None:
        return self.evidence[0] if self.evidence else None


def alert_or_404(pk: int) -> Alert:
    related = ("project", "branch", "before", "commit", "assignee", "fixed_by", "reverted_by")
    alert: Alert | None = Alert.objects.with_range().select_related(*related).filter(pk=pk).first()
    if alert is None:
        raise Http404(f"There is no alert {pk}.")
    return alert


def load(alert: Alert, can_decide: bool = True, all_pairs: bool = False) -> AlertPage:
    """``can_decide``: whoever sees the page gets the form for decisions. ``all_pairs``: not only those of the worst."""
    runs = Run.objects.select_related("commit", "base", "machine").defer("machine__facts")
    found = changes.change_points().filter(Q(alert=alert) | Q(commit=alert.commit))
    near = list(found.order_by("id").prefetch_related(Prefetch("runs", runs)))
    points = sorted((cp for cp in near if cp.alert_id == alert.pk), key=lambda cp: cp.rank)
    shown = len(points) if all_pairs else MOST_PAIRS
    forest = Forest.of([(cp.ratio, cp.low, cp.high) for cp in points])
    evidence = evidence_of(points, forest, shown)
    fixed_on, not_fixed_on = alert.branches_fixed() if alert.fixed_by_id else ([], [])
    return AlertPage(
        alert=alert,
        candidates=candidates_of(alert),
        branches=alert.branch_names(),
        evidence=evidence,
        pairs=evidence[:shown],
        forest=forest,
        others=[cp for cp in near if cp.alert_id != alert.pk],
        events=list(alert.events.select_related("who").order_by("pk")),
        people=list(User.objects.filter(is_active=True).order_by("username")[:200]) if can_decide else [],
        choices=[alert.status, *(c.value for c in CHOICES if c != alert.status)],
        suite=suite_effect(alert, points) if points else None,
        fixed_on=fixed_on,
        not_fixed_on=not_fixed_on,
        merge_targets=merge_targets_of(alert) if can_decide else [],
        which_moved=counts.which_moved(points),
        function_tables=counts.function_tables(points),
    )


def candidates_of(alert: Alert) -> list[Commit]:
    if alert.width == 1:
        return [alert.commit]
    return list(alert.candidates().reverse()[:MOST_CANDIDATES])


def merge_targets_of(alert: Alert) -> list[Alert]:
    neighbours = Alert.objects.standing().filter(project=alert.project).exclude(pk=alert.pk)
    return list(neighbours.select_related("commit").order_by("-pk")[:MERGE_TARGETS])


def evidence_of(points: list[ChangePoint], forest: Forest, shown: int) -> list[Evidence]:
    """The evidence of all change points, the first ``shown`` with their pairs.

    The number of queries does not depend on how many there are.
    """
    runs = {run.pk: run for cp in points[:shown] for run in cp.runs.all()}
    verdicts: dict[int, list[Verdict]] = defaultdict(list)
    for verdict in Verdict.objects.filter(change_point__in=points).select_related("base", "commit").order_by("id"):
        verdicts[verdict.change_point_id].append(verdict)
    sides = pairing.samples_by_side(runs)
    known, mutes = floors.newest_floors(cp.series_id for cp in points[:shown]), muting.mutes_of(points)
    found = []
    for cp, whisker in zip(points, forest.rows, strict=True):
        steps = verdicts[cp.pk]
        ends = next((step for step in steps if step.answer == Verdict.Answer.DIFFERENT), None)
        measured = sorted(cp.runs.all(), key=lambda r: r.pk)
        showing = [r for r in measured if ends and (r.base_id, r.commit_id) == (ends.base_id, ends.commit_id)]
        pairs = [pair for run in showing for pair in pairing.pairs_of(sides, run.pk, cp.series)]
        plot = Pairs.of(pairs, cp.metric) if pairs else None
        floor, mute = known.get(cp.series_id), mutes.get(cp.pk)
        found.append(Evidence(cp, whisker, ends, steps, pairs, measured, plot, floor, mute))
    return found
