"""The whole effect of a commit on its suite: the judge's total over pairs of every benchmark, without their history."""

from dataclasses import dataclass

from speedtrack.alerts.lines.comparisons import Answer
from speedtrack.alerts.models import Alert
from speedtrack.alerts.pairs.suites import ComparedSeries, compare_suite, is_measured
from speedtrack.benchmarks import numbers
from speedtrack.benchmarks.metrics import COUNTED, HEADLINE, METRICS, Metric
from speedtrack.judging.totals import Total, total_of
from speedtrack.judging.verdicts import Basis, Judgement, Ruling, ruling_of, words_of
from speedtrack.runs.models import ENDED, Reason, Run

COUNT_WORDS: dict[str, str] = {Ruling.SAME: "the same", Ruling.UNCERTAIN: "not known"}
SHOWN = (Ruling.WORSE, Ruling.BETTER, Ruling.SAME, Ruling.UNCERTAIN)


@dataclass(frozen=True)
class WholeEffect:
    """What a commit did to its suite, by the headline metric. ``total`` is None until ``run`` has measured it."""

    run: Run
    total: Total | None

    @property
    def metric(self) -> Metric:
        return METRICS[HEADLINE]

    @property
    def words(self) -> str:
        """Such as ``CPU over the suite: +2.1% (+1.0% to +3.2%), the geometric mean of 13 benchmarks in pairs; …``."""
        if self.total is None or self.total.mean is None:
            state = "not measured" if self.run.status in ENDED else "being measured"
            return f"The whole suite, in pairs of this commit and the one before it: {state}"
        interval = f" ({self.total.interval_in_words})" if self.total.interval_in_words else ""
        mean = (
            f"{numbers.change(self.total.mean.ratio)}{interval}, the geometric mean of {self.total.rests_on} in pairs"
        )
        return f"{self.metric.title} over the suite: {mean}; {', '.join(self.counts)}"

    @property
    def counts(self) -> list[str]:
        """How many benchmarks have which verdict: ``5 slower``, ``8 the same``."""
        counts = self.total.counts if self.total else {}
        return [f"{counts[v]} {COUNT_WORDS.get(v) or words_of(v, self.metric)}" for v in SHOWN if counts.get(v)]


def whole_effect_of(alert: Alert) -> WholeEffect | None:
    """The whole effect of the one commit that an alert names; None if it was not asked for."""
    runs = Run.objects.filter(reason=Reason.EFFECT, base=alert.before_id, commit=alert.commit_id)
    run = runs.exclude(metrics=COUNTED).order_by("pk").last()
    if run is None:
        return None
    is_known = run.status in ENDED and is_measured(run)
    rows = [row for row in compare_suite(run) if row.series.metric == HEADLINE] if is_known else []
    return WholeEffect(run, total_of(METRICS[HEADLINE], list(map(judged, rows))) if rows else None)


def judged(row: ComparedSeries) -> Judgement:
    found, metric = row.comparison, METRICS[row.series.metric]
    answer = Answer(found.ratio, found.low, found.high, found.answer)
    return Judgement(metric, ruling_of(metric, answer), *answer[:3], Basis.PAIRS, found.n[0])
