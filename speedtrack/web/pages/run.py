"""A run: its status, progress, log, trials and measurements."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import Http404

from speedtrack.benchmarks.metrics import METRICS, Metric
from speedtrack.retention import policies
from speedtrack.runs import reproduce
from speedtrack.runs.models import (
    ACTIVE,
    Attempt,
    Build,
    LogChunk,
    Measurement,
    Result,
    Run,
    RunEvent,
    Status,
)
from speedtrack.runs.rates import members_of
from speedtrack.text import plain
from speedtrack.web.pages.facts import FactGroups
from speedtrack.web.pages.faults import Fault, faults_of
from speedtrack.web.pages.phases import Phases, TrialChart, TrialRow, phases_of, trial_chart, trials_of
from speedtrack.web.pages.placement import ShownPlacement, environment_of, placement_of

LOG_TAIL = 16_000  # characters of the log that the page shows
TAIL_CHUNKS = 12
TRIALS = 400
MOST_SCRIPTS = 6  # shown on the page itself
#: By policy: the beginning of a sentence about what it has deleted of a run.
LACKING = {
    "logs": "Its log was",
    "samples": "Its trials and their samples were",
    "documents": "What its trials reported, and the script that repeats them, were",
    "events": "The changes of its status were",
}


class MeasurementRow(NamedTuple):
    """What the page shows of a measurement."""

    benchmark: str
    metric: Metric
    side: str
    value: float
    low: float
    high: float
    n: int
    flags: list[str]
    accepted: bool


@dataclass(frozen=True)
class ReportedProgress:
    done: int
    total: int
    now: str

    @property
    def percent(self) -> int:
        return round(100 * self.done / self.total) if self.total else 0


@dataclass(frozen=True)
class ReproduceScript:
    """The script that repeats one measurement by hand; empty where the page only links to it."""

    benchmark: str
    side: str
    script: str


@dataclass(frozen=True)
class RunPage:
    run: Run
    live: bool
    progress: ReportedProgress | None
    ahead: int
    benchmarks: int
    log: str
    log_cut: bool
    builds: list[Build]
    events: list[RunEvent]
    measured: list[MeasurementRow]
    trials: list[TrialRow]
    trial_count: int
    chart: TrialChart | None
    phases: Phases | None
    placement: ShownPlacement | None
    facts: FactGroups | None
    faults: list[Fault]
    scripts: list[ReproduceScript]
    deleted: list[str]  #: sentences about what was here


def run_or_404(pk: int) -> Run:
    run = Run.objects.select_related("project", "commit", "base", "machine", "suite").filter(pk=pk).first()
    if run is None:
        raise Http404(f"There is no run {pk}. {policies.POLICIES['canaries'].rule}")
    return run


def load(pk: int) -> RunPage:
    run = run_or_404(pk)
    attempt = run.attempts.order_by("pk").last()
    log, cut = attempt_log_tail(attempt)
    results = results_of(attempt)
    events, trials, scripts = list(run.events.order_by("pk")), trials_of(results), reproduce_scripts(run, results)
    builds = list(Build.objects.filter(attempt=attempt).select_related("commit").order_by("pk"))
    measured, environment = measurement_rows(run, attempt), environment_of(attempt)
    placement = placement_of(environment.facts) if environment else None
    lacking = {
        "logs": not log,
        "samples": bool(results) and not trials,
        "documents": any(one.repeatable for one in results) and not scripts,
        "events": not events,
    }
    return RunPage(
        run=run,
        live=not run.done,
        progress=progress_of(run),
        ahead=ahead_of(run) if run.status == Status.QUEUED else 0,
        benchmarks=len(members_of(run.benchmark_set_id)),
        log=log,
        log_cut=cut,
        builds=builds,
        events=events,
        measured=measured,
        trials=trials[:TRIALS],
        trial_count=len(trials),
        chart=trial_chart(run, results, trials),
        phases=phases_of(run, attempt, builds, results, trials),
        placement=placement,
        facts=FactGroups.of(environment.facts.get("series", {})) if environment else None,
        faults=faults_of(run, trials, (flag for row in measured for flag in row.flags)),
        scripts=scripts,
        deleted=deletions_in_words(run, [name for name, is_so in lacking.items() if is_so]),
    )


def deletions_in_words(run: Run, lacking: Collection[str]) -> list[str]:
    """A sentence for each policy that has deleted what an ended run lacks."""
    deletions = policies.deletions(run.ended_at) if run.done and lacking else {}
    return [f"{LACKING[name]} {deletions[name]}." for name in lacking if name in deletions]


def progress_of(run: Run) -> ReportedProgress | None:
    """The progress that the runner reported last; None for a run that is not active."""
    if run.status not in ACTIVE:
        return None
    reported = run.progress or {}
    return ReportedProgress(
        reported.get("done", 0), reported.get("total", 0), str(reported.get("now", "the runner has claimed it"))
    )


def ahead_of(run: Run) -> int:
    """How many waiting runs the machine would take before this one now."""
    more = Q(priority__gt=run.priority)
    newer = Q(priority=run.priority, rank__gt=run.rank)
    older = Q(priority=run.priority, rank=run.rank, pk__lt=run.pk)
    return Run.objects.filter(more | newer | older, machine=run.machine, status=Status.QUEUED).count()


def attempt_log_tail(attempt: Attempt | None) -> tuple[str, bool]:
    """The end of an attempt's log, and whether anything precedes it."""
    chunks = list(LogChunk.objects.filter(attempt=attempt).order_by("-seq")[:TAIL_CHUNKS])
    text = plain("".join(c.text for c in reversed(chunks)))
    return text[-LOG_TAIL:], len(text) > LOG_TAIL or len(chunks) == TAIL_CHUNKS


def whole_log(run: Run, phase: str | None) -> Iterator[str]:
    """The log of all attempts, in pieces."""
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
    if before is None:
        yield "".join(f"{sentence}\n" for sentence in deletions_in_words(run, ["logs"]))


def measurement_rows(run: Run, attempt: Attempt | None) -> list[MeasurementRow]:
    """The attempt's measurements, ordered by benchmark, metric and side."""
    order = {name: place for place, name in enumerate(METRICS)}
    columns = ("series__benchmark__name", "series__metric", *MeasurementRow._fields[2:])
    found = Measurement.objects.filter(attempt=attempt).values_list(*columns)
    rows = [MeasurementRow(benchmark, METRICS[metric], *rest) for benchmark, metric, *rest in found]
    return sorted(rows, key=lambda r: (r.benchmark, order[r.metric.name], r.side))


def results_of(attempt: Attempt | None) -> list[Result]:
    """What an attempt sent of each benchmark on each side, without the documents."""
    found = Result.objects.filter(attempt=attempt).select_related("benchmark").order_by("benchmark__name", "side")
    documented = ExpressionWrapper(Q(documents__isnull=False), BooleanField())
    return list(found.annotate(documented=documented).defer("documents", "benchmark__definition", "benchmark__why"))


def repeatable_results(run: Run) -> QuerySet[Result]:
    """Each benchmark on each side whose first trial has its recipe."""
    attempt = run.attempts.order_by("pk").last()
    found = Result.objects.filter(attempt=attempt, repeatable=True, documents__isnull=False)
    return found.select_related("benchmark").defer("benchmark__definition").order_by("benchmark__name", "side")


def reproduce_scripts(run: Run, results: Sequence[Result]) -> list[ReproduceScript]:
    """The script of each benchmark on each side; of many, only where they are."""
    again = [one for one in results if one.repeatable and getattr(one, "documented", False)]
    if len(again) > MOST_SCRIPTS:
        return [ReproduceScript(one.benchmark.name, one.side, "") for one in again]
    texts = reproduce.scripts_of(run, repeatable_results(run)) if again else []
    return [ReproduceScript(one.benchmark.name, one.side, text) for one, text in zip(again, texts, strict=True)]


def named_script(pk: int, benchmark: str | None, side: str | None) -> str:
    """The script of this benchmark and side; where None is given, of any."""
    run = run_or_404(pk)
    found = repeatable_results(run)
    if benchmark is not None:
        found = found.filter(benchmark__name=benchmark)
    if side is not None:
        found = found.filter(side=side)
    for text in reproduce.scripts_of(run, found[:1]):
        return text
    raise Http404(
        f"Run {pk} has no script for this measurement: no such benchmark and side, or stored without the recipe. "
        + " ".join(deletions_in_words(run, ["documents"]))
    )
