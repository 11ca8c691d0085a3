"""What people have measured by hand: choose commits and queue them; retry, raise and cancel runs."""

from dataclasses import dataclass
from functools import partial

from django.db.models import Max

from speedtrack.benchmarks.models import BenchmarkSet, Suite
from speedtrack.benchmarks.storing import store_set, store_suite, usual_benchmarks
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects.mirrors import fetching, git
from speedtrack.projects.mirrors.remotes import Remote, remote_of
from speedtrack.projects.models import Project, Tag
from speedtrack.projects.releases import newest_patches
from speedtrack.projects.sync import store_commits
from speedtrack.runs.errors import NoSuchMachine, NoSuchThing
from speedtrack.runs.fleet import pools
from speedtrack.runs.models import Machine, PlanningPolicy, Reason, Run, Status
from speedtrack.runs.naming import benchmarks_named, check_known, machine_with_runner, project_named, run_numbered
from speedtrack.runs.planning import gaps, planning, policies
from speedtrack.runs.queue import queue


@dataclass(frozen=True)
class RunSelection:
    """What an operator wants to have measured: benchmarks, machines, and commits (commit id -> rank)."""

    project: Project
    suite: Suite
    benchmark_set: BenchmarkSet
    machines: list[Machine]
    ranks: dict[int, int]


@dataclass(frozen=True)
class Thinning:
    """Which commits of a range to measure, and in which order.

    ``every``: each n-th, counted from the newest. ``halves``: all of them, but first both ends, then the middle, then
    the quarters: the history is soon known everywhere a little, and a person may cancel the rest.
    """

    every: int = 1
    halves: bool = False

    def of(self, shas: list[str]) -> list[str]:
        """The commits to measure out of these, which are given oldest first. Raises NoSuchThing."""
        if self.every < 1:
            raise NoSuchThing(f"every {self.every}th commit cannot be measured: give a number from 1")
        return shas[:: -self.every][::-1]

    def ranks(self, count: int) -> list[int]:
        """A rank for each of ``count`` commits, oldest first; a machine takes the highest rank first."""
        ranks = list(range(count))
        return gaps.halved(ranks) if self.halves else ranks


def choose(
    slug: str,
    expression: str,
    names: list[str],
    machine_name: str | None,
    extended: bool = False,
    releases: bool = False,
    thinning: Thinning = Thinning(),
    fetches: bool = True,
) -> RunSelection:
    """Find the suite, benchmarks, machines and commits that an operator named.

    ``extended``: add the extended benchmarks except ladders; otherwise these, and ladders always, must be named.
    ``releases``: the expression is a pattern of tags, of which the newest patch of each minor version counts. The name
    of a ladder stands for all its rungs. The suite and, unless one is named, the machines are those of the policy of
    the branch that has the commits.

    Raises NoSuchThing, RepositoryError or DefinitionError.
    """
    project = project_named(slug)
    if machine_name:
        machines_to_measure(project, machine_name)  # before a fetch, which may take minutes
    history = find_releases(project, expression, fetches) if releases else find_range(project, expression, fetches)
    shas = thinning.of(history)
    if not shas:
        raise NoSuchThing(f"{expression!r} has no commits: the second name must come after the first one")
    policy = policies.policy_of_range(project, "" if releases else expression, shas[-1])
    definition = load_suite(policies.suite_of(policy))
    suite, benchmarks = store_suite(project, definition)
    check_known(suite, benchmarks, names)
    single = [b for b in benchmarks if not b.ladder]
    usual = single if extended else usual_benchmarks(definition, benchmarks)
    selection = benchmarks_named(benchmarks, names) or usual
    machines = machines_to_measure(project, machine_name, policy)
    commits = store_commits(project, shas)
    ranks = {commits[sha].pk: rank for sha, rank in zip(shas, thinning.ranks(len(shas)), strict=True)}
    return RunSelection(project, suite, store_set(suite, selection), machines, ranks)


def machines_to_measure(project: Project, name: str | None, policy: PlanningPolicy | None = None) -> list[Machine]:
    """The named machine, otherwise those of the policy, otherwise those of the project. Raises NoSuchThing."""
    if name:
        machines = [machine_with_runner(name)]
    else:
        machines = policies.machines_of(policy) if policy else pools.machines_for(project)
    if name and machines[0].retired_at:
        raise NoSuchMachine(f"machine {name} is retired: return it to service first")
    if not machines:
        raise NoSuchMachine(f"no machine measures {project}: add one first")
    return machines


def find_range(project: Project, expression: str, fetches: bool = True) -> list[str]:
    """The ids of the commits of a range.

    ``fetches``: commits that the mirror lacks are fetched, which may take minutes.
    """
    if not fetches:
        return git.commits_in_range(project.slug, expression)
    find = partial(fetching.find_commit, project.slug, remote_of(project))
    return git.commits_in_range(project.slug, expression, find)


def find_releases(project: Project, pattern: str, fetches: bool = True) -> list[str]:
    """The commits of the releases whose tags match, oldest version first. Raises NoSuchThing if none does.

    ``fetches``: look for tags at the remote, and fetch what the mirror lacks; else only known tags count.
    """
    remote, shas_by_tag = remote_of(project), dict(project.tags.values_list("name", "sha"))
    names = tags_of_remote(remote) if fetches else list(shas_by_tag)
    tags = newest_patches(names, pattern)
    if not tags:
        examples = ", ".join(sorted(names)[-5:]) or "none"
        raise NoSuchThing(f"no release of {project} matches {pattern!r}: among its tags are {examples}")
    if not fetches:
        return list(dict.fromkeys(shas_by_tag[tag] for tag in tags))
    shas = {tag: fetching.find_commit(project.slug, remote, f"refs/tags/{tag}") for tag in tags}
    # Stored here, so that the next look does not take them for new releases.
    Tag.objects.bulk_create(
        [Tag(project=project, name=tag, sha=sha) for tag, sha in shas.items() if tag not in shas_by_tag]
    )
    return list(dict.fromkeys(shas.values()))


def tags_of_remote(remote: Remote) -> list[str]:
    return [ref.removeprefix("refs/tags/") for ref in git.remote_refs(remote) if ref.startswith("refs/tags/")]


def queue_by_hand(selection: RunSelection) -> int:
    """Queue the commits that somebody chose, even if they were measured before. Return the number of runs."""
    manual = Run.objects.filter(project=selection.project, reason=Reason.MANUAL, commit__in=selection.ranks)
    last = manual.aggregate(last=Max("round"))["last"]
    round = 0 if last is None else last + 1
    plan = planning.Plan(selection.project, selection.suite, selection.benchmark_set, Reason.MANUAL, round=round)
    return planning.plan_commits(plan, selection.ranks, selection.machines)


def retry_run(number: int) -> str:
    """Queue a failed or cancelled run again, with fresh attempts. Return a message. Raises NoSuchThing."""
    run = run_numbered(number)
    try:
        queue.retry(run, "by hand")
    except ValueError:
        raise NoSuchThing(
            f"run {number} is {run.status}: only a failed or cancelled run is queued again; queue its commit "
            "to measure it anew"
        ) from None
    return f"run {number} is queued again"


def raise_run(number: int, why: str = "by hand") -> str:
    """Let a waiting run be the next of its machine. Return a message. Raises NoSuchThing."""
    run = run_numbered(number)
    if not queue.raise_run(run, why):
        raise NoSuchThing(f"run {number} is {run.status}: only a run that waits can be raised")
    return f"run {number} is measured next on {run.machine}"


def cancel_run(number: int) -> str:
    """Cancel a run, or the further attempts of a failed one. Return a message. Raises NoSuchThing."""
    run = run_numbered(number)
    if run.status in (Status.SUCCEEDED, Status.CANCELLED) or (run.status == Status.FAILED and not run.retry_at):
        raise NoSuchThing(f"run {number} is {run.status} already")
    queue.cancel(run, "by hand")
    run.refresh_from_db()
    if run.status == Status.FAILED:
        return f"run {number} gets no further attempts"
    return f"run {number} " + ("is cancelled" if run.done else "ends as soon as its runner hears of it")
