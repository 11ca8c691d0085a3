"""The operator's commands: track a repository, measure commits, register and maintain machines."""

import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.core.validators import MaxLengthValidator, validate_slug
from django.db import IntegrityError, transaction
from django.db.models import Max, QuerySet
from django.urls import reverse

from speedtrack.benchmarks.definitions import DefinitionError
from speedtrack.benchmarks.models import Benchmark, BenchmarkSet, Suite
from speedtrack.benchmarks.storing import store_set, store_suite, usual_benchmarks
from speedtrack.benchmarks.suitefiles import load_suite
from speedtrack.projects import fetching, git, remotes
from speedtrack.projects.credentials import store_credential
from speedtrack.projects.errors import NoSuchBranch, RepositoryError, UnusableName
from speedtrack.projects.fetching import head_ref
from speedtrack.projects.models import Branch, Credential, Project, Tag
from speedtrack.projects.releases import newest_patches
from speedtrack.projects.remotes import Remote, remote_of
from speedtrack.projects.sync import LONGEST_BRANCH, store_commits, sync
from speedtrack.runs import canary, choosing, gaps, planning, policies, pools, pushes, quarantine, queue, tokens
from speedtrack.runs.canary import FrozenCommit
from speedtrack.runs.errors import NoSuchBenchmark, NoSuchMachine, NoSuchThing
from speedtrack.runs.models import IN_SERVICE, Canary, Machine, MachineEvent, PlanningPolicy, Reason, Run, Status

LONGEST_SLUG = 50  # as Project.slug


@dataclass(frozen=True)
class TrackingRequest:
    """How to track a repository.

    ``last``: the number of newest commits to measure now. ``mail_history_verdicts``: None leaves the setting as it is.
    """

    url: str
    suite: str
    branch: str | None = None
    last: int = 10
    name: str | None = None
    mail_history_verdicts: bool | None = None
    credential: Credential | None = None  #: not yet stored


@dataclass(frozen=True)
class Tracked:
    """The result of tracking. ``is_new``: the project was created now, so nobody has seen its webhook's secret yet."""

    project: Project
    branch: Branch
    commits: int
    queued: int
    is_new: bool = False

    @property
    def hook_url(self) -> str:
        return settings.URL + reverse("hook", args=[self.project.hook_id])


def track(request: TrackingRequest) -> Tracked:
    """Track a repository, or another branch of one that is tracked. Safe to repeat.

    Raises RepositoryError or DefinitionError, and then leaves no new project behind.
    """
    url = remotes.valid_url(request.url)
    load_suite(request.suite)
    slug = slug_of(request)
    branch_name = branch_to_track(remote_to_track(slug, url, request.credential), request.branch)
    project, made = Project.objects.get_or_create(
        slug=slug,
        defaults={"name": request.name or slug, "url": url, "default_branch": branch_name, "suite": request.suite},
    )
    try:
        check_same_url(project, url)
        store_credential(project, request.credential)
        return replace(track_branch(project, branch_name, request), is_new=made)
    except (RepositoryError, DefinitionError):
        if made:
            project.delete()
            git.remove_mirror(slug)
        raise


def remote_to_track(slug: str, url: str, credential: Credential | None) -> Remote:
    """The remote with the entered credential, otherwise with that of the project ``slug`` if it tracks this address."""
    project = Project.objects.filter(slug=slug, url=url).first()
    return Remote(url, credential) if credential or not project else remote_of(project)


def check_same_url(project: Project, url: str) -> None:
    if project.url != url:
        raise UnusableName(f"project {project.slug} tracks {project.url}: give this one another --name")


def track_branch(project: Project, branch_name: str, request: TrackingRequest) -> Tracked:
    """Store the branch's history and queue its newest commits on all machines."""
    project.suite = request.suite
    if request.mail_history_verdicts is not None:
        project.mail_history_verdicts = request.mail_history_verdicts
    project.untracked_at = None
    project.save(update_fields=["suite", "mail_history_verdicts", "untracked_at"])
    branch, made = Branch.objects.update_or_create(project=project, name=branch_name, defaults={"tracked": True})
    project.machines.add(*Machine.objects.filter(IN_SERVICE))
    sync(project, then=pushes.plan_moved, tagged=partial(choosing.plan_new_tags, project))
    if made:
        check_fetched(project, branch)
    branch.refresh_from_db()
    queued = choosing.plan_newest(branch, request.last)
    return Tracked(project, branch, branch.positions.count(), queued)


def check_fetched(project: Project, branch: Branch) -> None:
    """Raise RepositoryError if a new branch could not be fetched, and do not track it."""
    if fault := project.left_out.get(head_ref(branch.name)):
        branch.delete()
        raise RepositoryError(f"cannot fetch branch {branch} of {project.url}: {fault['why']}")


def branch_to_track(remote: Remote, name: str | None) -> str:
    """The named branch, or by default the remote's. Raises RepositoryError that lists the branches if there is none."""
    refs, url = git.remote_refs(remote), remote.url
    branches = sorted(ref.removeprefix("refs/heads/") for ref in refs if ref.startswith("refs/heads/"))
    if not branches:
        raise RepositoryError(f"{url} is empty: push a commit and track it again")
    name = name or git.remote_default_branch(remote) or branches[0]
    if name not in branches:
        raise NoSuchBranch(f"{url} has no branch {name!r}: it has {', '.join(branches[:10])}")
    if len(name) > LONGEST_BRANCH:
        raise NoSuchBranch(f"branch {name[:40]}... has more than {LONGEST_BRANCH} characters: it cannot be tracked")
    return name


def slug_of(request: TrackingRequest) -> str:
    """The name of its project in addresses. Raises RepositoryError."""
    return valid_slug(request.name or name_in_url(remotes.valid_url(request.url)))


def name_in_url(url: str) -> str:
    """The name of a repository: the last segment of its URL, without ``.git``."""
    return PurePosixPath(url.rstrip("/")).name.removesuffix(".git")


def valid_slug(name: str) -> str:
    slug = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-")
    if not slug:
        raise UnusableName(f"cannot make a project name of {name!r}: give one with --name")
    if len(slug) > LONGEST_SLUG:
        raise UnusableName(f"{slug} has more than {LONGEST_SLUG} characters: give a shorter one with --name")
    return slug


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
        if self.halves:
            for place, at in enumerate(gaps.halving(count)):
                ranks[at] = count - 1 - place
        return ranks


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
    found = find_releases(project, expression, fetches) if releases else find_range(project, expression, fetches)
    shas = thinning.of(found)
    if not shas:
        raise NoSuchThing(f"{expression!r} has no commits: the second name must come after the first one")
    policy = policies.policy_of_range(project, "" if releases else expression, shas[-1])
    definition = load_suite(policies.suite_of(policy))
    suite, benchmarks = store_suite(project, definition)
    check_known(suite, benchmarks, names)
    single = [b for b in benchmarks if not b.ladder]
    usual = single if extended else usual_benchmarks(definition, benchmarks)
    chosen = benchmarks_named(benchmarks, names) or usual
    machines = machines_to_measure(project, machine_name, policy)
    commits = store_commits(project, shas)
    ranks = {commits[sha].pk: rank for sha, rank in zip(shas, thinning.ranks(len(shas)), strict=True)}
    return RunSelection(project, suite, store_set(suite, chosen), machines, ranks)


def machines_to_measure(project: Project, name: str | None, policy: PlanningPolicy | None = None) -> list[Machine]:
    """The named machine, otherwise those of the policy, otherwise those of the project. Raises NoSuchThing."""
    if name:
        machines = [machine_with_runner(name)]
    else:
        machines = policies.machines_of(policy) if policy else pools.machines_for(project)
    if name and machines[0].retired_at:
        raise NoSuchMachine(f"machine {name} is retired: `manage.py machine return {name}` returns it to service")
    if not machines:
        raise NoSuchMachine(f"no machine measures {project}: `manage.py machine add NAME` registers one")
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
    remote, known = remote_of(project), dict(project.tags.values_list("name", "sha"))
    names = tags_of_remote(remote) if fetches else list(known)
    tags = newest_patches(names, pattern)
    if not tags:
        some = ", ".join(sorted(names)[-5:]) or "none"
        raise NoSuchThing(f"no release of {project} matches {pattern!r}: among its tags are {some}")
    if not fetches:
        return list(dict.fromkeys(known[tag] for tag in tags))
    shas = {tag: fetching.find_commit(project.slug, remote, f"refs/tags/{tag}") for tag in tags}
    # Stored here, so that the next look does not take them for new releases.
    Tag.objects.bulk_create([Tag(project=project, name=tag, sha=sha) for tag, sha in shas.items() if tag not in known])
    return list(dict.fromkeys(shas.values()))


def tags_of_remote(remote: Remote) -> list[str]:
    return [ref.removeprefix("refs/tags/") for ref in git.remote_refs(remote) if ref.startswith("refs/tags/")]


def queue_by_hand(selection: RunSelection) -> int:
    """Queue commits by hand, also those measured before. Return the number of runs."""
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
            f"run {number} is {run.status}: only a failed or cancelled run is queued again"
            " (`manage.py measure` measures a commit anew)"
        ) from None
    return f"run {number} is queued again"


def raise_run(number: int, who: str = "by hand") -> str:
    """Let a waiting run be the next of its machine. Return a message. Raises NoSuchThing."""
    run = run_numbered(number)
    if not queue.raise_run(run, who):
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


def run_numbered(number: int) -> Run:
    """The run with this number. Raises NoSuchThing."""
    run = Run.objects.filter(pk=number).first()
    if run is None:
        raise NoSuchThing(f"there is no run {number}: the queue's page lists the newest")
    return run


def benchmarks_named(benchmarks: list[Benchmark], names: list[str]) -> list[Benchmark]:
    """The benchmarks with these names; the name of a ladder stands for all its rungs."""
    return [b for b in benchmarks if b.name in names or (b.ladder and b.ladder in names)]


def check_known(suite: Suite, benchmarks: list[Benchmark], names: list[str]) -> None:
    """Raise NoSuchThing if the suite lacks one of these benchmarks."""
    unknown = set(names) - {b.name for b in benchmarks} - {b.ladder for b in benchmarks if b.ladder}
    if unknown:
        known = ", ".join(dict.fromkeys(b.ladder or b.name for b in benchmarks))
        raise NoSuchBenchmark(f"suite {suite} has no benchmark {', '.join(sorted(unknown))}: it has {known}")


def project_named(slug: str) -> Project:
    """The project with this slug. Raises NoSuchThing that lists the projects."""
    try:
        return Project.objects.get(slug=slug)
    except Project.DoesNotExist:
        known = ", ".join(Project.objects.values_list("slug", flat=True)) or "none; begin with `manage.py track`"
        raise NoSuchThing(f"there is no project {slug!r}: there are {known}") from None


def machine_named(name: str) -> Machine:
    """The machine with this name. Raises NoSuchThing that lists the machines."""
    try:
        return Machine.objects.get(name=name)
    except Machine.DoesNotExist:
        known = ", ".join(m.name for m in machines_by_name()) or "none; add one with `manage.py machine add NAME`"
        raise NoSuchMachine(f"there is no machine {name!r}: there are {known}") from None


def machine_with_runner(name: str) -> Machine:
    """The machine with this name.

    Raises NoSuchThing if its results come from outside: then nothing here can make it measure.
    """
    machine = machine_named(name)
    check_has_runner(machine)
    return machine


def check_has_runner(machine: Machine) -> None:
    if machine.outside:
        raise NoSuchThing(
            f"machine {machine} has no runner, its results are sent in: measure there, and send what was measured"
        )


def machines_by_name() -> QuerySet[Machine]:
    return Machine.objects.order_by("name")


@transaction.atomic
def add_machine(name: str, pool: str = "", days: int | None = None) -> str:
    """Register a machine for all projects. Return its token. Raises NoSuchThing if the name is taken or invalid."""
    return tokens.give(register(name, pool), days)


def register(name: str, pool: str = "") -> Machine:
    """Create a machine without a token. Raises NoSuchThing if its name is taken, or a name is invalid."""
    if pool:
        check_name(pool, "pool")
    machine = make_machine(name, pool=pool)
    machine.projects.add(*Project.objects.tracked())
    return machine


def register_outside(name: str) -> Machine:
    """Create a machine without a runner, whose results are sent in. Raises NoSuchThing as ``register`` does."""
    return make_machine(name, outside=True)


def make_machine(name: str, **columns: Any) -> Machine:
    check_name(name, "machine")
    try:
        with transaction.atomic():
            return Machine.objects.create(name=name, **columns)
    except IntegrityError:
        raise NoSuchThing(f"machine {name} exists: `manage.py machine token {name}` gives it a new token") from None


def check_name(name: str, what: str) -> None:
    """Raise NoSuchThing if no machine or pool can have this name."""
    try:
        validate_slug(name)
        MaxLengthValidator(LONGEST_SLUG)(name)
    except ValidationError:
        raise NoSuchThing(
            f"{name!r} is not a valid name of a {what}: use up to {LONGEST_SLUG} letters, digits, - and _"
        ) from None


def renew_token(name: str, who: User | None = None, days: int | None = None) -> str:
    """Give a machine a new token and return it. The old ones are invalid at once. Raises NoSuchThing."""
    machine = machine_with_runner(name)
    if machine.retired_at:
        raise NoSuchThing(f"machine {name} is retired: `manage.py machine return {name}` gives it a token, too")
    token = tokens.replace(machine, days)
    quarantine.record_event(machine, MachineEvent.Kind.RENEWED, "the old one is no longer valid", who)
    return token


def set_canary(
    name: str, slug: str, revision: str | None, names: list[str], who: User | None = None, fetches: bool = True
) -> Canary:
    """Make a commit (default: the head) with some benchmarks (default: one) of a project the machine's canary.

    ``fetches``: also a commit that the mirror lacks. Raises NoSuchThing, RepositoryError or DefinitionError.
    """
    machine, project = machine_with_runner(name), project_named(slug)
    definition = load_suite(project.suite)
    suite, benchmarks = store_suite(project, definition)
    check_known(suite, benchmarks, names)
    chosen = canary_benchmarks(suite, benchmarks, names)
    revision = revision or project.default_branch
    sha = fetching.find_commit(slug, remote_of(project), revision) if fetches else git.resolve_revision(slug, revision)
    frozen = FrozenCommit(project, store_commits(project, [sha])[sha], suite, store_set(suite, chosen))
    return canary.replace_canary(machine, frozen, who)


def canary_benchmarks(suite: Suite, benchmarks: list[Benchmark], names: list[str]) -> list[Benchmark]:
    """The benchmarks with these names; by default the one that suits a canary best. Raises NoSuchThing if none does."""
    suited = canary.first_closed_loop(benchmarks)
    chosen = benchmarks_named(benchmarks, names) or [b for b in [suited] if b]
    if not chosen:
        raise NoSuchThing(f"suite {suite} has no benchmark without a rate: name one")
    return chosen


def lift_quarantine(name: str, accept_level: bool) -> None:
    """End a machine's quarantine by hand. Raises NoSuchThing."""
    try:
        quarantine.lift_by_hand(machine_named(name), accept_level=accept_level)
    except quarantine.NotQuarantined as e:
        raise NoSuchThing(str(e)) from e
