"""How many steps and how much time a bisection still needs."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils import timezone

from speedtrack.alerts.bisections.searches import Search, is_open
from speedtrack.alerts.models import Bisection
from speedtrack.benchmarks.numbers import about
from speedtrack.runs.models import ACTIVE, Run, Status
from speedtrack.runs.queue import estimates
from speedtrack.stats.comparing import bisect


@dataclass(frozen=True)
class RemainingTime:
    """What a bisection still needs.

    ``steps``: how many commits will be measured at most; ``seconds``: about how long that takes; None if unknown.
    """

    steps: int
    seconds: float | None

    @property
    def words(self) -> str:
        """In words, such as: about 25 min, 3 steps at most."""
        steps = f"{self.steps} step{'' if self.steps == 1 else 's'} at most"
        return steps if self.seconds is None else f"about {about(self.seconds)}, {steps}"


def remaining_time(bisection: Bisection, searches: Sequence[Search]) -> RemainingTime:
    """The steps and the time that a bisection still needs. Benchmarks that change at one place share their steps."""
    if bisection.ended_at is not None:
        return RemainingTime(0, None)
    ranges = [(search, commit_range) for search in searches if (commit_range := search.range_left(bisection))]
    ends_known = bool(searches) and not any(is_open(search.answers.get(bisection.commit_id)) for search in searches)
    steps = max(
        (bisect.steps_left(search.levels(bisection), commit_range) for search, commit_range in ranges), default=0
    )
    if not ends_known:
        steps = max(steps, 1 + bisect.halvings(len(bisection.path) - 1))
    steps = max(steps, 1)  # a commit that is measured again was counted already
    return RemainingTime(steps, seconds_of(bisection, steps))


def seconds_of(bisection: Bisection, steps: int) -> float | None:
    """Seconds until this number of steps is done, if each takes as long as the one under way; None if unknown.

    Runs that go before them are included.
    """
    own = bisection.runs.unfinished().select_related("machine").order_by("pk")
    run = own.filter(status__in=ACTIVE).first() or own.first()  # the others are for what may come after it
    times = estimates.expected_times(run) if run else None
    if run is None or times is None or times.phases is None or times.ends_at is None:
        return None
    if not bisection.machine.takes_work:
        return None
    first_s = (times.ends_at - timezone.now()).total_seconds()
    if steps == 1:
        return first_s
    by_hand = Run.objects.filter(status=Status.QUEUED, machine=bisection.machine_id, priority__gte=run.priority)
    ahead = by_hand.exclude(bisections=bisection)  # they go before a run that is queued after them
    if run.status == Status.QUEUED:
        ahead = ahead.exclude(pk__in=estimates.runs_ahead(run).values("pk"))
    queue_total = estimates.totals(estimates.learn([run.machine_id]), ahead).get(
        run.machine_id, estimates.WaitingTotal(0, 0.0)
    )
    return None if queue_total.seconds is None else first_s + queue_total.seconds + (steps - 1) * times.phases.seconds
