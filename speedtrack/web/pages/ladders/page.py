"""What the page of ladders shows."""

from dataclasses import dataclass

from django.http import Http404, QueryDict

from speedtrack.accounts.access import Access
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.reports.readings.choices import named_or_default
from speedtrack.runs.models import Machine, Measurement, Run
from speedtrack.web.addresses import metric_given
from speedtrack.web.drawing.charts.linecharts import (
    MOST_LINES,
    LineChart,
    LineValue,
    chart_over_numbers,
    measured_value,
)
from speedtrack.web.pages.ladders.choices import LineChoice, choices_of
from speedtrack.web.pages.ladders.lines import (
    Apart,
    LadderLine,
    environments_at,
    environments_of,
    lines_apart,
    lines_of,
    measured_rungs,
)
from speedtrack.web.pages.ladders.names import LadderName, ladder_names, series_of, transports_of
from speedtrack.web.pages.ladders.rows import LadderRow, failed_runs, reasons_of, rows_of, values_asked

USUAL_METRIC = "throughput_rps"


@dataclass(frozen=True)
class Selection:
    """What the selectors of the page offer, and what is chosen."""

    ladders: list[LadderName]
    ladder: LadderName | None
    others: list[LadderName]  #: those that differ from it in their transport only
    beside: LadderName | None  #: the one of these that is on the same chart
    machines: list[Machine]
    machine: Machine | None
    metrics: list[Metric]
    metric: Metric
    scale: str
    each: bool  #: each environment that measured a commit is a line

    @property
    def shown(self) -> list[LadderName]:
        """The ladder, and the one shown beside it, if any."""
        return [ladder for ladder in (self.ladder, self.beside) if ladder]

    @property
    def axis_title(self) -> str:
        return self.ladder.axis_title if self.ladder else ""


@dataclass(frozen=True)
class LaddersPage(Selection):
    choices: list[LineChoice]
    absent: list[str]  #: the lines asked for that were not measured here
    lines: list[LadderLine]
    several: bool  #: several environments measured one of the commits
    apart: list[Apart]
    rows: list[LadderRow]
    failed: list[tuple[LadderLine, Run]]  #: the lines without a measurement at a value, and the run that failed there
    chart: LineChart | None

    @property
    def chosen_count(self) -> int:
        return sum(choice.shown for choice in self.choices)

    @property
    def most_lines(self) -> int:
        return MOST_LINES


def load(query: QueryDict, access: Access) -> LaddersPage:
    """The page that an address names. Raises Http404 for a name that does not exist."""
    selected = selection_of(query, access)
    ladders, machine = selected.shown, selected.machine
    series = series_of(ladders, access).filter(machine=machine, metric=selected.metric.name)
    points = Measurement.objects.filter(series__in=series, accepted=True, paired=False)
    choices, absent = choices_of(points, query.getlist("line"), query.get("project"), access)
    rungs = measured_rungs(points, choices)
    environments = environments_of(rungs)
    lines = lines_of(choices, ladders, rungs, environments, selected.each)
    planned_values, reasons = values_asked(ladders, machine, lines), reasons_of(ladders, machine, lines)
    rows = rows_of(lines, rungs, environments, planned_values, reasons)
    return LaddersPage(
        **vars(selected),
        choices=choices,
        absent=absent,
        lines=lines,
        several=any(len(environments_at(key, rungs)) > 1 for key in {rung.place for rung in rungs}),
        apart=lines_apart(lines, environments),
        rows=rows,
        failed=failed_runs(ladders, machine, lines, rows),
        chart=chart_of(selected, lines, rows),
    )


def selection_of(query: QueryDict, access: Access) -> Selection:
    ladders = ladder_names(query.get("project"), access)
    ladder = named_or_default("ladder", query.get("ladder"), ladders, "")
    transports = transports_of(ladder, access)
    asked_beside = query.get("beside")
    beside = named_or_default("ladder", asked_beside, transports, "") if asked_beside else None
    rungs = series_of([name for name in (ladder, beside) if name], access)
    machines = list(Machine.objects.filter(series__in=rungs).distinct().order_by("name"))
    machine = named_or_default("machine", query.get("machine"), machines, "")
    metrics = list(METRICS.values())
    metric = named_or_default("metric", metric_given(query), metrics, USUAL_METRIC)
    assert metric
    scale, each = query.get("scale", ""), each_environment(query.get("environments"))
    return Selection(ladders, ladder, transports, beside, machines, machine, metrics, metric, scale, each)


def each_environment(choice: str | None) -> bool:
    """Return whether each environment is a line. Raises Http404 for another word than ``each``."""
    if choice and choice != "each":
        raise Http404(f"There is no environments={choice!r}: there is `each`, or none for the newest of each line.")
    return choice == "each"


def chart_of(selected: Selection, lines: list[LadderLine], rows: list[LadderRow]) -> LineChart | None:
    """The lines, with gaps where a rung was to be measured and was not."""
    chart_lines = []
    for number, line in enumerate(lines):
        cells = [(row.value, row.cells[number]) for row in rows]
        own = [(value, cell.measured) for value, cell in cells if cell.measured or cell.asked or cell.elsewhere]
        chart_lines.append(
            (line.label, [value_of(selected.metric, line, value, measurement) for value, measurement in own])
        )
    return chart_over_numbers(chart_lines, selected.metric, selected.axis_title, selected.scale)


def value_of(metric: Metric, line: LadderLine, value: float, measurement: Measurement | None) -> LineValue | None:
    return measured_value(metric, f"{line.label}, {value:g}", value, measurement) if measurement else None
