"""A run: its status, progress, log, trials and measurements."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from django.http import Http404

from speedtrack.accounts.access import Access
from speedtrack.ground.postgres.preparedquery import PreparedQuery
from speedtrack.reports.runs import RunDetails
from speedtrack.retention import policies
from speedtrack.runs.models import (
    Attempt,
    Build,
    Import,
    Origin,
    Result,
    Run,
    RunEvent,
    Status,
)
from speedtrack.runs.queue import estimates
from speedtrack.runs.queue.estimates import ExpectedTimes
from speedtrack.runs.queue.jobs import members_of
from speedtrack.runs.queue.progress import Progress, progress_of
from speedtrack.runs.results import logs, reproduce
from speedtrack.runs.results.logs import StoredLine
from speedtrack.runs.scheduling import states
from speedtrack.web.pages.running.duels import Duel
from speedtrack.web.pages.running.facts import FactGroups
from speedtrack.web.pages.running.faults import Fault, faults_of, out_of_reach, without_layouts
from speedtrack.web.pages.running.live import stream_of_run
from speedtrack.web.pages.running.phases import (
    Phases,
    ShownResult,
    TrialRow,
    phases_of,
)
from speedtrack.web.pages.running.placement import ShownPlacement, environment_before, environment_of, placement_of
from speedtrack.web.pages.running.results import AttemptResults
from speedtrack.web.requests.formats import rows_of

LOG_TAIL = 100  # lines of the log that the page shows
TRIALS = 400
LISTED_SCRIPTS = 60  # of more, one is chosen by its benchmark
SHOWN_URLS, SHOWN_VALUES = 5, 5  # of what was measured elsewhere
RELATED = ("project", "commit", "base", "machine", "imported")
MOST_SCRIPTS = 6  # shown on the page itself
#: By policy: the beginning of a sentence about what it has deleted of a run.
LACKING = {
    "logs": "Its log was",
    "samples": "Its trials and their samples were",
    "documents": "What its trials reported, and the script that repeats them, were",
    "events": "The changes of its status were",
}


@dataclass(frozen=True)
class ReproduceScript:
    """A script that repeats one measurement by hand; empty if the page only links to it."""

    benchmark: str
    side: str
    script: str


@dataclass(frozen=True)
class ShownOrigin:
    """Where the results of an import come from. ``urls``: pages about them; ``tags``: their common tags with values."""

    imported: Import
    first: datetime | None
    last: datetime | None
    urls: list[str]
    tags: list[tuple[str, list[str]]]

    @property
    def words(self) -> str:
        """Such as ``Measured elsewhere by pyperf 2.9.0 from 2026-03-01 12:00 UTC on, sent by ada through the API``."""
        imported = self.imported
        when = f"on {self.first:%Y-%m-%d %H:%M} UTC" if self.first else ""
        if self.first and self.last and self.last != self.first:
            when = f"from {self.first:%Y-%m-%d %H:%M} to {self.last:%Y-%m-%d %H:%M} UTC"
        opening = " ".join(filter(None, ("Measured elsewhere", imported.tool and f"by {imported.tool}", when)))
        sender, door = imported.name or "somebody without a token", imported.get_door_display().replace("`", "")
        return f"{opening}, sent by {sender} through {door}" + (f" from {imported.source}" if imported.source else "")


@dataclass(frozen=True)
class RunPage:
    run: Run
    live: bool
    progress: Progress | None
    expected: ExpectedTimes | None
    benchmarks: int
    log: list[StoredLine]
    log_lines: int
    stream: str
    version: str
    builds: list[Build]
    events: list[RunEvent]
    results: AttemptResults
    phases: Phases | None
    placement: ShownPlacement | None
    facts: FactGroups | None
    of_machine: bool  #: placement and facts are what the machine reported last before the attempt, which reported none
    faults: list[Fault]
    scripts: list[ReproduceScript]
    deleted: list[str]  #: sentences about what was here
    origin: ShownOrigin | None  #: of what was measured elsewhere

    @property
    def trials(self) -> list[TrialRow]:
        """The first trials of the page's benchmarks."""
        return self.results.shown_trials[:TRIALS]

    @property
    def scripted(self) -> list[str]:
        """The benchmarks with a script, if they are too many for a list."""
        return (
            list(dict.fromkeys(script.benchmark for script in self.scripts))
            if len(self.scripts) > LISTED_SCRIPTS
            else []
        )

    @property
    def duel(self) -> Duel:
        return Duel(self.run)

    @property
    def actions(self) -> list[tuple[str, str]]:
        """(last part of the address, label of the button) of each action that a person may do."""
        return [] if self.run.canary_id else ACTIONS.get(self.run.status, [])


#: What a person may do with a run, by its status.
ACTIONS: dict[str, list[tuple[str, str]]] = {
    Status.QUEUED: [("raise", "Measure it next"), ("cancel", "Cancel")],
    Status.LEASED: [("cancel", "Cancel")],
    Status.RUNNING: [("cancel", "Cancel")],
    Status.FAILED: [("retry", "Queue it again")],
    Status.CANCELLED: [("retry", "Queue it again")],
}


def run_of(pk: int) -> QuerySet[Run]:
    return Run.objects.select_related(*RELATED).filter(pk=pk)


def newest_attempt(run: int) -> QuerySet[Attempt]:
    of_run = Attempt.objects.filter(run=run).select_related(*(f"run__{name}" for name in RELATED))
    return of_run.order_by("-pk")[:1]


RUN, NEWEST_ATTEMPT = PreparedQuery(run_of), PreparedQuery(newest_attempt)


def run_or_404(pk: int) -> Run:
    runs = RUN.rows(pk=pk)
    if not runs:
        raise Http404(f"There is no run {pk}. {policies.POLICIES['canaries'].rule}")
    return runs[0]


def load(pk: int, access: Access, page: int = 1) -> RunPage:
    """The page of a run. ``page``: which of its benchmarks are shown, from 1."""
    attempt = next(iter(NEWEST_ATTEMPT.rows(run=pk)), None)
    run = attempt.run if attempt else run_or_404(pk)
    log, log_lines = logs.tail(pk, LOG_TAIL) if attempt else ([], 0)
    events, results = list(run.events.order_by("pk")), AttemptResults.of(run, attempt, page)
    scripts = reproduce_scripts(run, attempt, results.outcomes)
    builds = list(attempt.builds.select_related("commit").order_by("pk")) if attempt else []
    environment, expected = environment_of(attempt), estimates.expected_times(run)
    of_machine = environment is None and run.status == Status.FAILED and run.imported is None
    if of_machine and attempt:
        environment = environment_before(run.machine, attempt)
    placement = placement_of(environment.facts) if environment else None
    lacking = {
        "logs": not log,
        "samples": bool(results.outcomes) and not results.trials,
        "documents": any(result.repeatable for result in results.outcomes) and not scripts,
        "events": not events,
    }
    return RunPage(
        run=run,
        live=not run.done,
        progress=progress_of([run], {pk: expected.phases if expected else None}).get(pk),
        expected=expected,
        benchmarks=len(members_of(run.benchmark_set_id)),
        log=log,
        log_lines=log_lines,
        stream="" if run.done else stream_of_run(run, access),
        version=states.version_of(run),
        builds=builds,
        events=events,
        results=results,
        phases=phases_of(run, attempt, builds, results.outcomes, results.totals),
        placement=placement,
        facts=FactGroups.of(environment.facts.get("series", {})) if environment else None,
        of_machine=of_machine,
        faults=[
            *out_of_reach(attempt),
            *without_layouts(results.outcomes),
            *faults_of(run, results.totals, results.flags),
        ],
        scripts=scripts,
        deleted=deletions_in_words(run, [name for name, is_so in lacking.items() if is_so]),
        origin=origin_of(run, attempt),
    )


def origin_of(run: Run, attempt: Attempt | None) -> ShownOrigin | None:
    if run.imported is None:
        return None
    rows = list(Origin.objects.filter(measurement__attempt=attempt).values_list("measured_at", "url", "tags"))
    times = sorted(at for at, *_ in rows if at)
    urls = dict.fromkeys(url for url in (run.imported.url, *(url for _, url, _ in rows)) if url)
    tags: dict[str, dict[str, None]] = {}
    for _, _, row_tags in rows:
        for name, value in (row_tags or {}).items():
            tags.setdefault(name, {})[value] = None
    return ShownOrigin(
        run.imported,
        times[0] if times else None,
        times[-1] if times else None,
        list(urls)[:SHOWN_URLS],
        [(name, list(values)[:SHOWN_VALUES]) for name, values in sorted(tags.items())],
    )


def deletions_in_words(run: Run, lacking: Collection[str]) -> list[str]:
    """A sentence for each policy that has deleted a part that an ended run lacks."""
    deletions = policies.deletions(run.ended_at) if run.done and lacking else {}
    return [f"{LACKING[name]} {deletions[name]}." for name in lacking if name in deletions]


def repeatable_results(attempt: Attempt | None) -> QuerySet[Result]:
    """The results whose first trials have recipes."""
    results = Result.objects.filter(attempt=attempt, repeatable=True, documents__isnull=False)
    return results.select_related("benchmark").defer("benchmark__definition").order_by("benchmark__name", "side")


def reproduce_scripts(run: Run, attempt: Attempt | None, results: Sequence[ShownResult]) -> list[ReproduceScript]:
    """A script for each benchmark and side; if there are many, only the places of the scripts."""
    again = [result for result in results if result.repeatable and result.documented]
    if len(again) > MOST_SCRIPTS:
        return [ReproduceScript(result.benchmark, result.side, "") for result in again]
    texts = reproduce.scripts_of(run, repeatable_results(attempt)) if again else []
    return [ReproduceScript(result.benchmark, result.side, text) for result, text in zip(again, texts, strict=True)]


def named_script(pk: int, benchmark: str | None, side: str | None) -> str:
    """The script of this benchmark and side; None stands for any."""
    run = run_or_404(pk)
    results = repeatable_results(run.attempts.order_by("pk").last())
    if benchmark is not None:
        results = results.filter(benchmark__name=benchmark)
    if side is not None:
        results = results.filter(side=side)
    for text in reproduce.scripts_of(run, results[:1]):
        return text
    raise Http404(
        f"Run {pk} has no script for this measurement: no such benchmark and side, or stored without the recipe. "
        + " ".join(deletions_in_words(run, ["documents"]))
    )


MEASURED_COLUMNS = ("benchmark", "metric", "unit", "side", "value", "low", "high", "n", "flags", "is_accepted")


def csv_rows(document: RunDetails) -> Iterator[list[Any]]:
    """The measurements of a run as rows."""
    return rows_of(MEASURED_COLUMNS, document.measurements)
