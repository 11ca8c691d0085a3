"""The whole effect of a commit: once an alert names it, every benchmark of its suite is measured in pairs.

The pairs of the commit and the one before it are asked for once, after every suspicion that waits: a few of every
benchmark, then more of those that these leave open. What moved joins the alert, so that it lists what the commit did,
not what happened to be suspected. A large change is told before that, and a further event tells what joined it; a small
one waits for it, but no longer than PATIENCE. Counts of instructions that are missing for the two commits take seconds:
every alert waits for these.
"""

from collections.abc import Sequence

from django.db.models import Count, Exists, OuterRef, QuerySet
from django.db.models.functions import Now

from speedtrack.alerts.detection.history import why_not_measurable
from speedtrack.alerts.headlines import headline
from speedtrack.alerts.lines import lines, waiting
from speedtrack.alerts.lines.trouble import isolated
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, Verdict
from speedtrack.alerts.pairs import pairing, suites
from speedtrack.alerts.pairs.suites import ComparedSeries
from speedtrack.alerts.triage import raising
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.definitions import BUILD
from speedtrack.benchmarks.metrics import COUNTED, HEADLINE
from speedtrack.benchmarks.models import Benchmark
from speedtrack.benchmarks.storing import store_set
from speedtrack.ground.postgres.preparedquery import RareRows
from speedtrack.runs.models import MEASURED, ROUTINE, Measurement, Reason, Run, Series
from speedtrack.runs.models import Status as RunStatus
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.queue import queue
from speedtrack.runs.scheduling.order import PRIORITY
from speedtrack.stats.comparing import compare, sequential

#: Pairs of each benchmark in the first round, and in each further round of those that are open. One that moved alone
#: among thirteen is never told after the first: n pairs give at most the evidence 2^n, half of it for each direction.
FIRST, MORE, ROUNDS = sequential.FEWEST, 6, 3
MOST_BENCHMARKS = 20
LARGE = 0.05  # a change of this share is told before its whole effect is measured

Status = ChangePoint.Status
Kind = AlertEvent.Kind


def without_effect() -> QuerySet[Alert]:
    """Alerts that name a commit whose whole effect was not asked for."""
    runs = Run.objects.filter(reason=Reason.EFFECT, base=OuterRef("before"), commit=OuterRef("commit"))
    return Alert.objects.naming_lately().filter(~Exists(runs))


def unwanted_runs() -> QuerySet[Run]:
    """The waiting runs whose commit no open alert names."""
    alerts = Alert.objects.open().filter(before=OuterRef("base"), commit=OuterRef("commit"))
    return Run.objects.filter(~Exists(alerts), reason=Reason.EFFECT, status=RunStatus.QUEUED)


WITHOUT_EFFECT = RareRows(without_effect)
UNWANTED_RUNS = RareRows(unwanted_runs)
UNREAD_ALERTS = RareRows(waiting.alerts_with_unread_effects)


def ask() -> int:
    """Queue the pairs for each alert that names a commit, once for its two commits. Return the number of runs."""
    count = 0
    for alert in WITHOUT_EFFECT.rows():
        with isolated(*Series.objects.filter(change_points__alert=alert).distinct()):
            count += len(ask_about(alert))
    return count


def ask_about(alert: Alert) -> list[Run]:
    """Queue the runs that an alert's full report lacks, and let its events wait for them. Return the runs."""
    related = ("series__benchmark", "series__machine", "series__project")
    changes = alert.change_points.filter(status=Status.CONFIRMED).select_related(*related)
    worst_first = sorted(changes, key=lambda cp: cp.rank)
    if not worst_first or why_not_measurable(worst_first[0].series):
        return []
    machine = worst_first[0].series.machine
    here = [cp for cp in worst_first if cp.series.machine_id == machine.pk]
    counting, timing = plan_counts(alert, here), plan_suite(alert, here)
    is_large = any(abs(cp.ratio - 1) >= LARGE for cp in worst_first)
    if awaited := counting if is_large or timing is None else timing:
        alert.events.filter(untold=True).update(run=awaited)
    return [run for run in (counting, timing) if run]


def plan_counts(alert: Alert, changes: Sequence[ChangePoint]) -> Run | None:
    """Queue counts of both commits for the changed benchmarks that are counted, but not at both of them."""
    machine, ends = changes[0].series.machine, (alert.before_id, alert.commit_id)
    benchmarks = {cp.series.benchmark_id: cp.series.benchmark for cp in changes}
    counted_series = Series.objects.filter(machine=machine, benchmark__in=benchmarks, metric__in=COUNTED)
    by_pairs = Run.objects.filter(base=ends[0], commit=ends[1], machine=machine, metrics=COUNTED)
    counted_benchmarks = set(Benchmark.objects.filter(sets__runs__in=by_pairs).values_list("pk", flat=True))
    points = (
        lines.clean_measurements()
        .filter(series__in=counted_series, commit__in=ends)
        .values("series__benchmark", "series")
    )
    both = points.annotate(commits=Count("commit", distinct=True)).filter(commits=len(ends))
    counted_benchmarks.update(both.values_list("series__benchmark", flat=True))
    missing = sorted(set(counted_series.values_list("benchmark", flat=True)) - counted_benchmarks)
    if not missing:
        return None
    suite = pairing.suite_of(changes[0])
    benchmark_set, pairs = store_set(suite, [benchmarks[pk] for pk in missing]), compare.FEWEST_COUNTS
    return plan_pairs(
        Question(*ends, machine, suite, benchmark_set, Reason.EFFECT, pairs, COUNTED, PRIORITY["confirm"])
    )


def plan_suite(alert: Alert, changes: Sequence[ChangePoint]) -> Run | None:
    """Queue pairs of each benchmark that the machine usually measures, except where there are as many already."""
    worst, machine = changes[0], changes[0].series.machine
    usual = usual_run(worst)
    if usual is None:
        return None
    metrics_of_time = {cp.series.metric for cp in changes if not cp.metric.counted and cp.benchmark_name != BUILD}
    metrics = [HEADLINE, *sorted(metrics_of_time - {HEADLINE})]
    ends = Run(project=alert.project, base=alert.before, commit=alert.commit, machine=machine, metrics=metrics)
    pairs = suites.pairs_of_suite(ends)
    benchmarks = [b for b in usual.benchmark_set.benchmarks.order_by("pk") if len(pairs[b.pk, HEADLINE]) < FIRST]
    if not benchmarks:
        return None
    benchmark_set = store_set(usual.suite, benchmarks[:MOST_BENCHMARKS])
    commits, priority = (alert.before_id, alert.commit_id), PRIORITY["later"] if worst.past else None
    question = Question(*commits, machine, usual.suite, benchmark_set, Reason.EFFECT, FIRST, metrics, priority)
    return plan_pairs(question)


def plan_more(alert: Alert, run: Run) -> Run | None:
    """Queue the next round of a measured run, of the benchmarks that it leaves open.

    None if that was the last one, or if the machine measures nothing now.
    """
    if run.status not in MEASURED or suites.rounds_of(run).count() >= ROUNDS:
        return None
    rows = [row for row in suites.compare_suite(run) if not row.moved and suites.is_open(row.comparison)]
    if not rows or why_not_measurable(rows[0].series):
        return None
    benchmark_set = store_set(run.suite, list({row.series.benchmark_id: row.series.benchmark for row in rows}.values()))
    ends = alert.before_id, alert.commit_id
    return plan_pairs(
        Question(*ends, run.machine, run.suite, benchmark_set, Reason.EFFECT, MORE, run.metrics, run.priority)
    )


def usual_run(cp: ChangePoint) -> Run | None:
    """The newest run that measured the series for its line; its set has the benchmarks that the machine measures."""
    of_line = Measurement.objects.filter(series=cp.series, accepted=True, paired=False)
    routine = of_line.filter(attempt__run__reason__in=ROUTINE).select_related("attempt__run__suite").order_by("-pk")
    newest = routine.first()
    return newest.attempt.run if newest else None


def cancel_unwanted() -> None:
    """Cancel the waiting runs whose alerts were settled, or moved to another commit, meanwhile."""
    for run in UNWANTED_RUNS.rows():
        queue.cancel(run, "no open alert names its commit any more")


def read_ended() -> None:
    """Read each ended run of an open alert once: what moved joins the alert, and its events wait no longer.

    A run that leaves benchmarks open is read with its next round, for which the events wait in its stead.
    """
    for alert in UNREAD_ALERTS.rows():
        with isolated(*Series.objects.filter(change_points__alert=alert).distinct()):
            for run in waiting.unread_effects().filter(base=alert.before_id, commit=alert.commit_id).order_by("pk"):
                if next_round := None if is_counted(run) else plan_more(alert, run):
                    AlertEvent.objects.filter(run=run, untold=True).update(run=next_round)
                else:
                    read(alert, run)


def read(alert: Alert, run: Run) -> None:
    """Write what a run shows about an alert. Subscribers hear of it if they were told without what joins now."""
    was_told = not alert.events.filter(untold=True, kind=Kind.RAISED).exists()
    additions = join_moved(alert, run) if suites.is_measured(run) and not is_counted(run) else []
    event = raising.write_event(alert, Kind.MEASURED, reading_in_words(run, additions))
    is_news = was_told and bool(additions) and not alert.muted
    AlertEvent.objects.filter(pk=event.pk).update(run=run, untold=is_news, past=any(cp.past for cp in additions))
    AlertEvent.objects.exclude(pk=event.pk).filter(run=run, untold=True).update(run=None)


def is_counted(run: Run) -> bool:
    return not set(run.metrics).isdisjoint(COUNTED)


def reading_in_words(run: Run, additions: Sequence[ChangePoint]) -> str:
    if not suites.is_measured(run):
        return f"its whole effect was not measured: {run.error.splitlines()[0] if run.error else run.status}"
    if is_counted(run):
        return "the instructions of both commits were counted"
    return f"every benchmark of the suite was measured for it: {headline(additions) or 'nothing else moved'}"


def join_moved(alert: Alert, run: Run) -> list[ChangePoint]:
    """Let each benchmark that moved, and is not known to, join the alert as a confirmed change. Return these."""
    past = alert.change_points.filter(past=True).exists()
    fresh = [(changed(alert, row, past), row) for row in suites.compare_suite(run) if row.moved]
    additions = [(cp, row) for cp, row in fresh if not is_known(cp)]
    for cp, row in additions:
        cp.save()
        cp.runs.add(run)
        store_verdict(cp, row)
        raising.raise_alert(cp, [alert.pk])
    return [cp for cp, _ in additions]


def changed(alert: Alert, row: ComparedSeries, past: bool) -> ChangePoint:
    """The change of a series with the alert's commit, not saved yet."""
    comparison = row.comparison
    size = numbers.size(comparison.ratio, comparison.low, comparison.high)
    return ChangePoint(
        series=row.series,
        branch=alert.branch,
        before=alert.before,
        commit=alert.commit,
        status=Status.CONFIRMED,
        ratio=comparison.ratio,
        low=comparison.low,
        high=comparison.high,
        score=0,
        note=f"measured with the whole suite over {comparison.n[0]} pairs: {size}, p = {comparison.p:.2g}",
        past=past,
        settled_at=Now(),
    )


def is_known(cp: ChangePoint) -> bool:
    """Return whether the change is confirmed or being settled already. Suspicions of it are deleted."""
    here = ChangePoint.objects.alike(cp).filter(kind=cp.kind)
    here.filter(status=Status.SUSPECTED).delete()
    return here.filter(status__in=(Status.SETTLING, Status.CONFIRMED, Status.HISTORY)).exists()


def store_verdict(cp: ChangePoint, row: ComparedSeries) -> None:
    comparison, ends = row.comparison, {"base": cp.before, "commit": cp.commit}
    sizes = {
        "ratio": comparison.ratio,
        "low": comparison.low,
        "high": comparison.high,
        "p": comparison.p,
        "pairs": comparison.n[0],
    }
    Verdict.objects.create(change_point=cp, answer=Verdict.Answer.DIFFERENT, **ends, **sizes)
