"""How a run spent its time, and its trials in the order of measuring."""

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from django.db import connection
from django.utils import timezone

from speedtrack.alerts.lines.linecolumns import list_of
from speedtrack.benchmarks.metrics import HEADLINE, METRICS, Metric
from speedtrack.ground.postgres.pgvalues import all_rows
from speedtrack.runs.models import Attempt, Build, Run
from speedtrack.web.drawing.small.strips import TrialMark, TrialStrip, order_place

MOST_BENCHMARKS = 8  # with a part of the bar each
SKEW = timedelta(minutes=1)  # between the clocks of runner and database
DRAWN = 1500  # trials
STOP_REASONS = {
    "target": "that was narrow enough",
    "futile": "{most_trials} would give about ±{half_width_at_most:.2%}",
    "cap": "no more were allowed",
    "fixed": "as many as were asked for",
    "failed": "the next one failed",
}


class TrialRow(NamedTuple):
    """What the page shows of a trial. ``began``: seconds since 1970."""

    order: int
    benchmark: str
    side: str
    number: int
    seconds: float
    flags: list[str]
    began: float

    @property
    def started_at(self) -> datetime:
        return datetime.fromtimestamp(self.began, UTC)


class ShownResult(NamedTuple):
    """What the page shows of a result. ``documented``: the documents of its trials are stored."""

    benchmark: str
    side: str
    stopping: dict[str, Any] | None
    no_layouts: str
    repeatable: bool
    documented: bool


class MeasurementRow(NamedTuple):
    """The columns of a measurement that the page shows."""

    benchmark: str
    metric: Metric
    side: str
    value: float
    low: float
    high: float
    n: int
    flags: list[str]
    accepted: bool
    values: list[float | None] | None  #: by trial, of the metrics that may be drawn


@dataclass(frozen=True)
class Phase:
    """A part of the bar; ``left`` and ``width`` in per cent."""

    name: str
    look: str
    seconds: float
    left: str = ""
    width: str = ""


@dataclass(frozen=True)
class Phases:
    """``waited``: seconds from planning to the claim, which the bar leaves out."""

    parts: list[Phase]
    waited: float | None

    @property
    def seconds(self) -> float:
        return sum(phase.seconds for phase in self.parts)


@dataclass(frozen=True)
class TrialsOfBenchmark:
    """The trials of one benchmark on one side. ``decision``: why there were no more."""

    benchmark: str
    side: str
    metric: Metric
    strip: TrialStrip
    decision: str


@dataclass(frozen=True)
class TrialChart:
    """``discarded``: where on the axis those were measured that were repeated because of their flags."""

    rows: list[TrialsOfBenchmark]
    discarded: list[float]
    any_flagged: bool


class TrialTotals(NamedTuple):
    """All trials of an attempt in total. ``spent``: seconds by benchmark; both sides of a block share its time."""

    number: int = 0
    flags: Mapping[str, int] = {}
    spent: Mapping[str, float] = {}
    first: datetime = datetime.min
    last: datetime = datetime.max


# Columns as arrays in PostgreSQL's binary form, and texts as JSON: a row per trial would cost Python too much.
TRIALS = """
    SELECT array_send(array_agg("order")), json_agg(name)::text, json_agg(side)::text, array_send(array_agg(number)),
           array_send(array_agg(seconds)), json_agg(flags)::text, array_send(array_agg(began))
      FROM (SELECT t."order", b.name, r.side, t.number, t.seconds, t.flags,
                   extract(epoch FROM t.started_at)::float8 AS began
              FROM runs_result r
              JOIN benchmarks_benchmark b ON b.id = r.benchmark_id
              JOIN runs_trial t ON t.result_id = r.id
             WHERE r.attempt_id = %(attempt)s
               AND (%(benchmarks)s::text[] IS NULL OR b.name = ANY (%(benchmarks)s::text[]))
          ORDER BY t."order", t.result_id, t.number LIMIT %(most)s) trial
"""
TOTALS = """
    SELECT sum(of_benchmark.trials)::int,
           (SELECT coalesce(jsonb_object_agg(flag, trials), '{}')
              FROM (SELECT flag, count(DISTINCT (t.result_id, t.number)) AS trials
                      FROM runs_result r JOIN runs_trial t ON t.result_id = r.id CROSS JOIN unnest(t.flags) AS flag
                     WHERE r.attempt_id = %(attempt)s GROUP BY flag) of_flag),
           array_agg(of_benchmark.name), array_agg(of_benchmark.seconds),
           min(of_benchmark.begun), max(of_benchmark.ended)
      FROM (SELECT of_block.name::text, sum(trials) AS trials, sum(seconds) AS seconds, min(begun) AS begun,
                   max(ended) AS ended
              FROM (SELECT b.name, count(*) AS trials, max(t.seconds) AS seconds, min(t.started_at) AS begun,
                           max(t.started_at + t.seconds * interval '1 second') AS ended
                      FROM runs_result r
                      JOIN benchmarks_benchmark b ON b.id = r.benchmark_id
                      JOIN runs_trial t ON t.result_id = r.id
                     WHERE r.attempt_id = %(attempt)s
                  GROUP BY b.name, t.number) of_block
          GROUP BY of_block.name) of_benchmark
"""


def trials_of(attempt: Attempt | None, benchmarks: Collection[str] | None = None) -> list[TrialRow]:
    """The trials in the order of measuring; of more than DRAWN the first, and one more.

    ``benchmarks``: only of these; None stands for all.
    """
    if attempt is None:
        return []
    names = None if benchmarks is None else list(benchmarks)
    (columns,) = all_rows(TRIALS, {"attempt": attempt.pk, "benchmarks": names, "most": DRAWN + 1})
    return list(map(TrialRow._make, zip(*map(list_of, columns), strict=True)))


def totals_of(attempt: Attempt | None, trials: Sequence[TrialRow]) -> TrialTotals:
    """The totals of all trials. ``trials``: as ``trials_of`` returns them."""
    if not trials or attempt is None:
        return TrialTotals()
    if len(trials) > DRAWN:
        with connection.cursor() as cursor:
            cursor.execute(TOTALS, {"attempt": attempt.pk})
            number, flags, names, seconds, first, last = cursor.fetchone()
        return TrialTotals(number, Counter(json.loads(flags)), dict(zip(names, seconds, strict=True)), first, last)
    blocks: dict[tuple[str, int], float] = {}
    for trial in trials:
        block = (trial.benchmark, trial.number)
        blocks[block] = max(blocks.get(block, 0.0), trial.seconds)
    spent: dict[str, float] = defaultdict(float)
    for (benchmark, _), seconds in blocks.items():
        spent[benchmark] += seconds
    first = min(trial.began for trial in trials)
    last = max(trial.began + trial.seconds for trial in trials)
    moments = [datetime.fromtimestamp(moment, UTC) for moment in (first, last)]
    return TrialTotals(len(trials), Counter(flag for trial in trials for flag in set(trial.flags)), spent, *moments)


def phases_of(
    run: Run, attempt: Attempt | None, builds: Sequence[Build], results: Sequence[ShownResult], trials: TrialTotals
) -> Phases | None:
    """The phases of an attempt so far; None before a claim.

    If there are ``results`` but no ``trials``, the trials were deleted.
    """
    if attempt is None:
        return None
    total = ((attempt.ended_at or timezone.now()) - attempt.started_at).total_seconds()
    building = [Phase(build_name(run, build), "build", build.seconds) for build in builds]
    measuring = measuring_phases(trials)
    remaining = max(0.0, total - sum(phase.seconds for phase in [*building, *measuring]))
    reporting = reporting_seconds(attempt, trials)
    if reporting is None:
        name = "setting up and reporting" if trials.number or not results else "measuring and reporting"
        name = name if attempt.ended_at else "what lasts now, and setting up"
        phases = [*building, *measuring, Phase(name, "rest", remaining)]
    else:
        after = min(remaining, reporting)
        setting_up = Phase("setting up", "rest", remaining - after)
        phases = [*building, setting_up, *measuring, Phase("reporting", "rest", after)]
    return Phases(placed([phase for phase in phases if phase.seconds > 0]), waited(run, attempt))


def reporting_seconds(attempt: Attempt, trials: TrialTotals) -> float | None:
    """Seconds from the last trial to the end of the attempt; None while it lasts, or if the clocks disagree."""
    if not trials.number or attempt.ended_at is None:
        return None
    agree = attempt.started_at - SKEW <= trials.first and trials.last <= attempt.ended_at + SKEW
    return max(0.0, (attempt.ended_at - trials.last).total_seconds()) if agree else None


def waited(run: Run, attempt: Attempt) -> float | None:
    return max(0.0, (attempt.started_at - run.created).total_seconds()) if attempt.number == 1 else None


def build_name(run: Run, build: Build) -> str:
    side = f" of {build.commit.short}" if run.paired else ""
    return f"{'build from the cache' if build.cached else 'build'}{side}"


def measuring_phases(trials: TrialTotals) -> list[Phase]:
    """The benchmarks, the longest first, and the time between their trials."""
    if not trials.number:
        return []
    spent = trials.spent
    longest = sorted(spent, key=lambda name: (-spent[name], name))
    phases = [Phase(name, "measure", spent[name]) for name in longest[:MOST_BENCHMARKS]]
    if remaining := longest[MOST_BENCHMARKS:]:
        phases.append(Phase(f"{len(remaining)} more benchmarks", "measure", sum(spent[name] for name in remaining)))
    between = (trials.last - trials.first).total_seconds() - sum(spent.values())
    return [*phases, Phase("between the trials", "rest", max(0.0, between))]


def placed(phases: Sequence[Phase]) -> list[Phase]:
    total = sum(phase.seconds for phase in phases) or 1.0
    bars, offset = [], 0.0
    for phase in phases:
        share = 100 * phase.seconds / total
        bars.append(Phase(phase.name, phase.look, phase.seconds, f"{offset:.3f}%", f"{share:.3f}%"))
        offset += share
    return bars


def trial_chart(
    run: Run,
    results: Sequence[ShownResult],
    trials: Sequence[TrialRow],
    measurements: Sequence[MeasurementRow],
    benchmarks: Collection[str],
) -> TrialChart | None:
    """The trials of some benchmarks as dots, by the metric that the run is for.

    None without trials, or with too many for a drawing. ``results``, ``trials``: of all benchmarks; ``measurements``:
    of those.
    """
    if not trials or len(trials) > DRAWN:
        return None
    first, last = trials[0].order, trials[-1].order
    values = values_of(run, measurements)
    marks: dict[tuple[str, str], list[TrialMark]] = defaultdict(list)
    for trial in trials:
        if trial.benchmark not in benchmarks:
            continue
        _, by_trial = values.get((trial.benchmark, trial.side), (METRICS[HEADLINE], {}))
        marks[trial.benchmark, trial.side].append(TrialMark(trial.order, by_trial.get(trial.number), trial.flags))
    rows = []
    for result in results:
        if result.benchmark not in benchmarks:
            continue
        key = (result.benchmark, result.side)
        metric, _ = values.get(key, (METRICS[HEADLINE], {}))
        strip = TrialStrip.of(marks[key], metric, first, last)
        rows.append(TrialsOfBenchmark(*key, metric, strip, stop_text(result.stopping) if result.stopping else ""))
    missing = sorted(set(range(first, last + 1)) - {trial.order for trial in trials}) if last - first <= DRAWN else []
    thrown_out = sum(trial.stopping["thrown_out"] for trial in results if trial.stopping)
    is_complete = len(missing) <= thrown_out  # else others are missing: of benchmarks that were not sent
    discarded = [order_place(order, first, last) for order in missing] if is_complete else []
    return TrialChart(rows, discarded, any(trial.flags for trial in trials))


def drawn_metrics(run: Run) -> list[str]:
    """The metrics whose trials the page may draw; it draws the first one that was measured."""
    return [*run.metrics, HEADLINE, "throughput_rps"]


def values_of(
    run: Run, measurements: Sequence[MeasurementRow]
) -> dict[tuple[str, str], tuple[Metric, dict[int, float]]]:
    """By (benchmark name, side): the metric that is drawn, and its values by trial number."""
    ranks = {name: rank for rank, name in reversed([*enumerate(drawn_metrics(run))])}
    values: dict[tuple[str, str], tuple[Metric, dict[int, float]]] = {}
    for row in sorted(
        (measurement for measurement in measurements if measurement.values),
        key=lambda measurement: -ranks[measurement.metric.name],
    ):
        by_trial = {number: value for number, value in enumerate(row.values or ()) if value is not None}
        values[row.benchmark, row.side] = (row.metric, by_trial)
    return values


def stop_text(how: dict[str, Any]) -> str:
    """The ``stopping`` of a runner's document as a sentence."""
    width = "unknown" if how["half_width"] is None else f"±{how['half_width']:.2%}"
    dropped = f", {how['thrown_out']} discarded and repeated" if how["thrown_out"] else ""
    why = STOP_REASONS[how["reason"]].format_map(how)
    uncounted = f"; instructions are not countable, because {cause}" if (cause := how.get("not_countable")) else ""
    known = f"the median is known to {width} (target ±{how['target']:.2%})"
    return f"{how['trials']} trials{dropped}: {known}; {why}{uncounted}"
