"""Questions that only pairs answer: what a head does against a base, both measured interleaved on one machine.

Whoever compares two commits asks one: the settling of a suspicion, a pull request, a person, a bisection, a profile of
both sides, and a measurement of the noise, whose head is its base.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Max
from django.db.models.functions import Coalesce

from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.runs.models import Machine, Reason, Run, RunQuerySet
from speedtrack.runs.planning import planning

PAIRS = 15  # of one run that a person asks for
METRICS_OF_PAIRS = (HEADLINE, "throughput_rps", "instructions_per_request")


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
