"""What must hold whatever happened: each run ended once, no sample is doubled, and nothing is left behind."""

from collections import Counter
from pathlib import Path

import psutil
from django.db.models import Count, Q, Sum

from research.chaos.ledger import Ledger
from research.chaos.world import BROKEN, COMMITS, MACHINES, World, marked
from speedtrack.benchmarks.metrics import HEADLINE
from speedtrack.processes import dispatch
from speedtrack.projects.models import Delivery, Position
from speedtrack.runs.models import LogChunk, Measurement, Reason, Result, Run, RunEvent, Samples, Series, Status
from speedtrack.upkeep import fsck

#: Whether short trials have these depends on the kernel's clock ticks.
NOT_ALWAYS = {"server_system_ns_per_request", "server_user_ns_per_request"}
ENDS = (Status.SUCCEEDED, Status.FAILED, Status.CANCELLED)


def is_done(installation: World) -> bool:
    """Has every commit been planned, every run ended, and every delivery and measurement been looked at?

    Detection comes first: what it has to settle becomes further runs.
    """
    return (
        "detect" not in dispatch.duties_with_work()
        and Position.objects.count() == COMMITS
        and not Run.objects.unfinished().exists()
        and not Delivery.objects.filter(status=Delivery.Status.RECEIVED).exists()
        and not Series.objects.undetected().exists()
        and not any(spooled(installation.home / f"runner-{name}") for name in MACHINES)
    )


def spooled(home: Path) -> list[Path]:
    return list((home / "spool").glob("*.json"))


def settled_rows(installation: World) -> list[str]:
    """What did not settle in time after the last fault."""
    unfinished = Run.objects.unfinished()
    violations = [f"{run} is still {run.status}: {run.error}" for run in unfinished.select_related("commit", "machine")]
    waiting_count = Delivery.objects.filter(status=Delivery.Status.RECEIVED).count()
    unseen = Series.objects.undetected().count()
    violations += [f"{waiting_count} deliveries wait"] * bool(waiting_count) + [
        f"{unseen} series wait for detection"
    ] * bool(unseen)
    if (known_count := Position.objects.count()) != COMMITS:
        violations.append(f"{known_count} of {COMMITS} pushed commits are known")
    return violations


def rows(ledger: Ledger) -> list[str]:
    """Rows that contradict the promises, or the answers that callers got."""
    of_ledger = [*lost_deliveries(ledger), *lost_orders(ledger)]
    return [*wrong_plans(), *wrong_ends(), *wrong_samples(), *lost_parts(), *of_ledger, *fsck_faults()]


def lost_deliveries(ledger: Ledger) -> list[str]:
    """Each accepted delivery is stored as often as it was accepted; those without an answer may be stored as well.

    Equal bodies that wait at the same time are one row, so their ids may be missing.
    """
    accepted = ledger.accepted().total()
    stored_count = Delivery.objects.aggregate(all=Sum("copies"))["all"] or 0
    if accepted <= stored_count <= accepted + ledger.unanswered():
        return []
    return [f"{accepted} deliveries were accepted and {ledger.unanswered()} were not, but {stored_count} are stored"]


def lost_orders(ledger: Ledger) -> list[str]:
    """Each round of runs by hand has as many runs as were ordered."""
    run_counts = Counter(Run.objects.filter(reason=Reason.MANUAL).values_list("round", flat=True))
    return [
        f"{count} runs of round {number} were ordered, and there are {run_counts[number]}"
        for number, count in ledger.ordered().items()
        if run_counts[number] != count
    ]


def lost_parts() -> list[str]:
    """Each run that succeeded and measured has all trials that it was planned with, all metrics, and a log."""
    succeeded = Run.objects.filter(status=Status.SUCCEEDED, linked=None, imported=None).exclude(reason=Reason.PROFILE)
    metrics = {run.pk: frozenset(shown_metrics(run)) for run in succeeded if not run.paired}
    usual = frozenset().union(*metrics.values())
    violations = [f"run {pk} lacks {', '.join(sorted(usual - own))}" for pk, own in metrics.items() if usual - own]
    for run in succeeded.select_related("commit", "machine", "benchmark_set"):
        results = Result.objects.filter(attempt__run=run, attempt__token=run.lease_token)
        due = len(run.benchmark_set.names) * (2 if run.paired else 1)
        if (count := results.count()) != due:
            violations.append(f"{run} has {count} of {due} results")
        for result in results.annotate(measured=Count("trials")):
            trials = (result.stopping or {}).get("trials", run.trials)  # a wide interval asks for more than planned
            if result.measured != trials:
                violations.append(f"{run} has {result.measured} of {trials} trials on side {result.side}")
        if not LogChunk.objects.filter(attempt__run=run, attempt__token=run.lease_token).exists():
            violations.append(f"{run} has no log")
    return violations


def shown_metrics(run: Run) -> set[str]:
    """Those of the run's own benchmarks: what building took is measured as well, but not of a build that was reused."""
    own = run.benchmark_set.benchmarks.all()
    measurements = Measurement.objects.filter(attempt__run=run, accepted=True, series__benchmark__in=own)
    return set(measurements.values_list("series__metric", flat=True)) - NOT_ALWAYS


def wrong_plans() -> list[str]:
    """Each pushed commit has one run per machine that measures it for the push."""
    pushes = Run.objects.filter(reason=Reason.PUSH).values_list("commit", "machine")
    expected = (COMMITS - 1) * len(MACHINES)
    doubled = [f"commit {c} on machine {m} has {n} push runs" for (c, m), n in Counter(pushes).items() if n > 1]
    missing = [f"{len(pushes)} of {expected} push runs are planned"] * (len(pushes) != expected)
    return doubled + missing


def wrong_ends() -> list[str]:
    """Each run ended once; only the commit that does not compile failed."""
    violations = []
    end_count = Count("events", filter=Q(events__after__in=ENDS))
    for pk, ends in Run.objects.annotate(ends=end_count).exclude(ends=1).values_list("pk", "ends"):
        violations.append(f"run {pk} ended {ends} times")
    broken = Position.objects.get(number=BROKEN - 1).commit_id
    for run in Run.objects.exclude(status=Status.SUCCEEDED).select_related("commit", "machine"):
        if run.commit_id != broken or "build failed" not in run.error:
            violations.append(f"{run} is {run.status}: {run.error}")
    return violations


def wrong_samples() -> list[str]:
    """Each succeeded run that measured shows one attempt, and each trial of it once."""
    violations = []
    for run in Run.objects.filter(status=Status.SUCCEEDED, linked=None).select_related("commit", "machine"):
        measurements = Measurement.objects.filter(attempt__run=run, accepted=True)
        attempts = set(measurements.values_list("attempt", flat=True))
        if len(attempts) != 1:
            violations.append(f"{run} shows {len(attempts)} attempts")
            continue
        for result in Result.objects.filter(attempt__in=attempts).select_related("benchmark"):
            numbers = sorted(result.trials.values_list("number", flat=True))
            if numbers != list(range(len(numbers))) or not numbers:
                violations.append(f"{run} has the trials {numbers} of {result.benchmark.name}, side {result.side}")
            own = measurements.filter(series__benchmark=result.benchmark, side=result.side, series__metric=HEADLINE)
            sampled = [sorted(samples.by_trial) for samples in Samples.objects.filter(measurement__in=own)]
            if sampled != [numbers]:
                violations.append(f"{run} has samples of the trials {sampled}, and the trials {numbers}")
    return violations


def fsck_faults() -> list[str]:
    return [f"fsck {name}: {fault}" for name, check in fsck.checks().items() for fault in check.find(check)]


def events() -> Counter[str]:
    """How often each reason moved a run, without its details."""
    whys = RunEvent.objects.values_list("why", flat=True)
    return Counter(why.partition(":")[0].partition("(")[0].strip()[:70] for why in whys)


def left_behind(installation: World) -> list[str]:
    """Processes and directories of trials that are left after all processes have ended."""
    violations = []
    for name in MACHINES:
        home = installation.home / f"runner-{name}"
        violations += [f"{name}: the process {process.pid} is left" for process in marked(home)]
        mark = (home / "mark").read_text()[:8]
        path_groups = (
            home.glob("trial-*"),
            spooled(home),
            (home / "spool").glob("*.rejected"),
            (home / "processes").iterdir(),
            Path("/tmp").glob(f"speedtrack-*-{mark}/*"),  # noqa: S108
        )
        violations += [f"{name}: {path} is left" for paths in path_groups for path in paths]
    own = str(installation.home)
    mine = psutil.Process().pid
    for process in psutil.process_iter(["pid", "environ", "cmdline"]):
        here = (process.info["environ"] or {}).get("SPEEDTRACK_HOME") == own
        if here and process.info["pid"] != mine and "postgres" not in " ".join(process.info["cmdline"] or []):
            violations.append(
                f"the process {process.info['pid']} is left: {' '.join(process.info['cmdline'] or [])[:100]}"
            )
    return violations
