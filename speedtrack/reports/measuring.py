"""Benchmarks, metrics, machines, series, and what was measured."""

from collections.abc import Iterable
from typing import Any

from pydantic import Field

from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.benchmarks.models import Benchmark
from speedtrack.reports.common import Document, Text, Time
from speedtrack.runs.models import Environment, Machine, Measurement, Series, Trial
from speedtrack.runs.scheduling import standing
from speedtrack.runs.scheduling.standing import Standing


class MetricDocument(Document):
    """What is read off a benchmark."""

    name: str
    title: str = Field(description="its name for people")
    unit: str = Field(description="empty: a plain number")
    better: str = Field(description="`higher` or `lower`: which values are better")
    smallest_effect: float = Field(description="the smallest change that matters, as a ratio (0.01 is 1%)")
    is_watched: bool = Field(description="a change of it may raise an alert")

    @staticmethod
    def of(metric: Metric) -> "MetricDocument":
        return MetricDocument(
            name=metric.name,
            title=metric.title,
            unit=metric.unit,
            better=metric.better.value,
            smallest_effect=metric.smallest_effect,
            is_watched=metric.watched,
        )


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

    @staticmethod
    def of(benchmark: Benchmark) -> "BenchmarkDocument":
        return BenchmarkDocument(
            id=benchmark.pk,
            name=benchmark.name,
            digest=benchmark.digest,
            definition=benchmark.definition,
            why=benchmark.why,
            ladder=benchmark.ladder,
            axis=benchmark.axis,
            rung=benchmark.rung,
        )


class MachineDocument(Document):
    """A computer that measures."""

    name: str
    pool: str = Field(description="machines of equal hardware; empty: it is its own pool")
    state: str = Field(description="what it does now, as on its page, such as `idle`, `working` or `waiting`")
    why: Text = Field(description="why it takes no run now, as a sentence; empty if it takes runs")
    is_paused: bool = Field(description="it gets no new work")
    quarantined_at: Time | None = Field(description="since when its canary has moved, so that it gets canary runs only")
    quarantined_why: Text
    retired_at: Time | None = Field(description="since when it is out of service; its results stay")
    last_seen_at: Time | None = Field(description="when its runner last called")
    runner_version: Text
    windows: list[str] = Field(description="when it takes work by itself, such as `mon-fri 22:00-06:00`; none: always")
    zone: str = Field(description="time zone of the windows")
    url: str

    @staticmethod
    def of_several(rows: Iterable[Machine]) -> "list[MachineDocument]":
        machines = list(rows)
        standings = standing.of_machines(machines)
        return [MachineDocument(**machine_fields(machine, standings[machine.pk])) for machine in machines]


class MachineDetails(MachineDocument):
    """A machine, and what its runner found there."""

    facts: dict[str, Any] = Field(description="processor, kernel, compiler and more, as its runner last told")

    @staticmethod
    def of(machine: Machine) -> "MachineDetails":
        return MachineDetails(**machine_fields(machine, standing.of_machine(machine)), facts=machine.facts)


def machine_fields(machine: Machine, stands: Standing) -> dict[str, Any]:
    return {
        "state": stands.state,
        "why": stands.sentence,
        "name": machine.name,
        "pool": machine.pool,
        "is_paused": machine.paused,
        "quarantined_at": machine.quarantined_at,
        "quarantined_why": machine.quarantined_why,
        "retired_at": machine.retired_at,
        "last_seen_at": machine.last_seen_at,
        "runner_version": machine.runner_version,
        "windows": machine.windows,
        "zone": machine.zone,
        "url": f"/api/v1/machines/{machine.name}",
    }


class EnvironmentDocument(Document):
    """Everything on a machine that affects measurements. A new environment starts new series."""

    id: int
    machine: str
    digest: str = Field(description="over its facts")
    facts: dict[str, Any]
    created: Time

    @staticmethod
    def of(environment: Environment, machine: str) -> "EnvironmentDocument":
        return EnvironmentDocument(
            id=environment.pk,
            machine=machine,
            digest=environment.digest,
            facts=environment.facts,
            created=environment.created,
        )


class SeriesDocument(Document):
    """One line on a chart: a benchmark, a metric, a machine and its environment. A branch is a path through it."""

    id: int
    project: str
    benchmark: Text
    benchmark_digest: str
    metric: str
    unit: str
    better: str = Field(description="`higher` or `lower`: which values are better")
    machine: str
    environment: str = Field(description="digest of the environment")
    environment_id: int
    url: str
    points_url: str

    @staticmethod
    def of(series: Series) -> "SeriesDocument":
        return SeriesDocument(**series_fields(series))


def series_fields(series: Series) -> dict[str, Any]:
    """The fields of a series' document. ``series`` has its project, benchmark, machine and environment loaded."""
    metric = METRICS[series.metric]
    return {
        "id": series.pk,
        "project": series.project.slug,
        "benchmark": series.benchmark.name,
        "benchmark_digest": series.benchmark.digest,
        "metric": series.metric,
        "unit": metric.unit,
        "better": metric.better.value,
        "machine": series.machine.name,
        "environment": series.environment.digest,
        "environment_id": series.environment_id,
        "url": f"/api/v1/series/{series.pk}",
        "points_url": f"/api/v1/series/{series.pk}/points",
    }


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


class MeasurementDocument(Document):
    """A run's samples of one series for one commit, with their summary."""

    id: int
    project: str
    series: int
    benchmark: Text
    metric: str
    unit: str
    machine: str
    sha: str
    run: int
    attempt: int
    side: str = Field(description="of a paired run: `head` or `base`")
    is_paired: bool = Field(description="evidence of a change, not a point of the line")
    is_accepted: bool = Field(description="charts show it; else its attempt was lost, or goes on")
    value: float | None = Field(description="median of the samples, in the unit of the metric")
    low: float | None = Field(description="lower end of the median's 95% interval")
    high: float | None
    n: int
    flags: list[str] = Field(description="why the value is not to be trusted")
    samples: list[float | None] | None = Field(
        description="raw values by the number of their trial; null in the list where a trial gave none; null: deleted"
    )
    flagged: list[int] = Field(description="numbers of the trials with a flag that voids this metric")
    url: str

    @staticmethod
    def of(measurement: Measurement) -> "MeasurementDocument":
        return MeasurementDocument(**measurement_fields(measurement))


def measurement_fields(measurement: Measurement) -> dict[str, Any]:
    """The fields of a measurement's document.

    ``measurement`` has its samples, attempt, commit and series loaded; the series has its project, benchmark and
    machine loaded.
    """
    samples = getattr(measurement, "samples", None)
    series = measurement.series
    return {
        "id": measurement.pk,
        "project": series.project.slug,
        "series": series.pk,
        "benchmark": series.benchmark.name,
        "metric": series.metric,
        "unit": METRICS[series.metric].unit,
        "machine": series.machine.name,
        "sha": measurement.commit.sha,
        "run": measurement.attempt.run_id,
        "attempt": measurement.attempt.number,
        "side": measurement.side,
        "is_paired": measurement.paired,
        "is_accepted": measurement.accepted,
        "value": measurement.value,
        "low": measurement.low,
        "high": measurement.high,
        "n": measurement.n,
        "flags": measurement.flags,
        "samples": samples.values if samples else None,
        "flagged": (samples.flagged or []) if samples else [],
        "url": f"/api/v1/measurements/{measurement.pk}",
    }


class TrialDocument(Document):
    """One fresh server process, measured once."""

    number: int
    order: int = Field(description="place in the attempt: trials are interleaved in seeded random order")
    started_at: Time
    seconds: float
    flags: list[str]

    @staticmethod
    def of(trial: Trial) -> "TrialDocument":
        return TrialDocument(
            number=trial.number,
            order=trial.order,
            started_at=trial.started_at,
            seconds=trial.seconds,
            flags=trial.flags,
        )


class OriginDocument(Document):
    """What a measurement from outside states about itself."""

    import_id: int | None = Field(description="the batch with which it came")
    measured_at: Time | None
    id: Text = Field(description="by which its sender tells it from others; empty: none")
    page: Text = Field(description="address of a page about it; empty: none")
    tags: dict[str, Text]

    @staticmethod
    def of(measurement: Measurement) -> "OriginDocument | None":
        """The document of a measurement with its attempt's run loaded; None if a runner measured it."""
        origin = getattr(measurement, "origin", None)
        if origin is None:
            return None
        return OriginDocument(
            import_id=measurement.attempt.run.imported_id,
            measured_at=origin.measured_at,
            id=origin.external_id,
            page=origin.url,
            tags=origin.tags or {},
        )


class MeasurementDetails(MeasurementDocument):
    """A measurement with its trials and where it comes from."""

    trials: list[TrialDocument] = Field(description="none, once retention has deleted them")
    origin: OriginDocument | None = Field(description="of one that was measured elsewhere; null: a runner measured it")

    @staticmethod
    def made_of(measurement: Measurement, trials: Iterable[Trial]) -> "MeasurementDetails":
        return MeasurementDetails(
            **measurement_fields(measurement),
            trials=[TrialDocument.of(trial) for trial in trials],
            origin=OriginDocument.of(measurement),
        )
