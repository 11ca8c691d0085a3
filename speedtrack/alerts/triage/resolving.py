"""Detect that an alert is fixed: later commits have restored the level of each of its series, and measurements show it.

A series (benchmark, metric, machine, environment) that got worse is back if

1. later confirmed changes of it undo the alert's change; or
2. a later commit is known to undo it (another series of the alert is back with it, or its message says that it reverts
   a commit of the range), and the newest clean points of the line since then are on the old level, even before the
   detector suspects anything.

Back means: what remains is less than the smallest effect that matters or than the noise, and never more than a part of
the change. The alert is fixed when every series that got worse is back. Until then it stays open, and says which ones
are back and which are not; a series that is measured no more cannot show anything, so a person decides about it. What
got better and is lost again is no part of this: it is a change of its own. What a person decided stays. An alert that
SpeedTrack has marked as fixed is reopened if a further series joins that is not back.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from speedtrack.alerts.detection.history import why_not_measurable
from speedtrack.alerts.lines import lines
from speedtrack.alerts.lines.effects import smallest_effect
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint
from speedtrack.alerts.pairs.brackets import commits_between, positions_of
from speedtrack.alerts.triage.raising import lock_project, write_event
from speedtrack.alerts.triage.restorations import NOT_FIXED, restoration_in_words
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import SetMember
from speedtrack.ground.postgres.preparedquery import RareRows
from speedtrack.projects.models import Branch, Commit, Position
from speedtrack.runs.models import Measurement, Run, Series

Kind = AlertEvent.Kind
BACK = 0.5  # what may remain of a change that was undone, at most, as a share of it
NEAR = 0.25  # the same, where only the line shows it
AFTER_REVERT = 3  # clean points since a commit that undoes a change, which show its level
BEFORE = 10  # clean points before a change that show the old level
NEWEST_RUNS = 10  # of a machine, which show what it measures now


@dataclass(frozen=True)
class Return:
    """The commit that undid a change, with the evidence for it."""

    commit: Commit
    words: str


@dataclass(frozen=True)
class Restoration:
    """The series of an alert that got worse: those that are ``back``, and the others, in words."""

    back: dict[str, Return]
    not_back: list[str]
    unmeasured: list[str]

    @property
    def is_complete(self) -> bool:
        return bool(self.back) and not self.not_back and not self.unmeasured

    @property
    def sentence(self) -> str:
        """Which series are back, and which are not."""
        clauses = [f"{', '.join(self.back)} {is_or_are(len(self.back))} back on the old level"]
        if self.not_back:
            clauses.append(f"{', '.join(self.not_back)} {is_or_are(len(self.not_back))} not")
        if self.unmeasured:
            verb = is_or_are(len(self.unmeasured))
            clauses.append(f"{', '.join(self.unmeasured)} {verb} measured no more, so a person has to decide about it")
        return "; ".join(clauses)


def is_or_are(count: int) -> str:
    return "is" if count == 1 else "are"


def resolve_alerts() -> int:
    """Mark fixed alerts, reopen those that are not fixed any more, and note reverts that wait for their measurement.

    Return the number of fixed alerts.
    """
    fixed = 0
    related = ("project", "branch", "before", "commit")
    for alert in MAYBE_UNDONE.rows(*related):
        with isolated(*series_of(alert)):
            fixed += resolve_alert(alert)
    for alert in DOUBTED_SINCE_FIXED.rows(*related):
        with isolated(*series_of(alert)):
            check_fixed(alert)
    return fixed


def series_of(alert: Alert) -> list[Series]:
    return list(Series.objects.filter(change_points__alert=alert).distinct())


def resolve_alert(alert: Alert) -> bool:
    if alert.reverted_by_id is None:
        note_revert(alert)
    restoration = restoration_of(alert)
    if restoration.is_complete:
        return mark_fixed(alert, list(restoration.back.values()))
    if restoration.back:
        note_restoration(alert, restoration)
    return False


def restoration_of(alert: Alert) -> Restoration:
    """Which of the series that got worse are back on the level before the alert's range.

    Empty if nothing is known to have undone anything: the lines are read, and the others listed, only then.
    """
    worse = [cp for cp in members_of(alert) if cp.is_slowdown]
    by_changes = {cp.pk: recovery for cp in worse if (recovery := later_return(cp, alert.reverted_by))}
    undone_by = {recovery.commit.pk: recovery.commit for recovery in by_changes.values()}
    if alert.reverted_by:
        undone_by[alert.reverted_by.pk] = alert.reverted_by
    back: dict[str, Return] = {}
    not_back: list[str] = []
    unmeasured: list[str] = []
    for cp in worse if undone_by else ():
        name = series_in_words(cp.series, worse)
        if recovery := by_changes.get(cp.pk) or shown_return(cp, list(undone_by.values())):
            back.setdefault(name, recovery)
        else:
            (unmeasured if is_measured_no_more(cp.series) else not_back).append(name)
    lost = {*not_back, *unmeasured}
    return Restoration(
        {name: recovery for name, recovery in back.items() if name not in lost},
        list(dict.fromkeys(not_back)),
        list(dict.fromkeys(unmeasured)),
    )


def series_in_words(series: Series, changes: Sequence[ChangePoint]) -> str:
    """Benchmark and metric; also the machine and the environment where the changes are of several."""
    name = f"{series.benchmark.name}, {METRICS[series.metric].title}"
    if len({cp.series.machine_id for cp in changes}) > 1:
        name += f" on {series.machine}"
    alike = {
        cp.series_id
        for cp in changes
        if (cp.series.benchmark.name, cp.series.metric, cp.series.machine_id)
        == (series.benchmark.name, series.metric, series.machine_id)
    }
    return f"{name} (series {series.pk})" if len(alike) > 1 else name


def is_measured_no_more(series: Series) -> bool:
    """Return whether new points of the series cannot come.

    Its machine is gone; its benchmark was removed; or the definition or the environment has changed, so that the points
    belong to another series.
    """
    if series.machine.retired_at is not None:
        return True
    if not series.machine.outside and why_not_measurable(series):
        return True
    points = Measurement.objects.filter(paired=False)
    newest = points.filter(series=series).order_by("-id").values_list("pk", flat=True).first() or 0
    alike = points.filter(
        series__project=series.project_id,
        series__machine=series.machine_id,
        series__metric=series.metric,
        series__benchmark__name=series.benchmark.name,
    )
    return alike.filter(pk__gt=newest).exclude(series=series).exists() or is_removed(series)


def is_removed(series: Series) -> bool:
    """Return whether the newest runs of the series' machine no longer measure its benchmark."""
    runs = Run.objects.own().filter(machine=series.machine_id).newest_first(series.project_id)
    newest = runs.values_list("benchmark_set", flat=True)[:NEWEST_RUNS]
    names = set(SetMember.objects.filter(benchmark_set__in=list(newest)).values_list("benchmark__name", flat=True))
    return bool(names) and series.benchmark.name not in names


def members_of(alert: Alert) -> list[ChangePoint]:
    related = ("series__benchmark", "series__machine", "series__project", "branch", "before", "commit")
    return list(alert.change_points.select_related(*related).order_by("id"))


def tolerance(cp: ChangePoint, noise: float, share: float) -> float:
    """The logarithm of what may remain of a change that was undone.

    That is the smallest effect that matters or the ``noise``, whichever is more; at most this share of the change.
    """
    return min(max(math.log1p(smallest_effect(cp.series)), noise), share * abs(math.log(cp.ratio)))


def later_return(cp: ChangePoint, revert: Commit | None) -> Return | None:
    """The later confirmed change of the series that restored the old level, on a branch with both changes.

    Of a range of commits that contains the ``revert``, that one did it.
    """
    if cp.ratio <= 0:
        return None
    excess, error = math.log(cp.ratio), log_half_width(cp) ** 2
    for later in later_changes(cp):
        excess += math.log(later.ratio)
        error += log_half_width(later) ** 2
        remains = excess if cp.ratio > 1 else -excess
        if remains <= tolerance(cp, math.sqrt(error), BACK):
            change = numbers.change(later.ratio)
            within = commits_between(later.branch, later.before_id, later.commit_id)
            by = revert if revert and within.filter(pk=revert.pk).exists() else later.commit
            return Return(by, f"{later.series.benchmark.name}, {later.metric.title} {change}")
    return None


def log_half_width(cp: ChangePoint) -> float:
    return (math.log(cp.high) - math.log(cp.low)) / 2 if 0 < cp.low <= cp.high else 0.0


def later_changes(cp: ChangePoint) -> list[ChangePoint]:
    """The confirmed changes of the series after this one, in the order of the first branch that has both.

    One that a person called invalid is left out: it brought nothing back.
    """
    same = ChangePoint.objects.filter(series=cp.series_id, status=ChangePoint.Status.CONFIRMED, ratio__gt=0)
    valid = same.exclude(alert__status=Alert.Status.INVALID)
    changes = list(valid.exclude(pk=cp.pk).select_related("series__benchmark", "branch", "before", "commit"))
    if not changes or cp.ratio <= 0:
        return []
    for branch in branches_of(cp):
        numbers = positions_of(branch, [cp.commit_id, *(o.commit_id for o in changes), *(o.before_id for o in changes)])
        behind = [
            (numbers[o.commit_id], o)
            for o in changes
            if o.commit_id in numbers and numbers.get(o.before_id, -1) >= numbers[cp.commit_id]
        ]
        if behind:
            return [change for _, change in sorted(behind, key=lambda pair: pair[0])]
    return []


def branches_of(cp: ChangePoint) -> list[Branch]:
    """The branches that contain the change, first the one on which it was found."""
    branches = Branch.objects.filter(positions__commit=cp.commit_id).order_by("id")
    return sorted(branches, key=lambda branch: (branch.deleted_at is not None, branch.pk != cp.branch_id))


def commits_that_revert(project: int | F, commit: int | F) -> QuerySet[Commit]:
    """The commits of a project's branches with this commit whose messages say that they revert another one."""
    here = Position.objects.filter(commit=OuterRef("pk"), branch__positions__commit=commit)
    return Commit.objects.filter(Exists(here), project=project).exclude(reverts=[])


def note_revert(alert: Alert) -> None:
    """Note the first later commit whose message says that it reverts one of the alert's commits."""
    shas = [commit.sha for commit in alert.candidates()] or [alert.commit.sha]
    for commit in commits_that_revert(alert.project_id, alert.commit_id).order_by("committed_at", "id"):
        if any(sha.startswith(name) for sha in shas for name in commit.reverts):
            names = Branch.objects.filter(positions__commit=commit, deleted_at=None).order_by("name")
            where = ", ".join(names.values_list("name", flat=True)) or "a deleted branch"
            alert.reverted_by = commit
            alert.save(update_fields=["reverted_by"])
            write_event(alert, Kind.NOTED, f"a revert, {commit.short}, is on {where}; waiting for its measurement")
            return


def shown_return(cp: ChangePoint, commits: Sequence[Commit]) -> Return | None:
    """The first of these commits since which the line of the series shows the old level; otherwise None."""
    return next((recovery for commit in commits if (recovery := measured_return(cp, commit))), None)


def measured_return(cp: ChangePoint, commit: Commit) -> Return | None:
    """The commit, if the line of the series shows the old level since then; otherwise None.

    If its first points still showed more than half of the change, another commit brought the old level back.
    """
    if cp.ratio <= 0:
        return None
    before, since = levels_around(cp, commit)
    if not before or len(since) < AFTER_REVERT:
        return None
    after, sign = since[-BEFORE:], 1 if cp.ratio > 1 else -1
    excess, at_first = ((median(points) - median(before)) * sign for points in (after, since[:AFTER_REVERT]))
    if excess > tolerance(cp, noise_of_levels(before, after), NEAR) or at_first > BACK * abs(math.log(cp.ratio)):
        return None
    level = f"{numbers.change(math.exp(median(after) - median(before)))} against before the change"
    return Return(commit, f"{cp.series.benchmark.name}, {cp.metric.title} over {len(after)} commits {level}")


def noise_of_levels(before: Sequence[float], after: Sequence[float]) -> float:
    """Half the width of the 95% interval of the difference of two medians of logarithms.

    Their points are taken to be normal; 1.4826 median deviations are a standard deviation (Rousseeuw and Croux, 1993),
    and the standard error of a median is 1.2533 times that of a mean.
    """
    deviations = [abs(value - median(side)) for side in (before, after) for value in side]
    return 1.96 * 1.2533 * 1.4826 * median(deviations) * math.sqrt(1 / len(before) + 1 / len(after))


def levels_around(cp: ChangePoint, commit: Commit) -> tuple[list[float], list[float]]:
    """The logarithms of the points before a change, and of all points since a commit that undoes it."""
    for branch in branches_of(cp):
        numbers = positions_of(branch, [commit.pk, cp.before_id, cp.commit_id])
        if len(numbers) == 3 and numbers[commit.pk] > numbers[cp.commit_id]:
            old, new = numbers[cp.before_id], numbers[commit.pk]
            points = lines.points([cp.series_id], branch, max(0, old - 5 * BEFORE))
            clean = [(p.position, math.log(p.value)) for p in points if not p.flags and p.value > 0]
            return [v for at, v in clean if at <= old][-BEFORE:], [v for at, v in clean if at >= new]
    return [], []


def note_restoration(alert: Alert, restoration: Restoration) -> None:
    """Note which series are back, if that is not the newest note about it."""
    note = NOT_FIXED + restoration.sentence
    if restoration_in_words(list(alert.events.order_by("pk"))) != note:
        write_event(alert, Kind.NOTED, note)


@transaction.atomic
def mark_fixed(alert: Alert, returns: list[Return]) -> bool:
    """Store that the alert is fixed. False if a person has decided about it meanwhile."""
    lock_project(alert.project)
    undone_by = {recovery.commit.pk: recovery.commit for recovery in returns}
    newest = max(undone_by.values(), key=lambda commit: (commit.committed_at, commit.pk))
    by = undone_by.get(alert.reverted_by_id or 0, newest)
    if Alert.objects.open().filter(pk=alert.pk).update(status=Alert.Status.FIXED, fixed_by=by) != 1:
        return False
    before, alert.status, alert.fixed_by = alert.status, Alert.Status.FIXED, by
    fixed_on, not_on = alert.branches_fixed()
    where = f"; fixed on {', '.join(fixed_on) or 'no branch any more'}"
    where += f", not on {', '.join(not_on)}" if not_on else ""
    evidence = "; ".join(dict.fromkeys(recovery.words for recovery in returns))
    note = f"{by.short} brought the old level back ({evidence}){where}"
    write_event(alert, Kind.FIXED, note, before=before, after=alert.status)
    return True


def maybe_undone() -> QuerySet[Alert]:
    """Open alerts of slowdowns with a series that has a further confirmed change, or with a commit that reverts any."""
    changes = ChangePoint.objects.filter(status=ChangePoint.Status.CONFIRMED)
    further = changes.filter(series=OuterRef("series"), ratio__gt=0).exclude(pk=OuterRef("pk"))
    moved_again = ChangePoint.objects.filter(Exists(further), alert=OuterRef("pk"))
    has_revert = Exists(commits_that_revert(OuterRef("project"), OuterRef(OuterRef("commit"))))
    return Alert.objects.work().filter(Q(Exists(moved_again)) | has_revert | ~Q(reverted_by=None))


def doubted_since_fixed() -> QuerySet[Alert]:
    """Alerts that SpeedTrack has marked as fixed, and whose series are to be looked at again.

    Since then a further change has joined them, or a person has called a change of one of their series invalid.
    """
    fixed = AlertEvent.objects.filter(alert=OuterRef(OuterRef("pk")), after=Alert.Status.FIXED).order_by("-pk")
    since = AlertEvent.objects.filter(pk__gt=Subquery(fixed.values("pk")[:1]))
    grown = since.filter(alert=OuterRef("pk"), who=None, kind__in=(Kind.NOTED, Kind.GREW))
    same_series = {"alert__change_points__series__change_points__alert": OuterRef("pk")}
    invalid = since.filter(**same_series, after=Alert.Status.INVALID)
    by_itself = Alert.objects.standing().filter(status=Alert.Status.FIXED).exclude(fixed_by=None)
    return by_itself.filter(Exists(grown) | Exists(invalid))


MAYBE_UNDONE = RareRows(maybe_undone)
DOUBTED_SINCE_FIXED = RareRows(doubted_since_fixed)


@transaction.atomic
def check_fixed(alert: Alert) -> None:
    """Reopen a fixed alert if one of its series is not back, unless another open alert covers its commits."""
    lock_project(alert.project)
    restoration = restoration_of(alert)
    if restoration.is_complete:
        return
    if restoration.back:
        note = NOT_FIXED + restoration.sentence
    elif restoration.not_back or restoration.unmeasured:
        note = "a change that joined it is not back on the old level"
    else:
        note = "no valid change has brought the old level back"
    standing = Alert.objects.standing().filter(pk=alert.pk, status=Alert.Status.FIXED)
    try:
        with transaction.atomic():
            if standing.update(status=Alert.Status.CONFIRMED, fixed_by=None) != 1:
                return
    except IntegrityError:
        return
    before, alert.status, alert.fixed_by = alert.status, Alert.Status.CONFIRMED, None
    write_event(alert, Kind.REOPENED, note, before=before, after=alert.status)
