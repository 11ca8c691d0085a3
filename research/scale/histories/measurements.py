"""Measurements with their samples, and trials with their documents."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import numpy as np

from research.scale.histories import judgements
from research.scale.histories.copying import (
    Array,
    Column,
    Ids,
    array_of_smallints,
    arrays_of_floats,
    constant,
    copy_columns,
    copy_rows,
    flags,
    floats,
    ids,
    integers,
    smallints,
)
from research.scale.histories.runs import EndedRun, SucceededRuns, make_ended
from research.scale.histories.sizes import TRIALS
from research.scale.histories.world import METRICS, Story, golden
from speedtrack.runs import packing
from speedtrack.stats.histogram import Recorded, encode, inflate, parse

AT_ONCE = 200_000  # measurements
BETWEEN, WITHIN = 0.008, 0.004  # relative standard deviation of runs, and of the trials of a run
STEP_EVERY = 40  # measured commits
STOPPING = json.dumps({"reason": "target", "half_width": 0.0123, "target": 0.01, "trials": TRIALS, "thrown_out": 0})
HISTOGRAM = "HISTFAAA"  # how each latency histogram begins
HISTOGRAMS = 200  # different ones; trials of one result, which are compressed together, seldom have the same
DRIVER_BUCKET = 4  # buckets of a histogram of three digits: 2^10 to a power of two, the driver has 2^8
DRIVER_BUCKET_WIDTH = np.log(2) / 2**8  # relative, in the mean
FLAGGED_SHARE = 0.01


@dataclass(frozen=True)
class Step:
    """From this position on, some benchmarks of a story have another level."""

    position: int
    before: int  #: the measured position before it
    benchmarks: list[int]
    ratio: float


@dataclass(frozen=True)
class MeasuredPart:
    """Measured commits of a story: on the machines with these numbers, in one era."""

    story: Story
    positions: list[int]
    machines: list[int]
    era: int


def steps_of(story: Story, rng: np.random.Generator) -> list[Step]:
    """Every second step goes back where the one before came from, so that levels stay within bounds."""
    steps: list[Step] = []
    count = len(story.benchmarks)
    for index in range(STEP_EVERY // 2, len(story.measured_positions), STEP_EVERY):
        if len(steps) % 2:
            benchmarks, ratio = steps[-1].benchmarks, 1 / steps[-1].ratio
        else:
            benchmarks = sorted(rng.choice(count, size=min(count, 3), replace=False).tolist())
            ratio = float(np.exp(rng.uniform(0.04, 0.15)))
        steps.append(Step(story.measured_positions[index], story.measured_positions[index - 1], benchmarks, ratio))
    return steps


def level_factors(story: Story, steps: Sequence[Step], positions: Array) -> Array:
    """By position and benchmark: the level relative to the first commit."""
    factors = np.ones((len(positions), len(story.benchmarks)))
    for step in steps:
        affected = np.isin(np.arange(len(story.benchmarks)), step.benchmarks)
        factors[(positions >= step.position)[:, None] & affected[None]] *= step.ratio
    return factors


def measure(
    id_pool: Ids, measured_part: MeasuredPart, steps: Sequence[Step], rng: np.random.Generator, now: datetime
) -> None:
    """A run of each of these commits on each of these machines."""
    story = measured_part.story
    per_commit = len(measured_part.machines) * len(story.benchmarks) * len(story.metrics)
    many = max(1, AT_ONCE // per_commit)
    positions_so_far: list[int] = []
    medians = np.empty((0, len(measured_part.machines), len(story.benchmarks), len(story.metrics)))
    for begin in range(0, len(measured_part.positions), many):
        positions = np.array(measured_part.positions[begin : begin + many])
        rows = [EndedRun(int(position), story.machines[m]) for position in positions for m in measured_part.machines]
        stored_runs = make_ended(id_pool, story, rows, now)
        factors = level_factors(story, steps, positions)
        values = story.levels[None, measured_part.machines] * factors[:, None, :, None]
        values = values * np.exp(BETWEEN * rng.normal(size=values.shape))
        samples = values[..., None] * np.exp(WITHIN * rng.normal(size=(*values.shape, TRIALS)))
        shape = values.shape
        runs = stored_runs.attempts.reshape(shape[0], shape[1], 1, 1)
        series = story.series[None, measured_part.machines, measured_part.era]
        batch = MeasurementBatch(
            attempts=np.broadcast_to(runs, shape).ravel(),
            series=np.broadcast_to(series, shape).ravel(),
            commits=np.repeat(story.commits[positions], per_commit),
            samples=samples.reshape(-1, TRIALS),
        )
        flagged = rng.random(len(batch.series)) < FLAGGED_SHARE
        store(id_pool, batch.where(~flagged), "head", paired=False)
        store(id_pool, batch.where(flagged), "head", paired=False, flag="unsteady")
        positions_so_far = [*positions_so_far[-1:], *positions.tolist()]
        medians = np.concatenate([medians[-1:], np.median(samples, axis=-1)])
        judgements.compare(story, positions_so_far, series, medians)


@dataclass(frozen=True)
class MeasurementBatch:
    """Columns of measurements, with the samples of each."""

    attempts: Array
    series: Array
    commits: Array
    samples: Array

    def where(self, mask: Array) -> "MeasurementBatch":
        return MeasurementBatch(*(column[mask] for column in vars(self).values()))


def store(id_pool: Ids, batch: MeasurementBatch, side: str, paired: bool, flag: str = "") -> None:
    rows, trials = batch.samples.shape
    if not rows:
        return
    ordered = np.sort(batch.samples, axis=1)
    outer = 0 if trials < 9 else 1  # as stats.summary has it for five and ten samples
    pk = id_pool.take("runs_measurement", rows)
    columns: dict[str, Column] = {
        "id": ids(pk),
        "attempt_id": ids(batch.attempts),
        "series_id": integers(batch.series),
        "commit_id": integers(batch.commits),
        "side": constant(side.encode()),
        "value": floats(np.median(ordered, axis=1)),
        "low": floats(ordered[:, outer]),
        "high": floats(ordered[:, -1 - outer]),
        "n": smallints(trials),
        "flags": constant(flag.encode()),
        "paired": flags(paired),
        "accepted": flags(True),
    }
    copy_columns("runs_measurement", columns, rows)
    samples = {"measurement_id": ids(pk), "values": arrays_of_floats(batch.samples)}
    if flag:
        samples["flagged"] = constant(array_of_smallints(range(trials)))
    copy_columns("runs_samples", samples, rows)


def make_trials(
    id_pool: Ids, story: Story, stored_runs: SucceededRuns, rows: Sequence[EndedRun], benchmarks: Sequence[int]
) -> None:
    """The trials of runs with their documents: the golden one, its numbers changed a little."""
    rng = np.random.default_rng(len(rows))
    result_keys = [
        (attempt, run, benchmark, side)
        for attempt, run in zip(stored_runs.attempts.tolist(), rows, strict=True)
        for benchmark in benchmarks
        for side in (("head", "base") if run.base is not None else ("head",))
    ]
    numbers = id_pool.take("runs_result", len(result_keys)).tolist()
    pattern = golden()["trials"][0]

    def result_rows() -> Iterator[tuple[Any, ...]]:
        for pk, (attempt, run, benchmark, side) in zip(numbers, result_keys, strict=True):
            documents = [{"trial": trial} | varied_parts(pattern, rng) for trial in range(run.trials)]
            yield pk, attempt, story.benchmarks[benchmark].pk, side, STOPPING, True, packing.pack(documents)

    def trial_rows() -> Iterator[tuple[Any, ...]]:
        for pk, (_, run, _, _) in zip(numbers, result_keys, strict=True):
            for trial in range(run.trials):
                yield pk, trial, trial, pattern["started_at"], pattern["seconds"], []

    columns = "id, attempt_id, benchmark_id, side, stopping, repeatable, documents"
    copy_rows("runs_result", columns, result_rows())
    copy_rows("runs_trial", 'result_id, number, "order", started_at, seconds, flags', trial_rows())


def varied_parts(pattern: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {name: varied(pattern[name], rng) for name in ("quiet", "server", "reproduce", "driver")}


def varied(value: Any, rng: np.random.Generator) -> Any:
    """The document with each fraction changed by about a per cent, and another histogram."""
    if isinstance(value, dict):
        return {key: varied(inner, rng) for key, inner in value.items()}
    if isinstance(value, list):
        return [varied(inner, rng) for inner in value]
    if isinstance(value, str) and value.startswith(HISTOGRAM):
        return histograms()[rng.integers(HISTOGRAMS)]
    return round(value * (1 + 0.01 * rng.normal()), 5) if isinstance(value, float) else value


@cache
def histograms() -> list[str]:
    """The golden histogram, each time a little faster or slower, with counts as another trial would have them."""
    rng = np.random.default_rng(HISTOGRAMS)
    recorded = parse(inflate(golden()["trials"][0]["driver"]["tests"][-1]["latency_hdr_v2"]))
    return [encode(varied_counts(recorded, rng)) for _ in range(HISTOGRAMS)]


def varied_counts(recorded: Recorded, rng: np.random.Generator) -> Recorded:
    """Moved by some of the driver's buckets, which are as wide as DRIVER_BUCKET of the histogram's."""
    shift = round(0.02 / DRIVER_BUCKET_WIDTH * rng.normal())
    counts = rng.poisson(recorded.counts)
    return Recorded(recorded.header, recorded.buckets[counts > 0] + DRIVER_BUCKET * shift, counts[counts > 0])


def watched_metrics(story: Story) -> list[str]:
    return [name for name in story.metrics if name in list(METRICS)[:2]]
