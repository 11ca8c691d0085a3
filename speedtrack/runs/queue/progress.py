"""How far active runs are and how long they still take, by what their runners report and by earlier runs like them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from speedtrack.benchmarks import numbers
from speedtrack.runs.models import ACTIVE, Run
from speedtrack.runs.queue import estimates
from speedtrack.runs.queue.estimates import DurationEstimate

BUILDING = "build "  # how the runner's word for what it does begins while it builds
ALMOST = 0.99


@dataclass(frozen=True)
class Progress:
    """How far an active run is: ``done`` of ``total`` trials.

    ``share``: of its present phase, from 0 to 1; ``left_s``: seconds until the run ends. None: unknown. ``late_s``: for
    how many seconds it should have ended.
    """

    done: int
    total: int
    now: str
    share: float | None = None
    left_s: float | None = None
    late_s: float = 0.0

    @property
    def part(self) -> str:
        if self.now.startswith(BUILDING):
            return "build"
        return "measure" if self.total else "start"

    @property
    def percent(self) -> int:
        return round(100 * (self.share or 0))

    @property
    def said(self) -> str:
        """The progress in words, such as ``build 41%, about 3 min left``."""
        phase = self.part if self.share is None else f"{self.part} {self.percent}%"
        if self.late_s:
            return f"{phase}, late by {numbers.about(self.late_s)}"
        return phase if self.left_s is None else f"{phase}, about {numbers.about(self.left_s)} left"

    @property
    def document(self) -> dict[str, Any]:
        return {"done": self.done, "total": self.total, "now": self.now, "percent": self.percent, "said": self.said}


def progress_of(
    runs: Sequence[Run], expected: Mapping[int, DurationEstimate | None] | None = None
) -> dict[int, Progress]:
    """By run id: the progress of those runs that are active.

    ``expected``: how long the runs take, by id; by default it is looked up here.
    """
    active = {run.pk: run for run in runs if run.status in ACTIVE}
    if active and expected is None:
        expected = estimates.of_runs(Run.objects.filter(pk__in=active))
    now = timezone.now()
    return {pk: progress_of_run(run, (expected or {}).get(pk), now) for pk, run in active.items()}


def progress_of_run(run: Run, expected: DurationEstimate | None, at: datetime) -> Progress:
    """What the runner reported, and what follows from the phases that are expected."""
    reported: dict[str, Any] = run.progress or {}
    trial_count, total = reported.get("done", 0), reported.get("total", 0)
    now = str(reported.get("now", "the runner has claimed it"))
    remaining_s = estimates.left_s(run, expected, at) if expected else None
    late = estimates.late_s(run, expected, at) if expected else 0.0
    if now.startswith(BUILDING):
        since = (at - run.started_at).total_seconds() if run.started_at else 0.0
        share = min(ALMOST, since / expected.build_s) if expected and expected.build_s else None
        return Progress(trial_count, total, now, share, remaining_s, late)
    return Progress(trial_count, total, now, trial_count / total if total else None, remaining_s, late)
