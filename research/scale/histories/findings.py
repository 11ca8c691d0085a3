"""Findings in the histories: change points, the pairs that settled them, alerts, messages, floors, canaries."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import numpy as np
from django.utils import timezone

from research.scale.histories.copying import Ids
from research.scale.histories.measurements import WITHIN, MeasurementBatch, Step, make_trials, store, watched_metrics
from research.scale.histories.runs import EndedRun, make_ended
from research.scale.histories.world import Story
from speedtrack.alerts.models import Alert, AlertEvent, ChangePoint, NoiseFloor, Verdict
from speedtrack.benchmarks.storing import store_set
from speedtrack.notices.models import Outbox, Subscriber, Subscription
from speedtrack.runs.models import Canary, CanaryCheck, Series

PAIRS = 10
OPEN_EVERY = 4  # of so many alerts one is still open
SUBSCRIBERS = 5


def make_alerts(id_pool: Ids, story: Story, steps: Sequence[Step], rng: np.random.Generator, now: datetime) -> None:
    """Each step was suspected, settled by pairs on each machine, and raised an alert."""
    for number, step in enumerate(steps):
        alert = Alert.objects.create(
            project=story.project,
            branch=story.branch,
            before_id=int(story.commits[step.before]),
            commit_id=int(story.commits[step.position]),
            status="confirmed" if number % OPEN_EVERY == 0 else "expected",
            improvement=step.ratio < 1,
        )
        AlertEvent.objects.create(alert=alert, kind="raised", after="confirmed", untold=False)
        Outbox.objects.bulk_create(
            Outbox(recipient=f"s{subscriber}@example.org", alert=alert, event="raised", sent_at=timezone.now())
            for subscriber in range(SUBSCRIBERS)
        )
        settle(id_pool, story, step, alert, rng, now)


def settle(id_pool: Ids, story: Story, step: Step, alert: Alert, rng: np.random.Generator, now: datetime) -> None:
    """One paired run per machine, of the benchmarks that moved; a change point of each watched series."""
    watched = watched_metrics(story)
    benchmark_set = store_set(story.suite, [story.benchmarks[index] for index in step.benchmarks])
    rows = [
        EndedRun(step.position, machine, "confirm", step.before, benchmark_set.pk, watched, PAIRS)
        for machine in story.machines
    ]
    stored_runs = make_ended(id_pool, story, rows, now)
    series = story.series[:, -1][:, step.benchmarks]
    levels = story.levels[:, step.benchmarks]
    for side, position, factor in (("base", step.before, 1.0), ("head", step.position, step.ratio)):
        samples = factor * levels[..., None] * np.exp(WITHIN * rng.normal(size=(*levels.shape, PAIRS)))
        count = series.size
        attempts = np.repeat(stored_runs.attempts, count // len(rows))
        commits = np.full(count, story.commits[position])
        batch = MeasurementBatch(attempts, series.ravel(), commits, samples.reshape(-1, PAIRS))
        store(id_pool, batch, side, paired=True)
    if step.position in story.measured_positions[-200:]:
        make_trials(id_pool, story, stored_runs, rows, step.benchmarks)
    make_change_points(story, step, alert, dict(zip(range(len(rows)), stored_runs.runs.tolist(), strict=True)))


def make_change_points(story: Story, step: Step, alert: Alert, runs: dict[int, int]) -> None:
    interval = {"ratio": step.ratio, "low": step.ratio * 0.99, "high": step.ratio * 1.01}
    ends = {"before_id": alert.before_id, "commit_id": alert.commit_id}
    for machine, run in runs.items():
        for benchmark in step.benchmarks:
            for metric in range(len(watched_metrics(story))):
                point = ChangePoint.objects.create(
                    series_id=int(story.series[machine, -1, benchmark, metric]),
                    branch=story.branch,
                    status="confirmed",
                    score=2.0,
                    alert=alert,
                    settled_at=timezone.now(),
                    **interval,
                    **ends,
                )
                point.runs.add(run)
                Verdict.objects.create(
                    change_point=point,
                    base_id=alert.before_id,
                    commit_id=alert.commit_id,
                    answer="different",
                    p=0.001,
                    pairs=PAIRS,
                    **interval,
                )


def make_suspicions(story: Story, count: int, rng: np.random.Generator) -> None:
    """Suspicions that pairs refuted, and a few that wait to be settled."""
    last = len(story.measured_positions) - 1
    suspicions = []
    for number in range(count):
        index = int(rng.integers(1, last + 1))
        machine, benchmark = (int(rng.integers(size)) for size in (len(story.machines), len(story.benchmarks)))
        suspicions.append(
            ChangePoint(
                series_id=int(story.series[machine, -1, benchmark, 0]),
                branch=story.branch,
                before_id=int(story.commits[story.measured_positions[index - 1]]),
                commit_id=int(story.commits[story.measured_positions[index]]),
                status=("refuted", "refuted", "unsettled", "history")[number % 4],
                ratio=1.02,
                low=1.0,
                high=1.04,
                score=1.1,
                settled_at=timezone.now(),
            )
        )
    ChangePoint.objects.bulk_create(suspicions, batch_size=2000)


def make_subscribers(count: int) -> None:
    for number in range(count):
        subscriber = Subscriber.objects.create(email=f"s{number}@example.org")
        Subscription.objects.create(subscriber=subscriber)


def make_floors(id_pool: Ids, story: Story, now: datetime) -> None:
    """One A/A run per machine, with the noise floors of its watched series."""
    position = story.measured_positions[-1]
    rows = [EndedRun(position, machine, "aa", position, trials=PAIRS) for machine in story.machines]
    stored_runs = make_ended(id_pool, story, rows, now)
    watched = len(watched_metrics(story))
    floor = {"pairs": PAIRS, "deviation": 0.008, "ratio": 1.0, "low": 0.995, "high": 1.005, "smallest": 0.012}
    NoiseFloor.objects.bulk_create(
        [
            NoiseFloor(series_id=int(series), run_id=run, **floor)
            for machine, run in enumerate(stored_runs.runs.tolist())
            for series in story.series[machine, -1, :, :watched].ravel()
        ],
        batch_size=2000,
    )


def make_canaries(id_pool: Ids, story: Story, count: int, now: datetime) -> None:
    """A canary of each machine, with as many checks."""
    for number, machine in enumerate(story.machines):
        canary = Canary.objects.create(
            machine=machine,
            project=story.project,
            commit_id=int(story.commits[story.measured_positions[0]]),
            suite=story.suite,
            benchmark_set=story.benchmark_set,
            artifacts={"server": "sha256:" + "a" * 64},
        )
        ends = [now - timedelta(hours=count - check_number) for check_number in range(count)]
        rows = [
            EndedRun(story.measured_positions[0], machine, "canary", canary=canary.pk, round=check_number, ended_at=end)
            for check_number, end in enumerate(ends)
        ]
        stored_runs = make_ended(id_pool, story, rows, now)
        series = Series.objects.get(pk=int(story.series[number, -1, 0, 0]))
        ratios = np.random.default_rng(number).normal(1, 0.005, size=len(rows)).tolist()
        CanaryCheck.objects.bulk_create(
            CanaryCheck(
                run_id=run,
                canary=canary,
                at=end,
                answer="steady",
                series=series,
                ratio=ratio,
                limit=0.03,
            )
            for run, ratio, end in zip(stored_runs.runs.tolist(), ratios, ends, strict=True)
        )
