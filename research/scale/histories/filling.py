"""Fill an empty database with histories."""

import time
from collections.abc import Callable
from datetime import datetime

import numpy as np
from django.db import connection, transaction

from research.scale.histories import commits, findings, measurements, runs
from research.scale.histories.copying import Ids
from research.scale.histories.measurements import MeasuredPart, Step
from research.scale.histories.sizes import HistorySizes
from research.scale.histories.world import Story, make_stories
from speedtrack.alerts.lines import sensitivity
from speedtrack.alerts.lines.effects import EffectsOfProjects
from speedtrack.retention import indexes
from speedtrack.runs.models import Attempt, Machine, Series

CANARY_CHECKS = 60
ANNOTATIONS = 200  # of each large project
CHECKED = 100_000  # measurements: up to here PostgreSQL checks each foreign key, which takes longer than the rows


def fill(write: Callable[[], object], rows: int) -> None:
    """Call ``write`` in one transaction: a filling that was interrupted leaves the database empty.

    ``rows``: about how many measurements it writes.
    """
    began_at = time.monotonic()
    with transaction.atomic():
        with connection.cursor() as cursor:
            if rows > CHECKED:
                cursor.execute("SET LOCAL session_replication_role = replica")
        write()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
    indexes.rebuild_sparse()  # as the first night does
    sensitivity.judge(Series.objects.select_related("benchmark"), EffectsOfProjects())
    print(f"filled in {time.monotonic() - began_at:.0f} s", flush=True)


def write_histories(sizes: HistorySizes) -> None:
    id_pool, rng, now = Ids(), np.random.default_rng(sizes.seed), commits.today()
    wide, long, small = make_stories(sizes)
    machines = list(Machine.objects.order_by("pk"))
    findings.make_subscribers(findings.SUBSCRIBERS)
    unmeasured = -(-sizes.waiting_runs // len(machines))
    write_wide(id_pool, wide, sizes, unmeasured, rng, now)
    write_long(id_pool, long, sizes, rng, now)
    for story in small:
        write_small(id_pool, story, sizes.small_commits, rng, now)
    runs.make_waiting(id_pool, wide, machines, sizes.waiting_runs, now)
    commits.make_deliveries(id_pool, wide, sizes.deliveries, now)
    for story in (wide, long):
        commits.make_annotations(story, ANNOTATIONS, now)
    id_pool.hand_over()


def write_wide(
    id_pool: Ids, story: Story, sizes: HistorySizes, unmeasured: int, rng: np.random.Generator, now: datetime
) -> None:
    commits.make_commits(id_pool, story, unmeasured + sizes.wide_commits, now)
    commits.make_branches(story, sizes.branches)
    story.measured_positions = list(range(unmeasured, unmeasured + sizes.wide_commits))
    everywhere = list(range(len(story.machines)))
    write_results(id_pool, [MeasuredPart(story, story.measured_positions, everywhere, 0)], rng, now)
    findings.make_suspicions(story, sizes.wide_commits * 4, rng)
    findings.make_canaries(id_pool, story, CANARY_CHECKS, now)
    document_newest(id_pool, story, sizes.documented)


def write_long(id_pool: Ids, story: Story, sizes: HistorySizes, rng: np.random.Generator, now: datetime) -> None:
    """The first machine measured all commits, the others the newer half; the environment changed in the first half."""
    count = sizes.long_commits
    commits.make_commits(id_pool, story, count, now)
    story.measured_positions = list(range(count))
    change, half = count * 3 // 10, count // 2
    everywhere = list(range(len(story.machines)))
    measured_parts = [
        MeasuredPart(story, story.measured_positions[:change], [0], 0),
        MeasuredPart(story, story.measured_positions[change:half], [0], 1),
        MeasuredPart(story, story.measured_positions[half:], everywhere, 1),
    ]
    Series.objects.filter(pk__in=story.series[1:, 0].ravel().tolist()).delete()  # the others began in the newer half
    write_results(id_pool, measured_parts, rng, now)
    findings.make_suspicions(story, count // 100, rng)


def write_small(id_pool: Ids, story: Story, count: int, rng: np.random.Generator, now: datetime) -> None:
    commits.make_commits(id_pool, story, count, now)
    commits.make_branches(story, 2)
    story.measured_positions = list(range(count))
    write_results(
        id_pool, [MeasuredPart(story, story.measured_positions, list(range(len(story.machines))), 0)], rng, now
    )


def write_results(id_pool: Ids, measured_parts: list[MeasuredPart], rng: np.random.Generator, now: datetime) -> None:
    story = measured_parts[0].story
    steps: list[Step] = measurements.steps_of(story, rng)
    for measured_part in measured_parts:
        measurements.measure(id_pool, measured_part, steps, rng, now)
    findings.make_alerts(id_pool, story, steps, rng, now)
    findings.make_floors(id_pool, story, now)


def document_newest(id_pool: Ids, story: Story, count: int) -> None:
    """The trials of the newest commits' runs with their documents. Those of older runs would be pruned."""
    newest = {int(story.commits[position]): position for position in story.measured_positions[-count:]}
    attempts = Attempt.objects.filter(run__project=story.project, run__reason="push", run__commit__in=newest)
    newest_attempts = list(attempts.select_related("run__machine").order_by("pk"))
    rows = [runs.EndedRun(newest[attempt.run.commit_id], attempt.run.machine) for attempt in newest_attempts]
    numbers = np.array([attempt.pk for attempt in newest_attempts])
    measurements.make_trials(id_pool, story, runs.SucceededRuns(numbers, numbers), rows, range(len(story.benchmarks)))
