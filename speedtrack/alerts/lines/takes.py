"""What it would take to see smaller changes of a series: trials, the time that they cost, and pairs."""

import math
from dataclasses import dataclass
from datetime import timedelta
from statistics import median
from typing import Any, NamedTuple

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, Min, Subquery
from django.db.models.functions import Now
from django.utils import timezone

from speedtrack.alerts.lines.effects import smallest_effect
from speedtrack.alerts.lines.linecolumns import columns
from speedtrack.alerts.lines.sensitivity import COMMITS, on_one_level, with_level_starts
from speedtrack.alerts.models import SeriesSensitivity
from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import SetMember, SuiteEdit
from speedtrack.benchmarks.suiteedits import version_after
from speedtrack.benchmarks.suitefiles import newest_edit, suite_after
from speedtrack.projects.models import Branch
from speedtrack.runs.models import Run, Series, Status
from speedtrack.runs.queue import estimates
from speedtrack.runs.queue.estimates import Learned, RunWork
from speedtrack.stats.changes.trials import LevelTrials
from speedtrack.stats.noise.floor import pairs_to_confirm

PLANNED_PAIRS = 10  # for which `SeriesSensitivity.paired` holds
PACE = timedelta(days=30)
MOST_STEPS = 20  # of changes to choose from
STEPS = tuple(mantissa * 10.0**exponent for exponent in range(-4, 2) for mantissa in (1, 2, 5))


class Take(NamedTuple):
    """What it takes to see the change ``see``. ``trials``: of each run; None if no number of them is enough.

    ``seconds``: how much longer a commit is measured, and ``seconds_a_day`` at the project's pace; None: not known.
    ``pairs``: about how many confirm the change; None without A/A runs.
    """

    see: float
    trials: int | None
    seconds: float | None
    seconds_a_day: float | None
    pairs: int | None


@dataclass(frozen=True)
class Takes:
    """A series that has ``trials`` per run and shows changes of ``smallest`` now.

    ``limit``: the smallest change that any number of trials would show. ``suite_trials``: of the suite in force.
    ``version``: of that suite. ``commits_a_day``: how many are measured. ``takes``: the largest change first; none if
    smaller ones do not count.
    """

    series: Series
    smallest: float
    smallest_effect: float
    trials: int
    suite_trials: int
    limit: float
    of_runs: float
    commits_a_day: float
    takes: list[Take]
    version: str


def takes_of(series: Series, branch: Branch, head: int) -> Takes | None:
    """What it takes for each smaller change; None if that is not known, or trials are not what decides.

    They do not where instructions are counted, where results come from outside, and before there is noise to judge by.
    ``branch``: the default one of the project; ``head``: the position of its newest commit.
    """
    row: Any = with_level_starts(branch).filter(series=series).first()
    if row is None or row.smallest is None or METRICS[series.metric].needs_no_trials:
        return None
    edit = newest_edit(series.project.suite)
    line, suite_trials = line_of(series, branch, head, row.starts), trials_in_force(series, edit)
    if line is None or line.noise is None or suite_trials is None:
        return None
    cost = TrialCost(series)
    changes = changes_to_choose(line.smallest_effect, row.smallest)
    takes = [take_of(row, cost, *pair) for pair in zip(changes, line.fewest_each(changes), strict=True)]
    limit, of_runs = line.visible(math.inf), line.noise.of_runs
    numbers = row.smallest, line.smallest_effect, line.trials, suite_trials, limit, of_runs, cost.commits_a_day
    return Takes(series, *numbers, takes, version_after(series.project.suite, edit))


def line_of(series: Series, branch: Branch, head: int, starts: list[int]) -> LevelTrials | None:
    """The newest points of the series on one level; None without any. ``starts``: where its levels begin."""
    first = head - COMMITS + 1
    for line in columns([series.pk], branch, first, head):
        level, error, trials = on_one_level(line, [start - first for start in starts])
        if level:
            return LevelTrials(level, error, round(median(trials)), smallest_effect(series))
    return None


def trials_in_force(series: Series, edit: SuiteEdit | None) -> int | None:
    """The trials of the project's suite; None if it does not measure this benchmark, or is invalid."""
    try:
        suite = suite_after(series.project.suite, edit)
    except DefinitionError:
        return None
    return suite.trials if series.benchmark.name in {section.name for section in suite.benchmark} else None


def changes_to_choose(smallest_effect: float, smallest: float) -> list[float]:
    """Changes in even steps, the largest first: from the smallest one visible now to the smallest that matters."""
    step = next(step for step in STEPS if (smallest - smallest_effect) / step <= MOST_STEPS)
    first, last = math.ceil(smallest_effect / step - 1e-9), math.floor(smallest / step + 1e-9)
    return [round(number * step, 6) for number in range(last, first - 1, -1)]


def take_of(row: SeriesSensitivity, cost: "TrialCost", change: float, trials: int | None) -> Take:
    pairs = None if row.paired is None else pairs_to_confirm(change, row.paired, PLANNED_PAIRS)
    seconds = None if trials is None else cost.seconds(trials)
    return Take(change, trials, seconds, None if seconds is None else seconds * cost.commits_a_day, pairs)


class TrialCost:
    """How much machine time more trials of all benchmarks take, by the newest runs of the series' machine."""

    def __init__(self, series: Series) -> None:
        runs = Run.objects.routine().filter(project=series.project_id, machine=series.machine_id)
        recent_runs = runs.filter(ended_at__gt=Now() - PACE, status=Status.SUCCEEDED).order_by()
        newest = recent_runs.order_by("-ended_at").values("benchmark_set")[:1]
        members = SetMember.objects.filter(benchmark_set=Subquery(newest)).values("benchmark")
        totals = recent_runs.values("machine").annotate(
            count=Count("pk"), since=Min("ended_at"), of=ArraySubquery(members)
        )
        count, since, benchmarks = next(iter(totals.values_list("count", "since", "of")), (0, None, []))
        days = (timezone.now() - since) / timedelta(days=1) if since else 1.0
        self.commits_a_day: float = count / max(1.0, days)
        self.work = RunWork(series.machine_id, series.project.suite, "single", tuple(benchmarks), 0, ())
        self.learned: Learned = estimates.learn([series.machine_id])

    def seconds(self, trials: int) -> float | None:
        return self.learned.longer_s(self.work, trials)
