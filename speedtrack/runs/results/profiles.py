"""Profiles: sample both sides of a change once, so that people see which functions take more time.

A profile run is a paired run with the reason ``profile``. It sends profiles and no measurements: sampling slows the
server down, so the numbers would fit neither a line nor a pair. Where the runner has no hardware counters, it also
counts the instructions of those benchmarks whose suite names functions for that.
"""

import zlib
from collections.abc import Iterable

from django.db import transaction

from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.projects.models import Commit
from speedtrack.runs.documents import ProfileReport
from speedtrack.runs.errors import NoBase
from speedtrack.runs.models import Machine, Profile, Reason, Run, Status
from speedtrack.runs.planning.questions import Question, plan_pairs
from speedtrack.runs.queue import fence
from speedtrack.runs.results import results
from speedtrack.runs.scheduling.order import PRIORITY

FOLDED_REQUESTS = 100  # whose instructions the folded text of counted instructions has


def profile_question(base_id: int, head_id: int, machine: Machine, suite: Suite, benchmarks: BenchmarkSet) -> Question:
    """The question where the time of two commits goes under these benchmarks: one block, in which nothing is timed."""
    return Question(base_id, head_id, machine, suite, benchmarks, Reason.PROFILE, pairs=1, metrics=())


def question_of_run(run: Run) -> Question:
    """The profiles of what a run measured: of its base, or of the first parent of its commit. Raises NoBase."""
    parents = Commit.objects.filter(project=run.project, sha__in=run.commit.parents[:1])
    base = run.base or parents.first()
    if base is None:
        raise NoBase(f"the commit before {run.commit.short} is not tracked: profile a run of a later commit")
    return profile_question(base.pk, run.commit_id, run.machine, run.suite, run.benchmark_set)


@transaction.atomic
def accept_profile(machine: Machine, run_id: int, document: ProfileReport) -> None:
    """Store a profile of one side under one benchmark. The same document again changes nothing.

    Raises fence.LeaseLost, results.ResultError, or results.Contradiction for a second, different profile.
    """
    run = fence.held_run(machine, run_id, document.token)
    fence.side_of(run, document.side, document.sha)
    profile = Profile(
        attempt=fence.attempt_of(run),
        benchmark_id=results.benchmark_in_run(run, document).id,
        folded=zlib.compress(document.folded.encode()),
        **document.model_dump(
            include={"side", "kind", "event", "frequency_hz", "samples", "cpu_ns_per_request", "unavailable"}
        ),
    )
    alike = {name: getattr(profile, name) for name in ("attempt", "benchmark_id", "side", "kind")}
    if stored_profile := Profile.objects.filter(**alike).first():
        results.check_same(f"profile of {document.benchmark.name}, side {profile.side}", [stored_profile], [profile])
    else:
        profile.save(force_insert=True)


def folded_stacks(profile: Profile) -> str:
    """The folded stacks of a profile as text, one stack per line."""
    return zlib.decompress(profile.folded).decode()


def cost_per_request(profile: Profile) -> float | None:
    """What the stacks of one request add up to: ns of CPU time, or instructions; None if it is unknown."""
    if profile.kind == Profile.Kind.INSTRUCTIONS:
        return profile.samples / FOLDED_REQUESTS
    return profile.cpu_ns_per_request


def plan_profile(question: Question, by_hand: bool = False) -> Run:
    """Queue the profile run of two commits, unless there is one. Return it.

    ``by_hand``: it goes before other runs, and is queued again if an earlier one has ended.
    """
    runs = question.runs
    run = (runs.unfinished() if by_hand else runs).last() or plan_pairs(question)
    if by_hand:
        Run.objects.filter(pk=run.pk, status=Status.QUEUED).update(priority=PRIORITY["manual"])
    return run


def profiles_of(runs: Iterable[Run]) -> list[Profile]:
    """The profiles that these runs sent in their finished attempts."""
    profiles = Profile.objects.filter(attempt__run__in=list(runs), attempt__outcome=Status.SUCCEEDED)
    return list(profiles.select_related("benchmark", "attempt__run__machine").order_by("attempt_id", "id"))
