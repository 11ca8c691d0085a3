"""Questions that only pairs answer: what a head does against a base, both measured interleaved on one machine.

Whoever compares two commits asks one: the settling of a suspicion, a pull request, a person, a bisection, a profile of
both sides, and a measurement of the noise, whose head is its base.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Max, QuerySet
from django.db.models.functions import Coalesce

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.projects.errors import RepositoryError
from speedtrack.projects.sync import project_lock
from speedtrack.runs.errors import NoSuchThing
from speedtrack.runs.models import Approval, Machine, PairedComparison, Reason, Run, RunQuerySet
from speedtrack.runs.planning import planning

log = logging.getLogger(__name__)

Asker = TypeVar("Asker", Approval, PairedComparison)  #: a row whose commits may have to be fetched first

PAIRS = 15  # of one run that a person asks for
METRICS_OF_PAIRS = (HEADLINE, "throughput_rps", "instructions_per_request")


class NotComparable(Exception):
    """These two commits cannot be measured in pairs; the message says why."""


@dataclass(frozen=True)
class Question:
    """What does the head do against the base, by these benchmarks of a suite on a machine?

    ``why``: the reason of its runs, which decides their priority unless one is given. ``pairs``: how many the next run
    measures. ``metrics``: those that the pairs are for (empty: the headline).
    """

    base_id: int
    head_id: int
    machine: Machine
    suite: Suite
    benchmarks: BenchmarkSet
    why: Reason
    pairs: int = PAIRS
    metrics: Sequence[str] = METRICS_OF_PAIRS
    priority: int | None = None

    @property
    def runs(self) -> RunQuerySet:
        """The runs for the same reason of these two commits on the machine, oldest first, by whatever benchmarks."""
        ends = {"base": self.base_id, "commit": self.head_id}
        runs: RunQuerySet = Run.objects.filter(**ends, machine=self.machine, reason=self.why).order_by("pk")
        return runs


def plan_pairs(question: Question) -> Run:
    """Queue pairs for a question, as the round after those that it has already. Return their run."""
    plan = planning.Plan(
        project=question.benchmarks.project,
        suite=question.suite,
        benchmark_set=question.benchmarks,
        reason=question.why,
        base_id=question.base_id,
        round=question.runs.aggregate(next=Coalesce(Max("round") + 1, 0))["next"],
        trials=question.pairs,
        priority=question.priority,
        metrics=question.metrics,
    )
    planning.plan_commits(plan, {question.head_id: 0}, [question.machine])
    return question.runs.get(benchmark_set=plan.benchmark_set, round=plan.round)


def plan_each(askers: QuerySet[Asker], plan: Callable[[Asker], int]) -> int:
    """Plan the pairs of all rows that wait for it, each under the lock of its project. Return the number of runs.

    ``plan`` returns that of one row. A failure is stored on its row.
    """
    run_count = 0
    for asker in askers.order_by("pk"):
        with project_lock(asker.project) as is_mine:
            if is_mine and askers.filter(pk=asker.pk).exists():
                run_count += plan_noting_failure(asker, plan)
    return run_count


def plan_noting_failure(asker: Asker, plan: Callable[[Asker], int]) -> int:
    kind = asker._meta.verbose_name
    try:
        return plan(asker)
    except (RepositoryError, DefinitionError, NoSuchThing, NotComparable) as e:
        log.warning("%s %s: %s", kind, asker, e)
        why = str(e)
    except Exception as e:  # a defect that one of them triggers must not stop the others
        log.exception("%s %s: it could not be queued", kind, asker)
        why = f"{type(e).__name__}: {e} (a defect of SpeedTrack: its log says where)"
    type(asker).objects.filter(pk=asker.pk).update(error=why.replace("\0", "")[:2000])
    return 0
