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
    begun = time.monotonic()
    with transaction.atomic():
        with connection.cursor() as cursor:
            if rows > CHECKED:
                cursor.execute("SET LOCAL session_replication_role = replica")
        write()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM (ANALYZE)")
    indexes.rebuild_sparse()  # as the first night does
    sensitivity.judge(Series.objects.select_related("benchmark"), EffectsOfProjects())
    print(f"filled in {time.monotonic() - begun:.0f} s", flush=True)


def write_histories(sizes: HistorySizes) -> None:
    taken, rng, now = Ids(), np.random.default_rng(sizes.seed), commits.today()
    wide, long, small = make_stories(sizes)
    machines = list(Machine.objects.order_by("pk"))
    findings.make_subscribers(findings.SUBSCRIBERS)
    unmeasured = -(-sizes.waiting // len(machines))
    write_wide(taken, wide, sizes, unmeasured, rng, now)
    write_long(taken, long, sizes, rng, now)
    for story in small:
        write_small(taken, story, sizes.small_commits, rng, now)
    runs.make_waiting(taken, wide, machines, sizes.waiting, now)
    commits.make_deliveries(taken, wide, sizes.deliveries, now)
    for story in (wide, long):
        commits.make_annotations(story, ANNOTATIONS, now)
    taken.hand_over()


def write_wide(
    taken: Ids, story: Story, sizes: HistorySizes, unmeasured: int, rng: np.random.Generator, now: datetime
) -> None:
    commits.make_commits(taken, story, unmeasured + sizes.wide_commits, now)
    commits.make_branches(story, sizes.branches)
    story.measured = list(range(unmeasured, unmeasured + sizes.wide_commits))
    everywhere = list(range(len(story.machines)))
    write_results(taken, [MeasuredPart(story, story.measured, everywhere, 0)], rng, now)
    findings.make_suspicions(story, sizes.wide_commits * 4, rng)
    findings.make_canaries(taken, story, CANARY_CHECKS, now)
    document_newest(taken, story, sizes.documented)


def write_long(taken: Ids, story: Story, sizes: HistorySizes, rng: np.random.Generator, now: datetime) -> None:
    """The first machine measured all commits, the others the newer half; the environment changed in the first half."""
    count = sizes.long_commits
    commits.make_commits(taken, story, count, now)
    story.measured = list(range(count))
    change, half = count * 3 // 10, count // 2
    everywhere = list(range(len(story.machines)))
    parts = [
        MeasuredPart(story, story.measured[:change], [0], 0),
        MeasuredPart(story, story.measured[change:half], [0], 1),
        MeasuredPart(story, story.measured[half:], everywhere, 1),
    ]
    Series.objects.filter(pk__in=story.series[1:, 0].ravel().tolist()).delete()  # the others began in the newer half
    write_results(taken, parts, rng, now)
    findings.make_suspicions(story, count // 100, rng)


def write_small(taken: Ids, story: Story, count: int, rng: np.random.Generator, now: datetime) -> None:
    commits.make_commits(taken, story, count, now)
    commits.make_branches(story, 2)
    story.measured = list(range(count))
    write_results(taken, [MeasuredPart(story, story.measured, list(range(len(story.machines))), 0)], rng, now)


def write_results(taken: Ids, parts: list[MeasuredPart], rng: np.random.Generator, now: datetime) -> None:
    story = parts[0].story
    steps: list[Step] = measurements.steps_of(story, rng)
    for part in parts:
        measurements.measure(taken, part, steps, rng, now)
    findings.make_alerts(taken, story, steps, rng, now)
    findings.make_floors(taken, story, now)


def document_newest(taken: Ids, story: Story, count: int) -> None:
    """The trials of the newest commits' runs with their documents. Those of older runs would be pruned."""
    newest = {int(story.commits[position]): position for position in story.measured[-count:]}
    attempts = Attempt.objects.filter(run__project=story.project, run__reason="push", run__commit__in=newest)
    found = list(attempts.select_related("run__machine").order_by("pk"))
    rows = [runs.EndedRun(newest[one.run.commit_id], one.run.machine) for one in found]
    numbers = np.array([one.pk for one in found])
    measurements.make_trials(taken, story, runs.SucceededRuns(numbers, numbers), rows, range(len(story.benchmarks)))
