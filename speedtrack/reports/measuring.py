"""Benchmarks, metrics, machines, series, and what was measured."""

from collections.abc import Iterable
from typing import Annotated, Any, NamedTuple, Self

from pydantic import Field

from speedtrack.alerts.lines.linecolumns import list_of
from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.ground.postgres.pgvalues import all_rows
from speedtrack.reports.common import Document, Filled, From, Text, Time
from speedtrack.runs.models import Attempt, Measurement


class MetricDocument(Document):
    """What is read off a benchmark."""

    name: str
    title: str = Field(description="its name for people")
    unit: str = Field(description="empty: a plain number")
    better: Annotated[str, From("better.value")] = Field(description="`higher` or `lower`: which values are better")
    smallest_effect: float = Field(description="the smallest change that matters, as a ratio (0.01 is 1%)")
    is_watched: Annotated[bool, From("watched")] = Field(description="a change of it may raise an alert")


class BenchmarkDocument(Document):
    """One workload with one server configuration. One with another definition is another benchmark of that name."""

    id: int
    name: Text
    digest: str = Field(description="over its definition")
    definition: dict[str, Any] = Field(description="the workload, the server's command, and what is expected")
    why: Text = Field(description="what it is for")
    ladder: Text = Field(description="the ladder that it is a rung of; empty: of none")
    axis: str = Field(description="the setting that differs from rung to rung")
    rung: float | None = Field(description="its value of that setting")


class MachineDocument(Document):
    """A computer that measures."""

    name: str
    pool: str = Field(description="machines of equal hardware; empty: it is its own pool")
    state: str = Field(description="what it does now, as on its page, such as `idle`, `working` or `waiting`")
    why: Text = Field(description="why it takes no run now, as a sentence; empty if it takes runs")
    health: Text = Field(description="whether it is sound, by its canary, or what is wrong")
    is_paused: Annotated[bool, From("paused")] = Field(description="it gets no new work")
    quarantined_at: Time | None = Field(description="since when its canary has moved, so that it gets canary runs only")
    quarantined_why: Text
    retired_at: Time | None = Field(description="since when it is out of service; its results stay")
    last_seen_at: Time | None = Field(description="when its runner last called")
    runner_version: Text
    windows: list[str] = Field(description="when it takes work by itself, such as `mon-fri 22:00-06:00`; none: always")
    zone: str = Field(description="time zone of the windows")
    url: Annotated[str, Filled("/api/v1/machines/{0.name}")]


class EnvironmentDocument(Document):
    """Everything on a machine that affects measurements. A new environment starts new series."""

    id: int
    machine: Annotated[str, From("machine.name")]
    digest: str = Field(description="over its facts")
    facts: dict[str, Any]
    created: Time


class SeriesDocument(Document):
    """One line on a chart: a benchmark, a metric, a machine and its environment. A branch is a path through it."""

    id: int
    project: Annotated[str, From("project.slug")]
    benchmark: Annotated[Text, From("benchmark.name")]
    benchmark_digest: Annotated[str, From("benchmark.digest")]
    metric: str
    unit: Annotated[str, From(lambda series: METRICS[series.metric].unit)]
    better: Annotated[str, From(lambda series: METRICS[series.metric].better.value)] = Field(
        description="`higher` or `lower`: which values are better"
    )
    machine: Annotated[str, From("machine.name")]
    environment: Annotated[str, From("environment.digest")] = Field(description="digest of the environment")
    environment_id: int
    url: Annotated[str, Filled("/api/v1/series/{0.pk}")]
    points_url: Annotated[str, Filled("/api/v1/series/{0.pk}/points")]


Values = list[float | None]


class PointColumns(Document):
    """The points in columns, oldest commit first: the n-th entries of all lists belong to one commit."""

    position: list[int] = Field(description="place of the commit on the branch")
    sha: list[str]
    committed_at: list[str] = Field(
        description="RFC 3339", json_schema_extra={"items": {"type": "string", "format": "date-time"}}
    )
    value: Values = Field(description="median, in the unit of the metric")
    low: Values = Field(description="lower end of the median's 95% interval")
    high: Values = Field(description="upper end of it")
    n: list[int] = Field(description="how many samples it rests on")


class PointsDocument(Document):
    """The measured commits of a series along a branch. A commit that is absent was not measured."""

    series: int
    branch: Text
    unit: str
    points: PointColumns
    flags: dict[str, list[str]] = Field(description="by position: why a value is not to be trusted")
    next: str | None = Field(description="address of the points after these; null after the last ones")


class MeasuredDocument(Document):
    """What a run measured of one series, in brief."""

    id: int
    series: Annotated[int, From("series_id")]
    benchmark: Annotated[Text, From("series.benchmark.name")]
    metric: Annotated[str, From("series.metric")]
    unit: Annotated[str, From(lambda measurement: METRICS[measurement.series.metric].unit)]
    side: str = Field(description="of a paired run: `head` or `base`")
    value: float | None = Field(description="median of the samples, in the unit of the metric")
    low: float | None = Field(description="lower end of the median's 95% interval")
    high: float | None
    n: int
    flags: list[str] = Field(description="why the value is not to be trusted")
    is_accepted: Annotated[bool, From("accepted")] = Field(
        description="charts show it; else its attempt was lost, or goes on"
    )


# Columns as arrays in PostgreSQL's binary form, and texts as JSON: a row per measurement would cost Python too much.
MEASURED = """
    SELECT array_send(array_agg(m.id)), array_send(array_agg(m.series_id)), json_agg(b.name)::text,
           json_agg(s.metric)::text, json_agg(m.side)::text, array_send(array_agg(m.value)),
           array_send(array_agg(m.low)), array_send(array_agg(m.high)), array_send(array_agg(m.n)),
           json_agg(string_to_array(m.flags, ','))::text, json_agg(m.accepted)::text,
           json_agg(CASE WHEN s.metric = ANY (%(sampled)s::text[])
                         THEN (SELECT values FROM runs_samples WHERE measurement_id = m.id) END)::text
      FROM runs_measurement m
      JOIN runs_series s ON s.id = m.series_id
      JOIN benchmarks_benchmark b ON b.id = s.benchmark_id
     WHERE m.attempt_id = %(attempt)s
"""


class MeasuredColumns(NamedTuple):
    """What an attempt measured, in no order. ``samples``: by trial, of some metrics; None of others."""

    ids: list[int]
    series: list[int]
    benchmarks: list[str]
    metrics: list[Metric]
    sides: list[str]
    values: list[float]
    lows: list[float]
    highs: list[float]
    ns: list[int]
    flags: list[list[str]]
    are_accepted: list[bool]
    samples: list[list[float | None] | None]

    @classmethod
    def of(cls, attempt: Attempt | None, sampled: Iterable[str] = ()) -> Self:
        """``sampled``: the metrics whose samples are read."""
        if attempt is None:
            return cls(*([] for _ in cls._fields))
        (encoded,) = all_rows(MEASURED, {"attempt": attempt.pk, "sampled": list(sampled)})
        columns = cls(*map(list_of, encoded))
        return columns._replace(metrics=[METRICS[str(name)] for name in columns.metrics])

    @property
    def documents(self) -> list[MeasuredDocument]:
        names = ("id", "series", "benchmark", "metric", "side", "value", "low", "high", "n", "flags", "is_accepted")
        columns = dict(zip(names, self, strict=False))
        columns |= {
            "metric": [metric.name for metric in self.metrics],
            "unit": [metric.unit for metric in self.metrics],
        }
        rows = zip(*columns.values(), strict=True)
        return [MeasuredDocument(**dict(zip(columns, row, strict=True))) for row in rows]


class MeasurementDocument(MeasuredDocument):
    """A run's samples of one series for one commit, with their summary."""

    project: Annotated[str, From("series.project.slug")]
    machine: Annotated[str, From("series.machine.name")]
    sha: Annotated[str, From("commit.sha")]
    run: Annotated[int, From("attempt.run_id")]
    attempt: Annotated[int, From("attempt.number")]
    is_paired: Annotated[bool, From("paired")] = Field(description="evidence of a change, not a point of the line")
    samples: Annotated[list[float | None] | None, From(lambda measurement: samples_of(measurement, "values"))] = Field(
        description="raw values by the number of their trial; null in the list where a trial gave none; null: deleted"
    )
    flagged: Annotated[list[int], From(lambda measurement: samples_of(measurement, "flagged") or [])] = Field(
        description="numbers of the trials with a flag that voids this metric"
    )
    url: Annotated[str, Filled("/api/v1/measurements/{0.pk}")]


def samples_of(measurement: Measurement, column: str) -> Any:
    """A column of the measurement's samples; None once retention has deleted them."""
    return getattr(getattr(measurement, "samples", None), column, None)


class TrialDocument(Document):
    """One fresh server process, measured once."""

    number: int
    order: int = Field(description="place in the attempt: trials are interleaved in seeded random order")
    started_at: Time
    seconds: float
    flags: list[str]


class OriginDocument(Document):
    """What a measurement from outside states about itself."""

    import_id: int | None = Field(description="the batch with which it came")
    measured_at: Time | None
    id: Annotated[Text, From("external_id")] = Field(
        description="by which its sender tells it from others; empty: none"
    )
    page: Annotated[Text, From("url")] = Field(description="address of a page about it; empty: none")
    tags: Annotated[dict[str, Text], From(lambda origin: origin.tags or {})]


def origin_of(measurement: Measurement) -> OriginDocument | None:
    """The origin of a measurement with its attempt's run loaded; None if a runner measured it."""
    origin = getattr(measurement, "origin", None)
    return OriginDocument.of(origin, import_id=measurement.attempt.run.imported_id) if origin else None


class MeasurementDetails(MeasurementDocument):
    """A measurement with its trials and where it comes from."""

    trials: list[TrialDocument] = Field(description="none, once retention has deleted them")
    origin: Annotated[OriginDocument | None, From(lambda measurement: origin_of(measurement))] = Field(
        description="of one that was measured elsewhere; null: a runner measured it"
    )
