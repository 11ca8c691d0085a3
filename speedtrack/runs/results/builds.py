"""Reports of builds: store the result and its series (time, size), and find out whether the program was measured."""

from django.db import transaction

from speedtrack.benchmarks import definitions
from speedtrack.benchmarks.digests import build_meaning, json_digest
from speedtrack.benchmarks.metrics import METRICS
from speedtrack.benchmarks.models import Benchmark
from speedtrack.ground.observing import failpoints
from speedtrack.projects.mirrors import submodules
from speedtrack.projects.models import Commit
from speedtrack.runs.documents import BuildReport, ReportedBuild
from speedtrack.runs.models import (
    ROUTINE,
    Attempt,
    Build,
    Environment,
    Machine,
    Measurement,
    Reason,
    Run,
    Samples,
    Series,
    Status,
)
from speedtrack.runs.queue import fence
from speedtrack.runs.results import results
from speedtrack.runs.scheduling import canary, quarantine

POINTS = (*ROUTINE, Reason.MANUAL)  # runs whose builds are points of a line
LOOK_BACK = 5  # runs of the parent that are examined


@transaction.atomic
def accept_build(machine: Machine, run_id: int, report: BuildReport) -> Run | None:
    """Store the result of one side's build. The same report again changes nothing.

    Return the run that measured the identical program for the parent commit, if that is enough for this run: it then
    ends without measurements. Raises fence.LeaseLost, or results.Contradiction for a second, different report.
    """
    run = fence.held_run(machine, run_id, report.token)
    build = report.build
    commit = fence.side_of(run, build.side, build.sha)
    attempt = fence.attempt_of(run)
    content = build.model_dump(exclude={"sha", "error"})
    row = Build(attempt=attempt, commit=commit, error=error_of(build, commit), **content)
    if stored_build := Build.objects.filter(attempt=attempt, side=build.side).first():
        results.check_same(f"build of side {build.side}", [stored_build], [row])
    else:
        row.save(force_insert=True)
    failpoints.reach("build.before_commit")
    if run.canary_id and build.succeeded:
        canary.freeze_artifacts(run, {name: artifact.digest for name, artifact in build.artifacts.items()})
    if not build.succeeded or report.environment is None:
        return None
    environment = results.store_environment(machine.pk, report.environment)
    if run.reason in POINTS and not run.paired:
        store_series(attempt, commit, build, environment)
    if run.reason not in ROUTINE or run.paired:
        return None
    linked = measured_parent(attempt, commit, build, environment)
    Run.objects.filter(pk=run.pk).update(linked=linked)
    return linked


def error_of(build: ReportedBuild, commit: Commit) -> str:
    """The error message of a failed build.

    It names the submodules that the sources lack, since these may be the cause.
    """
    if build.succeeded:
        return build.error or ""
    return ". ".join(filter(None, (build.error, submodules.lacking(commit.project, commit.sha))))


def store_series(attempt: Attempt, commit: Commit, build: ReportedBuild, environment: Environment) -> None:
    """Store one point in each series of the build.

    A build time counts only if the commit was really built, not taken from the store.
    """
    values = {"binary_bytes": float(sum(artifact.size for artifact in build.artifacts.values()))}
    if not build.cached:
        values["build_seconds"] = build.seconds
    flags = ["ccache"] if build.ccache and build.ccache.hits else []
    benchmark = build_benchmark(attempt.run)
    for metric, value in values.items():
        if not value:
            continue  # ratios need values above 0
        series, _ = Series.objects.get_or_create(
            project=attempt.run.project,
            benchmark=benchmark,
            metric=metric,
            machine=environment.machine,
            environment=environment,
        )
        void = sorted(METRICS[metric].voided_by.intersection(flags))
        measurement, new = Measurement.objects.get_or_create(
            attempt=attempt,
            series=series,
            side=build.side,
            defaults={
                "commit": commit,
                "value": value,
                "low": value,
                "high": value,
                "n": 1,
                "flags": void,
                "paired": False,
            },
        )
        if new:
            Samples.objects.create(measurement=measurement, values=[value], flagged=[0] if void else None)


def build_benchmark(run: Run) -> Benchmark:
    """The benchmark that the build's own series belong to. The build section is its identity."""
    meaning = {"build": build_meaning(run.suite.definition)}
    benchmark, _ = Benchmark.objects.get_or_create(
        project=run.project,
        name=definitions.BUILD,
        digest=json_digest(meaning),
        defaults={"definition": meaning, "why": "what building the server takes, and how large it is"},
    )
    return benchmark


def measured_parent(attempt: Attempt, commit: Commit, build: ReportedBuild, environment: Environment) -> Run | None:
    """The run that measured identical artifacts of the first parent: same benchmarks, machine and environment."""
    run = attempt.run
    parents = Commit.objects.filter(project=run.project, sha__in=commit.parents[:1], positions__isnull=False)
    runs = (
        Run.objects.own()
        .filter(commit__in=parents, machine=run.machine, benchmark_set=run.benchmark_set_id, status=Status.SUCCEEDED)
        .select_related("linked__commit", "commit")
    )
    needed = set(run.benchmark_set.names) - attempt.postponed.keys()
    digests = {name: artifact.digest for name, artifact in build.artifacts.items()}
    for candidate in runs.order_by("-id").distinct()[:LOOK_BACK]:
        origin = candidate.linked or candidate
        if built_artifacts(origin) == digests and needed <= measured_benchmarks(origin, environment):
            return origin
    return None


def built_artifacts(run: Run) -> dict[str, str] | None:
    """The artifacts (name -> digest) that a run's last attempt built from its commit; None if it built nothing."""
    build = Build.objects.filter(attempt__run=run, attempt__token=run.lease_token, commit_id=run.commit_id).first()
    return {name: str(artifact["digest"]) for name, artifact in build.artifacts.items()} if build else None


def measured_benchmarks(run: Run, environment: Environment) -> set[str]:
    """The benchmarks that a run has accepted measurements of in this environment, without the flag of a quarantine."""
    measurements = Measurement.objects.filter(attempt__run=run, accepted=True, series__environment=environment)
    measurements = measurements.exclude(quarantine.IS_FLAGGED)
    return set(measurements.values_list("series__benchmark__name", flat=True))
