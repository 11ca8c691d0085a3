"""Paired runs for change points: two commits measured interleaved on one machine."""

from collections.abc import Iterable
from dataclasses import dataclass

from speedtrack.alerts.models import ChangePoint
from speedtrack.benchmarks.models import Suite
from speedtrack.benchmarks.storing import store_set
from speedtrack.projects.models import Commit
from speedtrack.runs import planning
from speedtrack.runs.models import Build, Machine, Measurement, Reason, Run


@dataclass(frozen=True)
class Pair:
    """Two commits to be measured against each other on a machine, and why."""

    base_id: int
    commit_id: int
    machine: Machine
    reason: Reason


def plan(pair: Pair, change_points: Iterable[ChangePoint], trials: int) -> Run:
    """Queue a paired run of all benchmarks of these change points, of so many pairs each."""
    group = list(change_points)
    benchmarks = {cp.series.benchmark_id: cp.series.benchmark for cp in group}
    suite = suite_of(group[0])
    earlier = Run.objects.filter(
        commit_id=pair.commit_id, base_id=pair.base_id, machine=pair.machine, reason=pair.reason
    )
    return planning.plan_pair(
        planning.Plan(
            project=group[0].series.project,
            suite=suite,
            benchmark_set=store_set(suite, list(benchmarks.values())),
            reason=pair.reason,
            base=Commit.objects.get(pk=pair.base_id),
            round=earlier.count(),
            trials=trials,
            metrics=sorted({cp.series.metric for cp in group}),
        ),
        pair.commit_id,
        pair.machine,
    )


def suite_of(cp: ChangePoint) -> Suite:
    """A suite with which the series was measured, so that the pairs measure the same thing."""
    measurements = Measurement.objects.filter(series=cp.series, accepted=True)
    return measurements.select_related("attempt__run__suite").latest("id").attempt.run.suite


def same_binary(cp: ChangePoint) -> bool:
    """Did the machine build bit-equal artifacts of both commits? Then nothing that was measured can differ."""
    before, after = (artifacts(cp.series.machine, commit) for commit in (cp.before, cp.commit))
    return before is not None and before == after


def artifacts(machine: Machine, commit: Commit) -> dict[str, str] | None:
    """Name -> digest of what the machine last built of a commit; None if it built nothing."""
    builds = Build.objects.filter(attempt__run__machine=machine, commit=commit, succeeded=True)
    build = builds.order_by("-id").first()
    return {name: str(artifact["digest"]) for name, artifact in build.artifacts.items()} if build else None
