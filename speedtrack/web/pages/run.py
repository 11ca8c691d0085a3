"""A run: its status, progress, log, trials and measurements."""

from collections.abc import Iterator
from dataclasses import dataclass

from django.http import Http404

from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.runs.models import (
    ACTIVE,
    Attempt,
    Build,
    LogChunk,
    Measurement,
    Run,
    RunEvent,
    Series,
    Status,
    Trial,
)
from speedtrack.web.text import plain

TAIL = 16_000  # characters of the log that the page shows
TAIL_CHUNKS = 12
TRIALS = 400


@dataclass(frozen=True)
class Measured:
    measurement: Measurement
    series: Series
    metric: Metric
    side: str


@dataclass(frozen=True)
class Progress:
    done: int
    total: int
    now: str

    @property
    def percent(self) -> int:
        return round(100 * self.done / self.total) if self.total else 0


@dataclass(frozen=True)
class RunPage:
    run: Run
    live: bool
    progress: Progress | None
    ahead: int
    attempts: list[Attempt]
    log: str
    log_cut: bool
    builds: list[Build]
    events: list[RunEvent]
    measured: list[Measured]
    trials: list[Trial]


def run_named(pk: int) -> Run:
    run = Run.objects.select_related("project", "commit", "base", "machine", "suite").filter(pk=pk).first()
    if run is None:
        raise Http404(f"There is no run {pk}.")
    return run


def load(pk: int) -> RunPage:
    run = run_named(pk)
    attempts = list(run.attempts.order_by("pk"))
    attempt = attempts[-1] if attempts else None
    log, cut = log_tail(attempt)
    return RunPage(
        run=run,
        live=not run.done,
        progress=progress_of(run),
        ahead=ahead_of(run) if run.status == Status.QUEUED else 0,
        attempts=attempts,
        log=log,
        log_cut=cut,
        builds=list(Build.objects.filter(attempt=attempt).select_related("commit").order_by("pk")),
        events=list(run.events.order_by("pk")),
        measured=measured_by(run, attempt),
        trials=list(trials_of(attempt)),
    )


def progress_of(run: Run) -> Progress | None:
    """How far the runner says it is; nothing yet just after the claim."""
    if run.status not in ACTIVE:
        return None
    told = run.progress or {}
    return Progress(told.get("done", 0), told.get("total", 0), str(told.get("now", "the runner begins")))


def ahead_of(run: Run) -> int:
    """How many waiting runs the machine takes before this one, as things are now."""
    queue = Run.objects.filter(machine=run.machine, status=Status.QUEUED)
    first = queue.filter(priority__gt=run.priority).count()
    newer = queue.filter(priority=run.priority, rank__gt=run.rank).count()
    return first + newer + queue.filter(priority=run.priority, rank=run.rank, pk__lt=run.pk).count()


def log_tail(attempt: Attempt | None) -> tuple[str, bool]:
    """The end of an attempt's log, and whether there is more before it."""
    chunks = list(LogChunk.objects.filter(attempt=attempt).order_by("-seq")[:TAIL_CHUNKS])
    text = plain("".join(c.text for c in reversed(chunks)))
    return text[-TAIL:], len(text) > TAIL or len(chunks) == TAIL_CHUNKS


def whole_log(run: Run, phase: str | None) -> Iterator[str]:
    """The log of all attempts, piece by piece."""
    chunks = LogChunk.objects.filter(attempt__run=run).order_by("attempt_id", "seq").select_related("attempt")
    if phase:
        chunks = chunks.filter(phase=phase)
    before: tuple[int, str] | None = None
    for chunk in chunks.iterator(chunk_size=16):
        now = (chunk.attempt.number, chunk.phase)
        if now != before:
            yield f"{'' if before is None else chr(10)}--- attempt {now[0]}, {plain(now[1])} ---\n"
        before = now
        yield plain(chunk.text)


def measured_by(run: Run, attempt: Attempt | None) -> list[Measured]:
    """The attempt's measurements: by benchmark, then metric, then side."""
    order = list(METRICS)
    found = Measurement.objects.filter(attempt=attempt).select_related("series__benchmark")
    rows = [
        Measured(m, m.series, METRICS[m.series.metric], "base" if m.commit_id == run.base_id else "head") for m in found
    ]
    return sorted(rows, key=lambda r: (r.series.benchmark.name, order.index(r.metric.name), r.side))


def trials_of(attempt: Attempt | None) -> Iterator[Trial]:
    found = Trial.objects.filter(attempt=attempt).defer("driver").select_related("benchmark", "commit")
    yield from found.order_by("order", "pk")[:TRIALS]
