"""The live part about a paired run on the pages of its commits: its progress, and what its pairs show so far."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from speedtrack.accounts.access import Access
from speedtrack.judging.duels import Standing, standings_of
from speedtrack.runs.models import Run
from speedtrack.runs.queue.progress import Progress, progress_of
from speedtrack.runs.scheduling import states
from speedtrack.web.drawing.small.plots import Forest
from speedtrack.web.pages.running.live import stream_of_run


@dataclass(frozen=True)
class Duel:
    """``stream``: the address of the run's stream of changes."""

    run: Run
    stream: str = ""

    @cached_property
    def standings(self) -> list[Standing]:
        return [] if self.run.done else standings_of(self.run)

    @cached_property
    def forest(self) -> Forest:
        """The axis of all standings, and the place of each one that has an estimate."""
        return Forest.of([row.ratio for row in self.standings if row.ratio])

    @property
    def progress(self) -> Progress | None:
        return progress_of([self.run]).get(self.run.pk)

    @property
    def version(self) -> str:
        return states.version_of(self.run)


def duel_among(runs: Iterable[Run], access: Access) -> Duel | None:
    """The duel of the first of these runs that has not ended; None without one."""
    pk = next((run.pk for run in runs if not run.done), None)
    if pk is None:
        return None
    run = Run.objects.select_related("project", "machine", "commit", "base").get(pk=pk)
    return Duel(run, stream_of_run(run, access))
