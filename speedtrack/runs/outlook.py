"""What a verb would do: it is done in a transaction that is rolled back, so the answer is what would really happen.

Objects that git fetches meanwhile stay in the mirror; rows do not.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import transaction

from speedtrack.benchmarks import numbers
from speedtrack.runs import estimates
from speedtrack.runs.models import Machine, Run, Status

NAMED = 5  # commits


@dataclass(frozen=True)
class MachineOutlook:
    """What a verb would change on a machine. ``seconds``: of the new runs; ``before_s``: of those that wait already."""

    machine: str
    queued: int
    gone: int
    seconds: float | None
    before_s: float | None

    def __str__(self) -> str:
        changes = [f"{self.queued} run{'s' * (self.queued != 1)} queued"] if self.queued else []
        changes += [f"{self.gone} waiting run{'s' * (self.gone != 1)} taken from the queue"] if self.gone else []
        words = f"on {self.machine}: {', '.join(changes)}"
        if not self.queued:
            return words
        if self.seconds is None:
            return f"{words}; how long they take is not known: it has measured nothing like them yet"
        ahead = f", after {numbers.duration(self.before_s)} of runs that wait" if self.before_s else ""
        return f"{words}, which take about {numbers.duration(self.seconds)}{ahead}"


@dataclass(frozen=True)
class Outlook:
    """``said``: what the verb itself answered."""

    said: str
    machines: list[MachineOutlook] = field(default_factory=list)
    commits: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        """Sentences for people; the first says that nothing was done."""
        if not self.machines:
            return [f"Nothing was done. It would be: {self.said}", "no run would be queued or taken from the queue"]
        named = ", ".join(self.commits[:NAMED]) + (
            f" and {len(self.commits) - NAMED} more" * (len(self.commits) > NAMED)
        )
        return [f"Nothing was done. It would be: {self.said}", *map(str, self.machines), f"commits: {named}"]

    def __str__(self) -> str:
        return "\n  ".join(self.lines)


def outlook(verb: Callable[[], object]) -> Outlook:
    """What this verb would say and change. Raises what it raises."""
    with transaction.atomic():
        before = waiting()
        answer = str(verb())
        after = waiting()
        found = Outlook(answer, *changes(before, after))
        transaction.set_rollback(True)
    return found


def waiting() -> dict[int, int]:
    """Run -> machine of all that wait."""
    return dict(Run.objects.filter(status=Status.QUEUED).values_list("pk", "machine_id"))


def changes(before: dict[int, int], after: dict[int, int]) -> tuple[list[MachineOutlook], list[str]]:
    new, gone = after.keys() - before.keys(), before.keys() - after.keys()
    queued, taken = Counter(after[pk] for pk in new), Counter(before[pk] for pk in gone)
    machines = Machine.objects.filter(pk__in=queued.keys() | taken.keys()).order_by("name").defer("facts")
    learned = estimates.learn([machine.pk for machine in machines])
    runs = Run.objects.filter(pk__in=new)
    seconds = estimates.total_s(learned, runs)
    before_s = estimates.total_s(learned, Run.objects.filter(pk__in=before.keys() & after.keys()))
    found = [
        MachineOutlook(one.name, queued[one.pk], taken[one.pk], seconds.get(one.pk), before_s.get(one.pk))
        for one in machines
    ]
    changed = Run.objects.filter(pk__in=new | gone).order_by("-priority", "-rank", "pk")
    return found, list(dict.fromkeys(sha[:10] for sha in changed.values_list("commit__sha", flat=True)))
