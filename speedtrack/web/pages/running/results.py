"""What an attempt measured: the page of a run shows the results of some benchmarks at a time."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from django.db.models import BooleanField, ExpressionWrapper, F, Q, Value

from speedtrack.benchmarks.metrics import METRICS
from speedtrack.reports.measuring import MeasuredColumns
from speedtrack.runs.models import Attempt, Result, Run
from speedtrack.web.pages.paging import PageSpan, span_of
from speedtrack.web.pages.running.phases import (
    DRAWN,
    MeasurementRow,
    ShownResult,
    TrialChart,
    TrialRow,
    TrialTotals,
    drawn_metrics,
    totals_of,
    trial_chart,
    trials_of,
)


@dataclass(frozen=True)
class AttemptResults:
    """All that an attempt measured, and of it what a page shows: that of the benchmarks of ``span``.

    ``outcomes``: a result of each benchmark and side; ``trials``: in the order of measuring; of more than DRAWN the
    first, and one more.
    """

    run: Run
    attempt: Attempt | None
    outcomes: list[ShownResult]
    columns: MeasuredColumns
    trials: list[TrialRow]
    totals: TrialTotals
    page: int

    @classmethod
    def of(cls, run: Run, attempt: Attempt | None, page: int) -> "AttemptResults":
        """``page``: its number, from 1."""
        trials = trials_of(attempt)
        are_drawn = len(trials) <= DRAWN
        columns = MeasuredColumns.of(attempt, drawn_metrics(run) if are_drawn else ())
        return cls(run, attempt, results_of(attempt, are_drawn), columns, trials, totals_of(attempt, trials), page)

    @cached_property
    def benchmarks(self) -> list[str]:
        return sorted({*self.columns.benchmarks, *(result.benchmark for result in self.outcomes)})

    @cached_property
    def span(self) -> PageSpan:
        return span_of(self.page, len(self.benchmarks))

    @cached_property
    def shown_benchmarks(self) -> Collection[str]:
        """The benchmarks of the page."""
        return frozenset(self.span.among(self.benchmarks))

    @cached_property
    def measurements(self) -> list[MeasurementRow]:
        """Those of the page, ordered by benchmark, metric and side."""
        _, _, *columns = self.columns
        rows = [MeasurementRow._make(row) for row in zip(*columns, strict=True) if row[0] in self.shown_benchmarks]
        order = {metric.name: index for index, metric in enumerate(METRICS.among(row.metric.name for row in rows))}
        return sorted(rows, key=lambda row: (row.benchmark, order[row.metric.name], row.side))

    @cached_property
    def shown_trials(self) -> list[TrialRow]:
        """Those of the page in the order of measuring; of more than DRAWN the first, and one more."""
        if self.span.pages > 1 and len(self.trials) > DRAWN:
            return trials_of(self.attempt, self.shown_benchmarks)
        return [trial for trial in self.trials if trial.benchmark in self.shown_benchmarks]

    @cached_property
    def chart(self) -> TrialChart | None:
        return trial_chart(self.run, self.outcomes, self.trials, self.measurements, self.shown_benchmarks)

    @property
    def trials_in_words(self) -> str:
        """Such as ``1500 trials, here those of the benchmarks 1 to 60 of 300``."""
        number, span = self.totals.number, self.span
        part = f", here those of the benchmarks {span.first} to {span.last} of {span.of}" if span.pages > 1 else ""
        return f"{number} trial{'' if number == 1 else 's'}{part}"

    @property
    def flags(self) -> Iterable[str]:
        return chain.from_iterable(self.columns.flags)


def results_of(attempt: Attempt | None, are_drawn: bool) -> list[ShownResult]:
    """The results of an attempt by benchmark and side, without their documents.

    ``are_drawn``: with why their trials ended, which only the drawing says.
    """
    if attempt is None:
        return []
    documented = ExpressionWrapper(Q(documents__isnull=False), BooleanField())
    stopping = F("stopping") if are_drawn else Value(None, output_field=BooleanField())
    columns = ("benchmark__name", "side", stopping, "no_layouts", "repeatable", documented)
    results = Result.objects.filter(attempt=attempt).order_by("benchmark__name", "side")
    return [ShownResult._make(row) for row in results.values_list(*columns)]
