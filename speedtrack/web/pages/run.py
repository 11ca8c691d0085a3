"""A run: its status, progress, log, trials and measurements."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.http import Http404

from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.runs import reproduce
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
from speedtrack.text import plain

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
    stops: list[str]
    trials: list[Trial]
    recipes: list["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """How one measurement is repeated by hand."""

    benchmark: str
    side: str
    script: str


def run_or_404(pk: int) -> Run:
    run = Run.objects.select_related("project", "commit", "base", "machine", "suite").filter(pk=pk).first()
    if run is None:
        raise Http404(f"There is no run {pk}.")
    return run


def load(pk: int) -> RunPage:
    run = run_or_404(pk)
    attempts = list(run.attempts.order_by("pk"))
    attempt = attempts[-1] if attempts else None
    log, cut = log_tail(attempt)
    measured = measured_by(run, attempt)
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
        measured=measured,
        stops=stops_of(measured, run.paired),
        trials=list(trials_of(attempt)),
        recipes=recipes_of(run, attempt),
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
    rows = [Measured(m, m.series, METRICS[m.series.metric], m.side) for m in found]
    return sorted(rows, key=lambda r: (r.series.benchmark.name, order.index(r.metric.name), r.side))


STOPPED = {"target": "close enough", "cap": "no more are allowed", "fixed": "as many as were asked for"}


def stops_of(measured: list[Measured], paired: bool) -> list[str]:
    """Why the trials of each benchmark ended, one sentence each (of each side of a paired run)."""
    found = {(m.series.benchmark.name, m.side): m.measurement.stopping for m in measured if m.measurement.stopping}
    return [f"{name}{f' ({side})' if paired else ''}: {stopped(how)}" for (name, side), how in found.items()]


def stopped(how: dict[str, Any]) -> str:
    """A runner's ``stopping`` as a sentence."""
    width = "unknown" if how["half_width"] is None else f"±{how['half_width']:.2%}"
    dropped = f", {how['thrown_out']} thrown out and repeated" if how["thrown_out"] else ""
    return f"{how['trials']} trials{dropped}; median {width}, wanted ±{how['target']:.2%}: {STOPPED[how['reason']]}"


def trials_of(attempt: Attempt | None) -> Iterator[Trial]:
    found = Trial.objects.filter(attempt=attempt).defer("driver", "reproduce").select_related("benchmark")
    yield from found.order_by("order", "pk")[:TRIALS]


def recipes_of(run: Run, attempt: Attempt | None) -> list[Recipe]:
    """The scripts of the first trials, by benchmark and side."""
    found = Trial.objects.filter(attempt=attempt, number=0, reproduce__isnull=False).defer("driver")
    trials = found.select_related(
        "benchmark", "commit", "attempt__run__project", "attempt__run__suite", "attempt__run__machine"
    ).order_by("benchmark__name", "side")
    return [Recipe(trial.benchmark.name, trial.side, reproduce.script(trial)) for trial in trials]


def script(pk: int, benchmark: str | None, side: str | None) -> str:
    """One script as text: of the benchmark and side named, else the first. Raises Http404."""
    run = run_or_404(pk)
    for recipe in recipes_of(run, run.attempts.order_by("pk").last()):
        if benchmark in (None, recipe.benchmark) and side in (None, recipe.side):
            return recipe.script
    raise Http404(f"Run {pk} has no such measurement, or one from before it was kept how to repeat it.")
